//! `primalloc leaks`: what a program has lost when it ends.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::profile_options::{Heading, PageArguments, Shown, keep_output_free};
use super::report_files::{check_writable, shell_text, width_of};
use super::run::run_with;
use super::temporary::TemporaryDirectory;
use crate::arguments::{ProgramArguments, SymbolArguments};
use crate::output::profile as output;
use crate::profile::{self, Kind, Stacks};

const EXAMPLES: &str = "\
Examples:
  primalloc leaks -- ./program input
  primalloc leaks --suppressions known-leaks.txt -- ./program
  primalloc leaks --html leaks.html -- ./program
  primalloc leaks --level strict --exit-status 1 -- ./program

Exit status: the program's own if it fails or nothing leaked; --exit-status (23) if memory leaked;
125 if primalloc itself fails or there is no report, 126 or 127 if the program cannot be started.";

/// How much counts as lost.
#[derive(Clone, Copy, ValueEnum)]
enum Level {
    /// Not what was allocated by initialisers of libraries
    Minimal,
    /// What nothing points to
    Normal,
    /// Also what is only pointed to inside, not at its beginning
    Strict,
}

/// Run a program and show what it has lost: memory that nothing points to any more
///
/// Blocks are grouped by the stack that allocated them, with what only they lead to.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LeaksArguments {
    /// How much counts as lost
    #[arg(long, value_enum, default_value_t = Level::Normal)]
    level: Level,

    /// Leaks to pass over: lines "leak:PATTERN"
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,

    /// Exit status when memory leaked; 0 leaves the program's
    #[arg(long, value_name = "N", default_value_t = 23)]
    exit_status: u8,

    /// Groups that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Keep the report in this file (.pb.gz), for report and pprof
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,

    #[command(flatten)]
    page: PageArguments,

    #[command(flatten)]
    symbols: SymbolArguments,

    #[command(flatten)]
    program: ProgramArguments,
}

pub fn run(arguments: &LeaksArguments) -> Result<ExitCode> {
    arguments.page.check(&[])?;
    if let Some(path) = &arguments.keep {
        check_writable(path)?;
    }
    let suppressions = arguments.suppressions.as_deref().map(readable).transpose()?;
    let directory = TemporaryDirectory::new()?;
    // Each process has its own; which is the program's tells its number.
    let files = directory.path().join("%p.pb.gz");
    let level = arguments.level.to_possible_value().context("every level has a name")?;
    let is_quiet = arguments.page.has_output();
    let (pid, outcome) = run_with(&arguments.program, |command| {
        command.env("PRIMALLOC_LEAK_CHECK", level.get_name());
        command.env("PRIMALLOC_LEAK_REPORT", &files);
        // The status is ours to choose, once the report is read.
        command.env("PRIMALLOC_LEAK_EXIT", "0");
        if let Some(path) = &suppressions {
            command.env("PRIMALLOC_LEAK_SUPPRESS", path);
        }
        if is_quiet { keep_output_free(command) } else { Ok(()) }
    })?;
    let mut written = reports_in(directory.path())?;
    let own = directory.path().join(format!("{pid}.pb.gz"));
    if own.exists() {
        written.retain(|path| *path != own);
        written.push(own);
    }
    let Some(file) = written.pop() else {
        anstream::eprintln!(
            "primalloc: the program has written no report of leaks: it ended by a signal or by \
             _exit, or this library has no leak checker"
        );
        drop(directory);
        return Ok(outcome.imitate_failure());
    };
    if !written.is_empty() {
        anstream::eprintln!(
            "primalloc: {} of processes that it started are not shown; PRIMALLOC_LEAK_REPORT \
             keeps them",
            written.len()
        );
    }
    if let Some(kept) = &arguments.keep {
        std::fs::copy(&file, kept)
            .with_context(|| format!("{}: cannot be written", kept.display()))?;
    }
    let lost = report(arguments, &file, pid)?;
    // A program's signal may end us here.
    drop(directory);
    match lost {
        1.. if arguments.exit_status != 0 && outcome.is_success() => {
            Ok(ExitCode::from(arguments.exit_status))
        }
        _ => Ok(outcome.imitate()),
    }
}

/// The file, wherever the program goes.
fn readable(path: &Path) -> Result<PathBuf> {
    std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(std::path::absolute(path)?)
}

/// The reports that processes left, the oldest first.
fn reports_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(".pb.gz") {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Shows what has leaked, and says how many blocks.
fn report(arguments: &LeaksArguments, file: &Path, pid: u64) -> Result<i64> {
    let mut profile = profile::read(file)?;
    if let Some((other, name)) = profile.facts.program.as_ref().filter(|(other, _)| *other != pid) {
        anstream::eprintln!(
            "primalloc: this is the report of {name}, process {other}, which the program started; \
             it has written none itself, or before"
        );
    }
    let debug_directory = arguments.symbols.debug_directory.as_deref();
    let remarks = profile::symbolise(&mut profile, debug_directory);
    let series = profile::series(&profile);
    let shown = Shown { profile, series, remarks };
    let stacks = Stacks::new(&shown.profile);
    let title = shell_text(&arguments.program.command);
    let heading = Heading { verb: "leaks", title: &title, to_output: false };
    let found = output::leaks(&title, &stacks, width_of(heading.is_terminal()), arguments.top);
    let Some((text, lost)) = found.filter(|_| shown.profile.facts.kind == Some(Kind::Leaks)) else {
        bail!("{}: is no report of leaks", file.display());
    };
    arguments.page.write(&heading.source(&shown, &stacks))?;
    if !arguments.page.has_output() {
        anstream::eprint!("{text}");
        for remark in &shown.remarks {
            anstream::eprintln!("{remark}");
        }
    }
    Ok(lost)
}
