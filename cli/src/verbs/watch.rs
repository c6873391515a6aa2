//! `primalloc watch`: what of a process's memory grows.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::report_files::{
    STANDARD_OUTPUT, all_of, check_files, print, take_output, tamed, width_of, write,
};
use super::times::time;
use crate::child::Supervisor;
use crate::output::watch as output;
use crate::watch::{Plan, watch};

const EXAMPLES: &str = "\
Examples:
  primalloc watch 4711                           until Ctrl-C
  primalloc watch --every 10s --duration 8h --html night.html $(pidof service)
  primalloc watch --duration 1m --json 4711 | jq '.trends[] | select(.still_grows) | .use'

Each look is what primalloc explain tells of the process; the report shows what has become of each
part, whether it grew in every quarter of the time, which a program that warms up does not, and who
would know more. Nothing runs in the process, and nobody stops it.";

/// Watch what of a process's memory grows, and whether it comes to rest
///
/// Looks at a running process again and again, until it ends, until Ctrl-C, or for --duration, and
/// reports what its memory was used for over time: blocks in use and of which sizes, caches, free
/// memory, stacks, what was mapped past malloc.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArguments {
    /// The process, by its number (primalloc ps lists those on primalloc)
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..),
          allow_negative_numbers = true)]
    pid: i32,

    /// Time from look to look, for example 10s; longer where looks take long or have become many
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s",
          allow_negative_numbers = true)]
    every: Duration,

    /// Stop watching after this time, for example 10m or 8h
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    duration: Option<Duration>,

    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the report with a chart as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl WatchArguments {
    fn files(&self) -> [&Option<PathBuf>; 2] {
        [&self.json, &self.html]
    }
}

pub fn run(arguments: &WatchArguments) -> Result<ExitCode> {
    check_files(arguments.files(), &[])?;
    let mut supervisor = Supervisor::new()?;
    let plan = Plan { pid: arguments.pid, every: arguments.every, duration: arguments.duration };
    // Shown on a terminal only.
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{wide_msg}")?);
    let show = |found: &_| bar.set_message(tamed(&output::progress(found)));
    let found = watch(&plan, &mut supervisor, show)?;
    bar.finish_and_clear();
    if !take_output(arguments.files()) {
        let width = width_of(std::io::stdout().is_terminal());
        print(&output::text(&found, width))?;
    }
    let json = |path: &PathBuf| write(path, output::json(&found));
    let html = |path: &PathBuf| write(path, output::html(&found)?);
    all_of([
        arguments.json.as_ref().map_or(Ok(()), json),
        arguments.html.as_ref().map_or(Ok(()), html),
    ])?;
    Ok(ExitCode::SUCCESS)
}
