//! What verbs about profiles share: which part is shown, and where it is written to.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::output::profile as output;
use crate::profile::{self, Profile, Sample, Series, Sites, Stacks, View};
use crate::verbs::report_files::{check_writable, width_of, write};

#[derive(Args)]
pub struct ShownArguments {
    /// What is asked for; as a rule what is in use, and the peak of a program that has ended
    #[arg(long, value_enum)]
    pub view: Option<View>,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// Only what threads of this name have allocated
    #[arg(long, value_name = "NAME")]
    pub thread: Option<String>,

    /// Only what was allocated under this tag
    #[arg(long, value_name = "NAME")]
    pub tag: Option<String>,
}

#[derive(Args)]
pub struct WrittenArguments {
    /// In order of what functions asked for with those that they call
    #[arg(long)]
    pub cumulative: bool,

    /// Write the profile with names and lines in it, for pprof and others
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,

    /// Write stacks as lines, for tools that draw flame graphs
    #[arg(long, value_name = "FILE")]
    pub collapsed: Option<PathBuf>,
}

/// A profile that is ready to be shown.
pub struct Shown {
    pub profile: Profile,
    /// The one that is asked for first.
    pub series: Vec<Series>,
    pub remarks: Vec<String>,
}

impl ShownArguments {
    pub fn open(&self, path: &Path) -> Result<Shown> {
        let profile = profile::read(path)?;
        self.prepare(profile, None).with_context(|| path.display().to_string())
    }

    /// With the view that is shown first if none is asked for; without one the profile says.
    pub fn prepare(&self, mut profile: Profile, usual: Option<View>) -> Result<Shown> {
        let mut series = profile::series(&profile);
        if series.is_empty() {
            let names: Vec<&str> = profile.value_types.iter().map(|t| t.name.as_str()).collect();
            bail!("is no profile of memory: its values are {}", names.join(", "));
        }
        put_first(self.view.or(usual), &profile, &mut series)?;
        for (what, wanted) in [("thread", &self.thread), ("tag", &self.tag)] {
            if let Some(wanted) = wanted {
                keep(&mut profile, what, wanted)?;
            }
        }
        let remarks = profile::symbolise(&mut profile);
        Ok(Shown { profile, series, remarks })
    }

    pub fn layout(&self, is_terminal: bool, is_cumulative: bool) -> output::Layout {
        output::Layout { width: width_of(is_terminal), rows: self.top, is_cumulative }
    }
}

fn put_first(view: Option<View>, profile: &Profile, series: &mut [Series]) -> Result<()> {
    let of_default = |series: &Series| {
        let name = &profile.value_types[series.bytes].name;
        profile.default_type.as_ref() == Some(name)
    };
    let at = match view {
        None => series.iter().position(of_default).unwrap_or(0),
        Some(view) => match series.iter().position(|series| series.key == view.key()) {
            Some(at) => at,
            None => {
                let labels: Vec<&str> = series.iter().map(|s| s.label.as_str()).collect();
                bail!("has no such view; it has {}", labels.join(", "));
            }
        },
    };
    series[..=at].rotate_right(1);
    Ok(())
}

fn keep(profile: &mut Profile, what: &str, wanted: &str) -> Result<()> {
    let number = |sample: Sample| match what {
        "thread" => sample.labels.thread,
        _ => sample.labels.tag,
    };
    let is_there =
        profile.samples().any(|sample| &*profile.names[number(sample) as usize] == wanted);
    if !is_there {
        let mut names: Vec<&str> =
            profile.samples().map(|sample| &*profile.names[number(sample) as usize]).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !name.is_empty());
        match names.len() {
            0 => bail!("names no {what} at all"),
            _ => bail!("has no {what} '{wanted}'; it has {}", names.join(", ")),
        }
    }
    profile.retain(|profile, sample| &*profile.names[number(sample) as usize] == wanted);
    Ok(())
}

impl WrittenArguments {
    pub fn check(&self) -> Result<()> {
        [&self.pprof, &self.collapsed]
            .into_iter()
            .flatten()
            .try_for_each(|path| check_writable(path))
    }

    /// Prints the profile, on standard error if the program's output is on the other, and writes
    /// what else is asked for.
    pub fn report(
        &self,
        title: &str,
        shown: &Shown,
        arguments: &ShownArguments,
        to_output: bool,
    ) -> Result<()> {
        let stacks = Stacks::new(&shown.profile);
        let sites = Sites::new(&stacks, &shown.series[0]);
        let is_terminal = if to_output {
            std::io::stdout().is_terminal()
        } else {
            std::io::stderr().is_terminal()
        };
        let layout = arguments.layout(is_terminal, self.cumulative);
        let mut text = output::text(title, &stacks, &sites, &shown.series, &layout);
        for remark in &shown.remarks {
            text += &format!("\n{remark}\n");
        }
        if to_output {
            anstream::print!("{text}");
        } else {
            anstream::eprint!("{text}");
        }
        if let Some(path) = &self.pprof {
            let bytes = profile::encode(&shown.profile)?;
            fs::write(path, bytes)
                .with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        if let Some(path) = &self.collapsed {
            write(path, &output::collapsed(&stacks, &shown.series[0]))?;
        }
        Ok(())
    }
}
