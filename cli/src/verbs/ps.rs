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
        print_plain(format!("{}\n", serde_json::to_string_pretty(&listing)?))?;
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
    match unreadable_text(listing.unreadable, getuid().is_root()) {
        Some(note) => text + &format!("{}\n", note.dimmed()),
        None => text,
    }
}

/// What root cannot read is not another user's, but kept from root as well.
fn unreadable_text(count: usize, is_root: bool) -> Option<String> {
    Some(match (count, is_root) {
        (0, _) => return None,
        (1, true) => "1 process cannot be read.".to_owned(),
        (several, true) => format!("{several} processes cannot be read."),
        (1, false) => "1 process of another user cannot be read. Root may.".to_owned(),
        (several, false) => {
            format!("{several} processes of other users cannot be read. Root may.")
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_others_but_for_root() {
        assert_eq!(unreadable_text(0, false), None);
        assert_eq!(unreadable_text(1, true).unwrap(), "1 process cannot be read.");
        assert_eq!(unreadable_text(12, true).unwrap(), "12 processes cannot be read.");
        assert!(unreadable_text(1, false).unwrap().starts_with("1 process of another user cannot"));
        assert!(unreadable_text(12, false).unwrap().ends_with("cannot be read. Root may."));
    }
}
