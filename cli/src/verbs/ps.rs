//! `primalloc ps`: the processes that run on primalloc.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use nix::unistd::getuid;
use owo_colors::OwoColorize;

use super::report_files::{print, print_plain};
use crate::output;
use crate::processes::{self, LibraryState, Listing, RunningProcess};

const EXAMPLES: &str = "\
Examples:
  primalloc ps
  sudo primalloc ps                 the processes of others too
  primalloc ps --json | jq '.processes[].pid'

A library marked (replaced) or (deleted) is not the one that now lies at this path, as after an
upgrade: the process goes on with the old one until it is started anew.";

/// List the processes that run on primalloc
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PsArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &PsArguments) -> Result<ExitCode> {
    let listing = processes::list()?;
    if arguments.json {
        print_plain(&format!("{}\n", serde_json::to_string_pretty(&listing)?))?;
    } else {
        print(&table(&listing))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(listing: &Listing) -> String {
    let text = if listing.processes.is_empty() {
        "No process that can be read runs on primalloc.\n".to_owned()
    } else {
        let header = ["PID", "USER", "PROGRAM", "RESIDENT", "VERSION", "LIBRARY"];
        let records = listing.processes.iter().map(record).collect();
        output::listing(&header, &[0, 3], records)
    };
    let note = match listing.unreadable {
        0 => return text,
        1 => "1 process of another user cannot be read.".to_owned(),
        several => format!("{several} processes of other users cannot be read."),
    };
    let advice = if getuid().is_root() { "" } else { " Root can read them all." };
    text + &format!("{}\n", format!("{note}{advice}").dimmed())
}

fn record(process: &RunningProcess) -> Vec<String> {
    let path = process.library.as_ref().map(|path| path.display().to_string());
    let mark = match process.library_state {
        LibraryState::Current => String::new(),
        LibraryState::Replaced => " (replaced)".yellow().to_string(),
        LibraryState::Deleted => " (deleted)".yellow().to_string(),
        LibraryState::Static => "(linked into the program)".dimmed().to_string(),
    };
    vec![
        process.pid.to_string(),
        process.user.clone(),
        process.program.bold().to_string(),
        output::bytes_text(process.resident_bytes),
        process.version.clone().unwrap_or_else(|| "?".to_owned()),
        path.unwrap_or_default() + &mark,
    ]
}
