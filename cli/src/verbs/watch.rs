//! `primalloc watch`: what of a process's memory grows.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::resource::{UsageWho, getrusage};

use super::meant::meant;
use super::profile_options::keep_output_free;
use super::report_files::{
    STANDARD_OUTPUT, all_of, check_files, print, print_beside, spare_program, take_output, tamed,
    tell, width_of, write, write_page,
};
use super::run::start_with;
use super::times::{time, time_from};
use crate::arguments::PreloadArguments;
use crate::child::Supervisor;
use crate::output::watch as output;
use crate::processes::start_of;
use crate::watch::{EVERY_MIN, End, Plan, Watched, watch};

const EXAMPLES: &str = "\
Examples:
  primalloc watch 4711                           until Ctrl-C
  primalloc watch -- ./server --port 7000        from its start to its end
  primalloc watch --every 10s --duration 8h --html night.html $(pidof service)
  primalloc watch --duration 1m --json 4711 | jq '.trends[] | select(.still_grows) | .use'

Each look is what primalloc explain tells of the process; the report shows what has become of each
part, whether it grew in every quarter of the time, which a program that warms up does not, and who
would know more. Nothing runs in the process, and nobody stops it.

A program is started on primalloc, as by primalloc run. The report goes to standard error then, for
standard output is the program's, and the exit status is the program's own; 125 if primalloc itself
fails, 126 or 127 if the program cannot be started.";

const EVERY: Duration = Duration::from_secs(1);
/// Of a program that may be short. Of one that is not looks become rarer.
const EVERY_AT_FIRST: Duration = Duration::from_millis(50);

/// Watch what of a process's memory grows, and whether it comes to rest
///
/// Looks at a running process again and again, until it ends, until Ctrl-C, or for --duration, or
/// starts a program and looks at that, and reports what its memory was used for over time: blocks
/// in use and of which sizes, caches, free memory, stacks, what was mapped past malloc.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "primalloc watch [OPTIONS] <PID>
       primalloc watch [OPTIONS] -- <PROGRAM>...")]
pub struct WatchArguments {
    /// The process, by its number (primalloc ps lists those on primalloc)
    #[arg(value_name = "PID", value_parser = number,
          allow_negative_numbers = true, required_unless_present = "command",
          conflicts_with_all = ["command", "options", "force"])]
    pid: Option<i32>,

    /// Time from look to look, 20ms at least; longer where looks take long or have become many; as
    /// a rule 1s, and 50ms of a program that is started
    #[arg(long, value_name = "TIME", value_parser = every, allow_negative_numbers = true)]
    every: Option<Duration>,

    /// Stop watching after this time, for example 10m or 8h
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    duration: Option<Duration>,

    /// Write JSON, to standard output (a program's then goes to standard error) or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the report with a chart as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    preload: PreloadArguments,

    /// The program to start and watch, and its arguments, behind --
    #[arg(value_name = "PROGRAM", last = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

fn number(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "a process has a number; a program stands behind --".to_owned())
}

fn every(text: &str) -> Result<Duration, String> {
    time_from(EVERY_MIN, text)
}

impl WatchArguments {
    fn files(&self) -> [&Option<PathBuf>; 2] {
        [&self.json, &self.html]
    }

    fn plan(&self, pid: i32, every: Duration) -> Plan {
        Plan { pid, every: self.every.unwrap_or(every), duration: self.duration }
    }
}

pub fn run(arguments: &WatchArguments) -> Result<ExitCode> {
    spare_program(arguments.files(), &arguments.command)?;
    check_files(arguments.files(), &[])?;
    match arguments.pid {
        Some(pid) => watch_process(arguments, meant(pid)),
        None => watch_program(arguments),
    }
}

fn watch_process(arguments: &WatchArguments, pid: i32) -> Result<ExitCode> {
    let mut supervisor = Supervisor::of_work()?;
    // Shown on a terminal only.
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{wide_msg}")?);
    let show = |found: &_| {
        let width = width_of(std::io::stderr().is_terminal());
        bar.set_message(tamed(&output::progress(found, width)));
    };
    let wait = |is_over: &dyn Fn() -> bool| supervisor.wait_for_request(is_over);
    let found = watch(&arguments.plan(pid, EVERY), wait, show)?;
    drop(supervisor);
    bar.finish_and_clear();
    report(arguments, &found, true)?;
    Ok(ExitCode::SUCCESS)
}

/// The program has its signals, as with `run`, and goes on when the time is up.
fn watch_program(arguments: &WatchArguments) -> Result<ExitCode> {
    let is_quiet = take_output(arguments.files());
    let mut program = start_with(&arguments.preload, &arguments.command, |command| {
        if is_quiet { keep_output_free(command) } else { Ok(()) }
    })?;
    let pid = program.pid();
    let mut outcome = program.wait_for_library()?;
    let wait = |is_over: &dyn Fn() -> bool| {
        outcome = program.wait_for_end_unless(is_over)?;
        Ok(false)
    };
    let (was_seen, written) = match watch(&arguments.plan(pid, EVERY_AT_FIRST), wait, |_| ()) {
        Ok(mut found) => {
            if found.end == End::ProcessEnded {
                // Looks end before the program is waited for.
                outcome = Some(outcome.map_or_else(|| program.wait_for_end(), Ok)?);
                program.leave_signals();
                if let Some(bytes) = peak_of_program() {
                    found.set_peak(bytes);
                }
            }
            (true, report(arguments, &found, false))
        }
        Err(_) if start_of(pid).is_none() => {
            tell("the program has ended before it could be looked at");
            (false, Ok(()))
        }
        Err(error) => {
            tell(format!("{error:#}"));
            (false, Ok(()))
        }
    };
    let outcome = outcome.map_or_else(|| program.wait_for_end(), Ok)?;
    written?;
    Ok(if was_seen { outcome.imitate() } else { outcome.imitate_failure() })
}

/// What the kernel has counted of the program. That begins as a copy of the tool, so what is no
/// more than the tool's own may be just that.
fn peak_of_program() -> Option<u64> {
    let peak = |who| Some(getrusage(who).ok()?.max_rss() as u64 * 1024);
    peak(UsageWho::RUSAGE_CHILDREN).filter(|&bytes| Some(bytes) > peak(UsageWho::RUSAGE_SELF))
}

fn report(arguments: &WatchArguments, found: &Watched, to_output: bool) -> Result<()> {
    let text = |is_terminal| output::text(found, width_of(is_terminal));
    let printed = if take_output(arguments.files()) {
        Ok(())
    } else if to_output {
        print(&text(std::io::stdout().is_terminal()))
    } else {
        print_beside(&text(std::io::stderr().is_terminal()))
    };
    let json = |path: &PathBuf| write(path, output::json(found));
    let html = |path: &PathBuf| write_page(path, &output::html(found)?);
    all_of([
        printed,
        arguments.json.as_ref().map_or(Ok(()), json),
        arguments.html.as_ref().map_or(Ok(()), html),
    ])
}
