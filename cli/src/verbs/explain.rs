//! `primalloc explain`: why a process is as large as it is.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::report_files::{STANDARD_OUTPUT, check_files, print, take_output, width_of, write};
use crate::explain;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  primalloc explain 4711
  primalloc explain --sizes $(pidof redis-server)
  sudo primalloc explain 1          of another user
  primalloc explain --json 4711 | jq '.parts[] | {use, resident_bytes}'

Nothing runs in the process, and nobody stops it: its memory is read, as by a debugger. So the
figures are of some recent moment each. They add up to what is resident.";

/// Explain why a process is as large as it is: what its memory is used for
///
/// Shows what the resident memory of a running process consists of: blocks in use, caches, free
/// blocks and free pages of a heap that is primalloc's, and of any process stacks, programs, files
/// and what was mapped past malloc; and says what would make it smaller.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArguments {
    /// The process; primalloc ps lists those on primalloc
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..),
          allow_negative_numbers = true)]
    pid: i32,

    /// Show blocks by size, too
    #[arg(long)]
    sizes: bool,

    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

pub fn run(arguments: &ExplainArguments) -> Result<ExitCode> {
    check_files([&arguments.json], &[])?;
    let found = explain::explain(arguments.pid)?;
    if !take_output([&arguments.json]) {
        let width = width_of(std::io::stdout().is_terminal());
        print(&output::explain::text(&found, arguments.sizes, width))?;
    }
    let json = |path: &PathBuf| write(path, output::explain::json(&found));
    arguments.json.as_ref().map_or(Ok(()), json)?;
    Ok(ExitCode::SUCCESS)
}
