//! What `compare` and `advise` share: how the program runs, how it is measured, where reports go.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::allocators::{self, Candidate};
use crate::arguments::ProgramArguments;
use crate::child::Supervisor;
use crate::input;
use crate::measure::{self, Plan, ProgramOutput, Run};
use crate::output::{Entry, Formats, Host, Report};
use crate::program::{self, Program};
use crate::verbs::report_files::{
    STANDARD_OUTPUT, all_of, check_files, limit_of, print, shell_text, spare_program, take_output,
    tell, width_of, write, write_page,
};

#[derive(Args)]
pub struct MeasuredArguments {
    /// Runs under each allocator before that, which are not counted
    #[arg(long, default_value_t = 1, value_parser = warmup_runs, allow_negative_numbers = true)]
    warmup: usize,

    /// Give the program this file as standard input (else it is empty); - is the tool's own
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(input_file),
          value_hint = ValueHint::FilePath)]
    input: Option<PathBuf>,

    /// Where the program's standard output goes: inherit, discard, or a file
    #[arg(long, value_name = "WHERE", default_value = "discard", value_parser = program_output)]
    output: ProgramOutput,

    /// Write the report as JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the report as Markdown, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    markdown: Option<PathBuf>,

    /// Write the report with plots as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    pub program: ProgramArguments,
}

/// Nobody waits for more.
const RUNS_MAX: usize = 1_000_000;

pub fn runs(text: &str) -> Result<usize, String> {
    match warmup_runs(text) {
        Ok(0) => Err("at least one run is needed".to_owned()),
        runs => runs,
    }
}

fn warmup_runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number <= RUNS_MAX => Ok(number),
        _ => Err(format!("a whole number of at most {RUNS_MAX} is needed")),
    }
}

fn program_output(text: &str) -> Result<ProgramOutput, String> {
    Ok(match text {
        "inherit" | STANDARD_OUTPUT => ProgramOutput::Inherit,
        "discard" => ProgramOutput::Discard,
        "" => return Err("neither inherit, nor discard, nor the name of a file".to_owned()),
        path => ProgramOutput::File(PathBuf::from(path)),
    })
}

fn input_file(word: OsString) -> Result<PathBuf, String> {
    if word.is_empty() { Err("is no name of a file".to_owned()) } else { Ok(input::as_file(word)) }
}

/// Each run is to read the same.
fn check_input(path: &Path) -> Result<()> {
    let found = fs::metadata(path).with_context(|| path.display().to_string())?.file_type();
    if found.is_dir() {
        bail!("{}: is a directory, not a file to read", path.display());
    }
    if found.is_fifo() || found.is_socket() {
        bail!("{}: can be read only once, by the first run: name a file", path.display());
    }
    Ok(())
}

/// Whether something waits on standard input, which is not for the program.
fn has_input() -> bool {
    let input = io::stdin();
    let Ok(facts) = input.as_fd().try_clone_to_owned().and_then(|copy| File::from(copy).metadata())
    else {
        return false;
    };
    let mut asked = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let is_ready = poll(&mut asked, PollTimeout::ZERO).is_ok()
        && asked[0].revents().is_some_and(|found| found.contains(PollFlags::POLLIN));
    let kind = facts.file_type();
    kind.is_file() && facts.len() > 0 || kind.is_fifo() && is_ready
}

impl MeasuredArguments {
    fn reports(&self) -> [&Option<PathBuf>; 3] {
        [&self.json, &self.markdown, &self.html]
    }

    /// What is read and what is written, the program's own output with it.
    pub fn check_files(&self) -> Result<()> {
        self.input.as_deref().map_or(Ok(()), check_input)?;
        let output = match &self.output {
            ProgramOutput::Inherit => Some(PathBuf::from(STANDARD_OUTPUT)),
            ProgramOutput::Discard => None,
            ProgramOutput::File(path) => Some(path.clone()),
        };
        let sources: Vec<&Path> = self.input.as_deref().into_iter().collect();
        let written = || self.reports().into_iter().chain([&output]);
        spare_program(written(), &self.program.command)?;
        check_files(written(), &sources)
    }

    pub fn plan<'a>(
        &'a self,
        program: &'a Program,
        candidates: &'a [Candidate],
        runs: usize,
    ) -> Plan<'a> {
        Plan {
            program,
            candidates,
            options: self.program.preload.settings().cloned().collect(),
            input: self.input.clone(),
            output: self.output.clone(),
            runs,
            warmup: self.warmup,
        }
    }

    /// To be called before the first run, whatever it may find.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        self.check_libraries(plan)?;
        self.program.preload.list_options()?;
        check_options(plan)
    }

    /// Makes sure that every library gets into the program, and is an allocator's: with another one
    /// glibc would be measured under its name.
    fn check_libraries(&self, plan: &Plan) -> Result<()> {
        if plan.program.own_malloc().is_some() {
            tell(plan.program.own_malloc_remark());
        }
        let mut checked: Vec<&Path> = Vec::new();
        for library in plan.candidates.iter().filter_map(Candidate::library) {
            if checked.contains(&library) {
                continue;
            }
            checked.push(library);
            match program::check_preloadable(plan.program, library) {
                Err(reason) if reason.is_only_about_preloading() && self.program.preload.force => {}
                answer => {
                    answer?;
                    measure::check_loads(plan.program, library)?;
                    allocators::check_serves(library)?;
                }
            }
        }
        Ok(())
    }

    /// What the runs of a plan have shown.
    pub fn report(&self, plan: &Plan, measured: &[Vec<Run>]) -> Report {
        let entry = |(candidate, runs): (&Candidate, &Vec<Run>)| {
            Entry::new(candidate, candidate.allocator.try_out().version, runs)
        };
        Report {
            command: shell_text(&self.program.command),
            host: Host::of_this_machine(),
            runs: plan.runs,
            warmup: plan.warmup,
            entries: plan.candidates.iter().zip(measured).map(entry).collect(),
        }
    }

    pub fn write(&self, report: &impl Formats) -> Result<()> {
        // Not sooner, for whoever is to write to it may have begun together with the tool.
        if self.input.is_none() && has_input() {
            tell(
                "the program read nothing, for standard input is not passed on: name --input FILE",
            );
        }
        if !take_output(self.reports()) {
            print(&report.table(limit_of(io::stdout().is_terminal())))?;
        }
        let json = |path: &PathBuf| write(path, report.json());
        let markdown = |path: &PathBuf| write_page(path, &report.markdown());
        let html = |path: &PathBuf| write_page(path, &report.html()?);
        all_of([
            self.json.as_ref().map_or(Ok(()), json),
            self.markdown.as_ref().map_or(Ok(()), markdown),
            self.html.as_ref().map_or(Ok(()), html),
        ])
    }
}

/// Refuses options that a library can't use: what is measured would not be what its name says. What
/// it says of those in the caller's environment is passed on, for what the runs say is not shown.
fn check_options(plan: &Plan) -> Result<()> {
    let mut told: Vec<String> = Vec::new();
    let mut is_refused = false;
    for candidate in plan.candidates {
        let Some(library) = candidate.library() else { continue };
        if plan.options.is_empty() && candidate.settings.is_empty() {
            continue;
        }
        let settings = plan.options.iter().chain(&candidate.settings);
        let complaints = allocators::option_complaints(library, settings)?;
        let inherited = match complaints.is_empty() {
            true => Vec::new(),
            false => allocators::option_complaints(library, &[])?,
        };
        for complaint in complaints {
            is_refused |= !inherited.contains(&complaint);
            if !told.contains(&complaint) {
                tell(&complaint);
                told.push(complaint);
            }
        }
    }
    if is_refused {
        bail!("nothing is measured with options that cannot be used");
    }
    if !plan.options.is_empty() && !plan.candidates.iter().any(Candidate::is_primalloc) {
        tell("only primalloc heeds --option, and it is not among the allocators");
    }
    Ok(())
}

const BAR_WIDTH_MAX: usize = 40;
const BAR_WIDTH_MIN: usize = 4;
/// What is beside it: "run 12 of 24, primalloc, 5 seconds left".
const PROGRESS_TEXT_WIDTH: usize = 40;

pub fn progress_bar(plan: &Plan) -> Result<ProgressBar> {
    let bar = match plan.output {
        ProgramOutput::Inherit => ProgressBar::hidden(),
        _ => ProgressBar::new(plan.runs_total() as u64),
    };
    bar.set_style(progress_style(width_of(io::stderr().is_terminal()))?);
    Ok(bar)
}

/// Of one line: the text is cut, and where it has no room beside a bar there is none.
fn progress_style(width: usize) -> Result<ProgressStyle> {
    let template = match width.saturating_sub(PROGRESS_TEXT_WIDTH) {
        ..BAR_WIDTH_MIN => "{wide_msg}".to_owned(),
        left => format!("{{bar:{}.cyan/dim}} {{wide_msg}}", left.min(BAR_WIDTH_MAX)),
    };
    Ok(ProgressStyle::with_template(&template)?.progress_chars("━╸─"))
}

pub fn carry_out(
    plan: &Plan,
    supervisor: &mut Supervisor,
    bar: &ProgressBar,
) -> Result<Vec<Vec<Run>>> {
    plan.carry_out(supervisor, |candidate| {
        bar.set_message(progress_text(bar, &candidate.name));
        bar.inc(1);
    })
}

/// What is under way; how long the rest takes only those can tell that are over.
fn progress_text(bar: &ProgressBar, name: &str) -> String {
    let (over, all) = (bar.position(), bar.length().unwrap_or_default());
    let text = format!("run {} of {all}, {name}", over + 1);
    if over == 0 {
        return text;
    }
    let left = bar.elapsed().mul_f64(all.saturating_sub(over) as f64 / over as f64);
    format!("{text}, {} left", HumanDuration(left))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal of this width, and what was written to it.
    #[derive(Clone, Debug)]
    struct Terminal(u16, Arc<Mutex<Vec<String>>>);

    impl Terminal {
        fn write(&self, text: &str) -> io::Result<()> {
            self.1.lock().unwrap().push(text.to_owned());
            Ok(())
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            self.0
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_is_one_line_on_every_terminal() {
        for width in [10, 40, 44, 50, 80, 200] {
            let terminal = Terminal(width, Arc::default());
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            let bar = ProgressBar::with_draw_target(Some(24), target);
            bar.set_style(progress_style(width.into()).unwrap());
            bar.set_position(11);
            bar.abandon_with_message("run 12 of 24, primalloc:cache_thread=256K, 5 seconds left");
            let written = terminal.1.lock().unwrap();
            let plain = |text: &String| anstream::adapter::strip_str(text).to_string();
            let lines: Vec<String> = written.iter().map(plain).collect();
            assert!(lines.iter().any(|line| line.contains("run 12 of")), "{width}: {lines:?}");
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width.into()), "{width}: {lines:?}");
        }
    }

    #[test]
    fn the_first_run_says_nothing_of_the_rest() {
        let bar = ProgressBar::with_draw_target(Some(4), ProgressDrawTarget::hidden());
        assert_eq!(progress_text(&bar, "glibc"), "run 1 of 4, glibc");
        bar.inc(1);
        let text = progress_text(&bar, "glibc:A=1");
        assert!(text.starts_with("run 2 of 4, glibc:A=1, ") && text.ends_with(" left"), "{text}");
    }
}
