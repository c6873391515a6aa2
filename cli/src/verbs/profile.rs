//! `primalloc profile`: a program under the library with its profiler on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::profile_options::{Heading, ShownArguments, WrittenArguments, keep_output_free};
use super::report_files::{check_writable, shell_text};
use super::run::run_with;
use super::temporary::TemporaryDirectory;
use crate::arguments::ProgramArguments;
use crate::profile::{self, Profile, View};

const EXAMPLES: &str = "\
Examples:
  primalloc profile -- python3 script.py
  primalloc profile --rate 1 -- ./small-program
  primalloc profile --html heap.html -- python3 script.py
  primalloc profile --view peak --keep heap.pb.gz -- redis-server --port 7000

One allocation in every 512 KiB is recorded with its stack, or fewer where that would take more than
1 % of the time; figures are estimates of the whole. --rate says how many, whatever the time, and
--rate 1 records every call. A program that ends by a signal or by _exit
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

    /// Percent of the time that sampling may take; 1 as a rule, without bound if --rate is given
    #[arg(long, value_name = "PERCENT", value_parser = budget)]
    budget: Option<String>,

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

/// "2", "0.05"; the library understands up to four digits behind the point.
fn budget(text: &str) -> Result<String, String> {
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    match text.parse::<f64>() {
        Ok(0.0..=100.0) if digits <= 4 && text.bytes().all(|b| b == b'.' || b.is_ascii_digit()) => {
            Ok(text.to_owned())
        }
        _ => Err("a percentage from 0 to 100 such as 0.5 is needed".to_owned()),
    }
}

pub fn run(arguments: &ProfileArguments) -> Result<ExitCode> {
    arguments.written.check(&[])?;
    if let Some(path) = &arguments.keep {
        check_writable(path)?;
    }
    let directory = TemporaryDirectory::new()?;
    let mut setting = directory.path().join("heap.pb.gz").into_os_string();
    if let Some(rate) = &arguments.rate {
        setting.push(format!(",rate={rate}"));
    }
    if let Some(budget) = &arguments.budget {
        setting.push(format!(",budget={budget}"));
    }
    let is_quiet = arguments.written.page.has_output();
    let (pid, outcome) = run_with(&arguments.program, |command| {
        command.env(VARIABLE, &setting);
        if is_quiet { keep_output_free(command) } else { Ok(()) }
    })?;
    let Some(found) = Found::of(&directory, pid)? else {
        anstream::eprintln!(
            "primalloc: the program has written no profile: it ended by a signal or by _exit, or \
             this library has no profiler"
        );
        drop(directory);
        return Ok(outcome.imitate_failure());
    };
    if let Some(kept) = &arguments.keep {
        std::fs::copy(&found.path, kept)
            .with_context(|| format!("{}: cannot be written", kept.display()))?;
    }
    let shown = arguments
        .shown
        .prepare(found.profile, Some(View::Peak))
        .context("the program's profile")?;
    let title = shell_text(&arguments.program.command);
    let heading = Heading { verb: "profile", title: &title, to_output: false };
    arguments.written.report(&heading, &shown, &arguments.shown)?;
    if found.others > 0 {
        let many = found.others;
        anstream::eprintln!("{many} more processes, which it started, have profiles; not shown.");
    }
    // A program's signal may end us here.
    drop(directory);
    Ok(outcome.imitate())
}

/// What a program and the processes that it started have written.
struct Found {
    path: PathBuf,
    profile: Profile,
    /// Other processes that have a profile.
    others: usize,
}

impl Found {
    /// The last one of the program itself, else the last of all.
    fn of(directory: &TemporaryDirectory, pid: u64) -> Result<Option<Found>> {
        let mut best: Option<(PathBuf, Profile)> = None;
        let rank = |profile: &Profile| (pid_of(profile) == Some(pid), profile.time_nanos);
        let mut processes = BTreeSet::new();
        for path in directory.profiles() {
            let profile = read(&path)?;
            processes.insert(pid_of(&profile));
            if best.as_ref().is_none_or(|(_, best)| rank(&profile) > rank(best)) {
                best = Some((path, profile));
            }
        }
        let others = processes.len().saturating_sub(1);
        Ok(best.map(|(path, profile)| Found { path, profile, others }))
    }
}

fn pid_of(profile: &Profile) -> Option<u64> {
    profile.facts.program.as_ref().map(|(pid, _)| *pid)
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
    fn the_last_profile_of_the_program_itself_is_shown() {
        let directory = TemporaryDirectory::new().unwrap();
        let write = |name: &str, pid: u64, time: i64| {
            let mut profile = profile::sample::service();
            profile.facts = profile::Facts::parse([
                "format primalloc-heap 1",
                &format!("program {pid} service"),
            ]);
            profile.time_nanos = time;
            let bytes = profile::encode(&profile).unwrap();
            std::fs::write(directory.path().join(name), bytes).unwrap();
        };
        assert!(Found::of(&directory, 7).unwrap().is_none());
        write("heap.9.pb.gz", 9, 500);
        assert_eq!(Found::of(&directory, 7).unwrap().unwrap().others, 0);
        write("heap.0001.pb.gz", 7, 100);
        write("heap.0002.pb.gz", 7, 200);
        write("heap.pb.gz", 7, 300);
        let found = Found::of(&directory, 7).unwrap().unwrap();
        assert_eq!((found.others, found.profile.time_nanos), (1, 300));
    }

    #[test]
    fn rates_are_sizes() {
        assert!(rate("512K").is_ok() && rate("1").is_ok() && rate("4M").is_ok());
        assert!(budget("0.05").is_ok() && budget("100").is_ok() && budget("0").is_ok());
        for wrong in ["101", "-1", "1e1", "0.00001", "inf", "", ".", "5%"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
        assert!(rate("0").is_err() && rate("fast").is_err() && rate("1,signal=9").is_err());
    }
}
