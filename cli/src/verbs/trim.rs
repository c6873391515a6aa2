//! `primalloc trim`: has a running process give back what is free.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::meant::{meant, process_number};
use super::report_files::{STANDARD_OUTPUT, check_files, print, take_output, write};
use crate::inside::Inside;
use crate::output::{bytes_text, printable};

const EXAMPLES: &str = "\
Examples:
  primalloc trim 4711
  sudo primalloc trim $(pidof service)     of another user
  primalloc trim --json 4711 | jq '.resident_before_bytes - .resident_after_bytes'

A thread of the process that waits at the moment, or one that happens to be outside of malloc, calls
malloc_trim and goes on as if nothing had been; the others are not stopped. Given back are all free
pages, and what that thread keeps for itself. The program takes memory again as it wants some, for
page faults.";

/// Have a running process give back what is free
///
/// Makes a thread of the process call malloc_trim, without a debugger and with nothing prepared,
/// and says how much memory it had before and has then.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TrimArguments {
    /// The process, by its number (primalloc ps lists those on primalloc)
    #[arg(value_name = "PID", value_parser = process_number,
          allow_negative_numbers = true)]
    pid: i32,

    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Trimmed {
    format: u32,
    tool: &'static str,
    pid: i32,
    program: String,
    /// What malloc_trim answers.
    has_returned: bool,
    resident_before_bytes: u64,
    resident_after_bytes: u64,
}

pub fn run(arguments: &TrimArguments) -> Result<ExitCode> {
    check_files([&arguments.json], &[])?;
    let inside = Inside::open(meant(arguments.pid))?;
    let resident_before_bytes = inside.resident_bytes()?;
    let has_returned = inside.trim()?;
    let trimmed = Trimmed {
        format: 1,
        tool: concat!("primalloc ", env!("CARGO_PKG_VERSION")),
        pid: inside.pid(),
        has_returned,
        resident_before_bytes,
        resident_after_bytes: inside.resident_bytes()?,
        program: inside.program,
    };
    if !take_output([&arguments.json]) {
        print(&text(&trimmed))?;
    }
    if let Some(path) = &arguments.json {
        write(path, serde_json::to_string_pretty(&trimmed)? + "\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(trimmed: &Trimmed) -> String {
    let (before, after) = (trimmed.resident_before_bytes, trimmed.resident_after_bytes);
    let what = match (trimmed.has_returned, before.saturating_sub(after)) {
        (false, _) => "it had nothing to give back".to_owned(),
        (true, 0) => "it takes as much again as it gave back".to_owned(),
        (true, less) => format!("{} less than before", bytes_text(less)),
    };
    let (program, pid) = (printable(&trimmed.program), trimmed.pid);
    format!("{program} ({pid}): {} resident, {what}\n", bytes_text(after))
}
