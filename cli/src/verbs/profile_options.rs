//! What verbs about profiles share: which part is shown, and where it is written to.

use std::io::IsTerminal;
use std::num::{IntErrorKind, ParseIntError};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::arguments::SymbolArguments;
use crate::input;
use crate::output::profile as output;
use crate::output::{Host, printable};
use crate::profile::{self, Kind, Profile, Sample, Series, Sites, Stacks, View};
use crate::verbs::report_files::{
    STANDARD_OUTPUT, all_of, limit_of, print, print_beside, take_output, write, write_page,
};

#[derive(Args)]
pub struct ShownArguments {
    /// What is asked for; as a rule what is in use, but the peak of a program that was run, or that
    /// had given back all but a hundredth of it when it ended
    #[arg(long, value_enum)]
    pub view: Option<View>,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows,
          allow_negative_numbers = true)]
    pub top: usize,

    /// Only what threads of this name have allocated
    #[arg(long, value_name = "NAME")]
    pub thread: Option<String>,

    /// Only what was allocated under this tag
    #[arg(long, value_name = "NAME")]
    pub tag: Option<String>,

    #[command(flatten)]
    pub symbols: SymbolArguments,
}

#[derive(Args)]
pub struct WrittenArguments {
    /// In order of what functions asked for with those that they call
    #[arg(long)]
    pub cumulative: bool,

    /// Write the profile with names and lines in it, for pprof and others; like any FILE, - is
    /// standard output
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,

    /// Write stacks as lines, for tools that draw flame graphs
    #[arg(long, value_name = "FILE")]
    pub collapsed: Option<PathBuf>,

    #[command(flatten)]
    pub page: PageArguments,
}

/// The forms that are whole reports.
#[derive(Args)]
pub struct PageArguments {
    /// Write the report as one self-contained HTML page with flame graph, treemap and charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the report as JSON, to standard output, where nothing else goes then, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    pub json: Option<PathBuf>,
}

impl PageArguments {
    pub fn files(&self) -> [&Option<PathBuf>; 2] {
        [&self.html, &self.json]
    }

    pub fn write(&self, source: &output::Source) -> Result<()> {
        let html = |path: &PathBuf| write_page(path, &output::html(source)?);
        let json = |path: &PathBuf| write(path, output::json(source, None));
        all_of([self.html.as_ref().map_or(Ok(()), html), self.json.as_ref().map_or(Ok(()), json)])
    }

    pub fn write_changes(&self, sources: &output::Sources) -> Result<()> {
        let html = |path: &PathBuf| write_page(path, &output::changes_html(sources)?);
        let json = |path: &PathBuf| write(path, output::changes_json(sources, None));
        all_of([self.html.as_ref().map_or(Ok(()), html), self.json.as_ref().map_or(Ok(()), json)])
    }
}

/// How many rows of a table are shown.
pub fn rows(text: &str) -> Result<usize, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "no table has so many rows".to_owned(),
        _ => "a whole number of rows is needed".to_owned(),
    })
}

/// Sends a program's standard output to standard error.
pub fn keep_output_free(command: &mut Command) -> Result<()> {
    let standard_error = std::io::stderr().as_fd().try_clone_to_owned();
    command.stdout(standard_error.context("cannot copy standard error")?);
    Ok(())
}

/// Where and under what name a report is shown.
pub struct Heading<'a> {
    pub verb: &'static str,
    pub title: &'a str,
    /// Reports about files go to standard output, others beside the program's.
    pub to_output: bool,
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
        let usual = View::usual(&[&profile]);
        self.prepare(profile, usual).with_context(|| input::name_of(path))
    }

    /// Two that are compared: of both the same is shown.
    pub fn open_both(&self, before: &Path, after: &Path) -> Result<(Shown, Shown)> {
        if input::is_standard(before) && input::is_standard(after) {
            bail!("standard input can be read only once: name a file for the other profile");
        }
        let (first, second) = (profile::read(before)?, profile::read(after)?);
        let usual = View::usual(&[&first, &second]);
        let prepare = |profile, path: &Path| {
            self.prepare(profile, usual).with_context(|| input::name_of(path))
        };
        Ok((prepare(first, before)?, prepare(second, after)?))
    }

    /// With the view that is shown first if none is asked for; without one the profile says.
    pub fn prepare(&self, mut profile: Profile, usual: Option<View>) -> Result<Shown> {
        let mut series = profile::series(&profile);
        if series.is_empty() {
            let names: Vec<&str> = profile.value_types.iter().map(|t| t.name.as_str()).collect();
            bail!("is no profile of memory: its values are {}", printable(&names.join(", ")));
        }
        put_first(self.view.or(usual), &profile, &mut series)?;
        for (what, wanted) in [("thread", &self.thread), ("tag", &self.tag)] {
            if let Some(wanted) = wanted {
                keep(&mut profile, what, wanted)?;
            }
        }
        let mut remarks = profile::symbolise(&mut profile, self.symbols.debug_directory.as_deref());
        if remarks.is_empty() {
            let library = Stacks::new(&profile).mostly_nameless(series[0].bytes);
            remarks.extend(library.as_deref().map(nameless_remark));
        }
        remarks.extend(output::remark(&profile));
        remarks.extend(output::few_samples(&profile, &series[0]));
        Ok(Shown { profile, series, remarks })
    }

    pub fn layout(&self, is_terminal: bool, is_cumulative: bool) -> output::Layout {
        output::Layout { width: limit_of(is_terminal), rows: self.top, is_cumulative }
    }
}

fn nameless_remark(library: &str) -> String {
    let library = printable(library);
    format!(
        "Most of it is asked for by functions that have no names here, those of {library} first: \
         its debug symbols would name them (a package -dbgsym or -dbg, or --debug-directory). What \
         they ask for counts for the first function with a name that called them, if their library \
         has one."
    )
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
            _ => bail!(
                "has no {what} '{}'; it has {}",
                printable(wanted),
                printable(&names.join(", "))
            ),
        }
    }
    profile.retain(|profile, sample| &*profile.names[number(sample) as usize] == wanted);
    Ok(())
}

impl WrittenArguments {
    pub fn files(&self) -> impl Iterator<Item = &Option<PathBuf>> {
        [&self.pprof, &self.collapsed].into_iter().chain(self.page.files())
    }

    /// Prints the profile, on standard error if the program's output is on the other, and writes
    /// what else is asked for. What fails takes nothing with it.
    pub fn report(
        &self,
        heading: &Heading,
        shown: &Shown,
        arguments: &ShownArguments,
    ) -> Result<()> {
        let stacks = Stacks::new(&shown.profile);
        let text = || match take_output(self.files()) {
            true => Ok(()),
            false => heading.print(&self.text(heading, shown, &stacks, arguments)),
        };
        let pprof = |path: &PathBuf| write(path, profile::encode(&shown.profile)?);
        let collapsed = |path: &PathBuf| write(path, output::collapsed(&stacks, &shown.series[0]));
        heading.beside(text, || {
            all_of([
                self.page.write(&heading.source(shown, &stacks)),
                self.pprof.as_ref().map_or(Ok(()), pprof),
                self.collapsed.as_ref().map_or(Ok(()), collapsed),
            ])
        })
    }

    fn text(
        &self,
        heading: &Heading,
        shown: &Shown,
        stacks: &Stacks,
        arguments: &ShownArguments,
    ) -> String {
        let is_terminal = heading.is_terminal();
        let of_leaks = shown.profile.facts.kind == Some(Kind::Leaks);
        let width = limit_of(is_terminal);
        let losses = output::leaks(heading.title, stacks, width, arguments.top);
        let mut text = match losses.filter(|_| of_leaks) {
            Some((text, _)) => text,
            None => {
                let sites = Sites::new(stacks, &shown.series[0]);
                let layout = arguments.layout(is_terminal, self.cumulative);
                output::text(heading.title, stacks, &sites, &shown.series, &layout)
            }
        };
        for remark in &shown.remarks {
            text += &format!("\n{remark}\n");
        }
        text
    }
}

impl Heading<'_> {
    pub fn is_terminal(&self) -> bool {
        if self.to_output {
            std::io::stdout().is_terminal()
        } else {
            std::io::stderr().is_terminal()
        }
    }

    pub fn print(&self, text: &str) -> Result<()> {
        if self.to_output { print(text) } else { print_beside(text) }
    }

    /// Text first for who watches; else last, for who reads it, as `head`, may end us before its
    /// end.
    pub fn beside(
        &self,
        print: impl FnOnce() -> Result<()>,
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.is_terminal() { all_of([print(), write()]) } else { all_of([write(), print()]) }
    }

    pub fn source<'a>(&'a self, shown: &'a Shown, stacks: &'a Stacks) -> output::Source<'a> {
        output::Source {
            verb: self.verb,
            title: self.title,
            stacks,
            series: &shown.series,
            remarks: &shown.remarks,
            host: (!self.to_output).then(Host::of_this_machine),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Labels, sample};

    #[test]
    fn names_that_a_profile_has_stay_in_the_line_of_the_complaint() {
        let mut profile = sample::service();
        let thread = profile.name_number("red\x1b[31m\nprimalloc: all is well");
        profile.push([0], [1; 8], Labels { thread, ..Labels::default() });
        let complaint = keep(&mut profile, "thread", "x\n").unwrap_err().to_string();
        assert_eq!(
            complaint,
            "has no thread 'x�'; it has red�[31m�primalloc: all is well, service, worker"
        );
        assert!(nameless_remark("lib\x1b[8m.so").contains("those of lib�[8m.so first"));
    }
}
