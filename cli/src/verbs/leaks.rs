//! `primalloc leaks`: what a program has lost when it ends.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::report_files::{shell_text, width_of};
use super::run::run_with;
use super::temporary::TemporaryDirectory;
use crate::arguments::ProgramArguments;
use crate::output::profile as output;
use crate::profile::{self, Kind, Stacks};

const EXAMPLES: &str = "\
Examples:
  primalloc leaks -- ./program input
  primalloc leaks --suppressions known-leaks.txt -- ./program
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

    #[command(flatten)]
    program: ProgramArguments,
}

pub fn run(arguments: &LeaksArguments) -> Result<ExitCode> {
    let suppressions = match &arguments.suppressions {
        Some(path) if !path.exists() => bail!("{}: no such file", path.display()),
        Some(path) => Some(std::path::absolute(path)?),
        None => None,
    };
    let directory = TemporaryDirectory::new()?;
    let file = directory.path().join("leaks.pb.gz");
    let level = arguments.level.to_possible_value().context("every level has a name")?;
    let (_, outcome) = run_with(&arguments.program, |command| {
        command.env("PRIMALLOC_LEAK_CHECK", level.get_name());
        command.env("PRIMALLOC_LEAK_REPORT", &file);
        // The status is ours to choose, once the report is read.
        command.env("PRIMALLOC_LEAK_EXIT", "0");
        if let Some(path) = &suppressions {
            command.env("PRIMALLOC_LEAK_SUPPRESS", path);
        }
    })?;
    if !file.exists() {
        anstream::eprintln!(
            "primalloc: the program has written no report of leaks: it ended by a signal or by \
             _exit, or this library has no leak checker"
        );
        drop(directory);
        return Ok(outcome.imitate_failure());
    }
    let mut profile = profile::read(&file)?;
    let remarks = profile::symbolise(&mut profile);
    let stacks = Stacks::new(&profile);
    let title = shell_text(&arguments.program.command);
    let width = width_of(std::io::stderr().is_terminal());
    let found = output::leaks(&title, &stacks, width, arguments.top);
    let Some((text, lost)) = found.filter(|_| profile.facts.kind == Some(Kind::Leaks)) else {
        bail!("{}: is no report of leaks", file.display());
    };
    anstream::eprint!("{text}");
    for remark in remarks {
        anstream::eprintln!("{remark}");
    }
    // A program's signal may end us here.
    drop(directory);
    match lost {
        1.. if arguments.exit_status != 0 && outcome.is_success() => {
            Ok(ExitCode::from(arguments.exit_status))
        }
        _ => Ok(outcome.imitate()),
    }
}
