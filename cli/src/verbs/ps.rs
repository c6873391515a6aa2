//! `primalloc ps`: the processes that run on primalloc.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use nix::unistd::getuid;
use owo_colors::OwoColorize;

use super::report_files::{STANDARD_OUTPUT, check_files, limit_of, print, take_output, write};
use crate::output;
use crate::processes::{self, LibraryState, Listing, RunningProcess};

const EXAMPLES: &str = "\
Examples:
  primalloc ps
  sudo primalloc ps                 the processes of others too
  primalloc ps --json | jq '.processes[].pid'

A library marked (replaced) or (deleted) is not the one that now lies at this path, as after an
upgrade: the process goes on with the old one until it is started anew.";

/// Columns, as fits.
const LAYOUTS: [&[usize]; 3] = [&[0, 1, 2, 3, 4, 5], &[0, 1, 2, 3, 5], &[0, 2, 3, 5]];
const NUMBERS: [usize; 2] = [0, 3];

/// List the processes that run on primalloc
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PsArguments {
    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

pub fn run(arguments: &PsArguments) -> Result<ExitCode> {
    check_files([&arguments.json], &[])?;
    let listing = processes::list()?;
    if !take_output([&arguments.json]) {
        print(&table(&listing, limit_of(io::stdout().is_terminal())))?;
    }
    if let Some(path) = &arguments.json {
        write(path, format!("{}\n", serde_json::to_string_pretty(&listing)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(listing: &Listing, width: Option<usize>) -> String {
    let text = if listing.processes.is_empty() {
        "No process that can be read runs on primalloc.\n".to_owned()
    } else {
        processes(&listing.processes, width)
    };
    match unreadable_text(listing.unreadable, getuid().is_root()) {
        Some(note) => text + &format!("{}\n", note.dimmed()),
        None => text,
    }
}

/// The beginnings of paths go first, then what tells least.
fn processes(processes: &[RunningProcess], width: Option<usize>) -> String {
    let longest = processes.iter().map(|process| path(process).chars().count()).max().unwrap_or(0);
    let rows = |columns: &[usize], path_width: usize| {
        let shown = |cells: [String; 6]| -> Vec<String> {
            columns.iter().map(|&column| cells[column].clone()).collect()
        };
        let header = ["PID", "USER", "PROGRAM", "RESIDENT", "VERSION", "LIBRARY"];
        let header: Vec<&str> = columns.iter().map(|&column| header[column]).collect();
        let numbers: Vec<usize> =
            (0..columns.len()).filter(|&at| NUMBERS.contains(&columns[at])).collect();
        let records = processes.iter().map(|process| shown(record(process, path_width))).collect();
        output::listing(&header, &numbers, records)
    };
    output::fitting(
        LAYOUTS.map(|columns| output::with_names_cut(longest, width, |most| rows(columns, most))),
        width,
    )
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

fn path(process: &RunningProcess) -> String {
    let path = process.library.as_ref().map(|path| path.display().to_string());
    output::printable(&path.unwrap_or_default())
}

fn record(process: &RunningProcess, path_width: usize) -> [String; 6] {
    let mark = match process.library_state {
        LibraryState::Current => String::new(),
        LibraryState::Replaced => " (replaced)".yellow().to_string(),
        LibraryState::Deleted => " (deleted)".yellow().to_string(),
        LibraryState::Static => "(linked into the program)".dimmed().to_string(),
    };
    [
        process.pid.to_string(),
        output::printable(&process.user),
        output::printable(&process.program).bold().to_string(),
        output::bytes_text(process.resident_bytes),
        output::printable(process.version.as_deref().unwrap_or("?")),
        output::without_beginning(&path(process), path_width) + &mark,
    ]
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    #[test]
    fn a_narrow_terminal_has_less() {
        let process = |library: &str, library_state| RunningProcess {
            pid: 4711,
            user: "somebody".into(),
            program: "redis-server".into(),
            resident_bytes: 100 << 20,
            library: Some(library.into()),
            library_state,
            version: Some("0.1.0".into()),
        };
        let listing = Listing {
            processes: vec![
                process("/opt/here/lib/libprimalloc.so.0.1.0", LibraryState::Deleted),
                process("/home/somebody/primalloc/lib/libprimalloc.so", LibraryState::Current),
            ],
            unreadable: 0,
        };
        let whole = strip_str(&table(&listing, None)).to_string();
        assert!(whole.contains("  /opt/here/lib/libprimalloc.so.0.1.0 (deleted)\n"), "{whole}");
        for (width, has_user, has_version) in
            [(80, true, true), (72, true, true), (64, true, false), (56, false, false)]
        {
            let text = strip_str(&table(&listing, Some(width))).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            let seen = (text.contains("USER"), text.contains("VERSION"));
            assert_eq!(seen, (has_user, has_version), "{width}: {text}");
            assert!(text.contains("so.0.1.0 (deleted)"), "{width}: {text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_others_but_for_root() {
        assert_eq!(unreadable_text(0, false), None);
        assert_eq!(unreadable_text(1, true).unwrap(), "1 process cannot be read.");
        assert_eq!(unreadable_text(12, true).unwrap(), "12 processes cannot be read.");
        assert!(unreadable_text(1, false).unwrap().starts_with("1 process of another user cannot"));
        assert!(unreadable_text(12, false).unwrap().ends_with("cannot be read. Root may."));
    }
}
