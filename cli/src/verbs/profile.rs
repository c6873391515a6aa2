//! `primalloc profile`: a program under the library with its profiler on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::profile_options::{ShownArguments, WrittenArguments};
use super::report_files::{check_writable, shell_text};
use super::run::run_with;
use super::temporary::TemporaryDirectory;
use crate::arguments::ProgramArguments;
use crate::profile::{self, Profile, View};

const EXAMPLES: &str = "\
Examples:
  primalloc profile -- python3 script.py
  primalloc profile --rate 1 -- ./small-program
  primalloc profile --view peak --keep heap.pb.gz -- redis-server --port 7000

One allocation in every 512 KiB, or what --rate says, is recorded with its stack; figures are
estimates of the whole. --rate 1 records every call. A program that ends by a signal or by _exit
writes no profile.

The report goes to standard error, for standard output is the program's.

Exit status: the program's own; 125 if primalloc itself fails or there is no profile, 126 or 127 if
the program cannot be started.";

const VARIABLE: &str = "PRIMALLOC_PROFILE";

/// Run a program and show who holds its memory: live, at the peak, in all
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArguments {
    /// Mean number of bytes between samples, for example 64K; 1 records every call
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<String>,

    /// Keep the profile in this file (.pb.gz), for report, diff and pprof
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,

    #[command(flatten)]
    shown: ShownArguments,

    #[command(flatten)]
    written: WrittenArguments,

    #[command(flatten)]
    program: ProgramArguments,
}

/// "512K", "1M", "4096"; the library understands them as they are.
fn rate(text: &str) -> Result<String, String> {
    let digits = text.strip_suffix(['k', 'K', 'm', 'M']).unwrap_or(text);
    match digits.parse::<u64>() {
        Ok(1..=1_000_000_000) => Ok(text.to_owned()),
        _ => Err("a number of bytes such as 512K is needed".to_owned()),
    }
}

pub fn run(arguments: &ProfileArguments) -> Result<ExitCode> {
    arguments.written.check()?;
    if let Some(path) = &arguments.keep {
        check_writable(path)?;
    }
    let directory = TemporaryDirectory::new()?;
    let mut setting = directory.path().join("heap.pb.gz").into_os_string();
    if let Some(rate) = &arguments.rate {
        setting.push(format!(",rate={rate}"));
    }
    let (pid, outcome) = run_with(&arguments.program, |command| {
        command.env(VARIABLE, &setting);
    })?;
    let Some((path, profile)) = profile_of(&directory, pid)? else {
        anstream::eprintln!(
            "primalloc: the program has written no profile: it ended by a signal or by _exit, or \
             this library has no profiler"
        );
        drop(directory);
        return Ok(outcome.imitate_failure());
    };
    if let Some(kept) = &arguments.keep {
        std::fs::copy(&path, kept)
            .with_context(|| format!("{}: cannot be written", kept.display()))?;
    }
    let shown =
        arguments.shown.prepare(profile, Some(View::Peak)).context("the program's profile")?;
    let title = shell_text(&arguments.program.command);
    arguments.written.report(&title, &shown, &arguments.shown, false)?;
    let others = directory.profiles().len() - 1;
    if others > 0 {
        anstream::eprintln!("{others} more profiles, of processes that it started, are not shown.");
    }
    // A program's signal may end us here.
    drop(directory);
    Ok(outcome.imitate())
}

/// That of the program itself, else the only one that there is.
fn profile_of(directory: &TemporaryDirectory, pid: u64) -> Result<Option<(PathBuf, Profile)>> {
    let files = directory.profiles();
    let mut last = None;
    for path in &files {
        let profile = read(path)?;
        if profile.facts.program.as_ref().is_some_and(|(own, _)| *own == pid) {
            return Ok(Some((path.clone(), profile)));
        }
        last = Some((path.clone(), profile));
    }
    Ok(last)
}

fn read(path: &Path) -> Result<Profile> {
    let profile = profile::read(path)?;
    if profile.facts.kind.is_none() {
        bail!("{}: is not what this library writes", path.display());
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes() {
        assert!(rate("512K").is_ok() && rate("1").is_ok() && rate("4M").is_ok());
        assert!(rate("0").is_err() && rate("fast").is_err() && rate("1,signal=9").is_err());
    }
}
