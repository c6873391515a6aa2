//! `primalloc allocators`: what is installed, and whether it loads.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use owo_colors::OwoColorize;
use serde::Serialize;

use super::report_files::{STANDARD_OUTPUT, check_files, print, take_output, write};
use crate::allocators::{self, Allocator};
use crate::environment::LIBRARY;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  primalloc allocators
  primalloc allocators --json | jq -r '.[] | select(.loads) | .name'

Each library is tried: this tool starts itself under it. Any other library can be compared as well:
primalloc compare --with glibc,NAME=PATH -- PROGRAM";

/// List the allocators of this system, their versions, and whether they load
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AllocatorsArguments {
    /// Use this libprimalloc.so instead of looking for one
    #[arg(long, value_name = "PATH", env = LIBRARY)]
    library: Option<PathBuf>,

    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Found {
    name: String,
    version: Option<String>,
    library: Option<PathBuf>,
    loads: bool,
    problem: Option<String>,
}

pub fn run(arguments: &AllocatorsArguments) -> Result<ExitCode> {
    check_files([&arguments.json], &[])?;
    let found: Vec<Found> =
        allocators::find_all(arguments.library.as_deref())?.into_iter().map(try_out).collect();
    if !take_output([&arguments.json]) {
        let records = found.iter().map(record).collect();
        print(&output::listing(&["NAME", "VERSION", "LOADS", "LIBRARY"], &[], records))?;
    }
    if let Some(path) = &arguments.json {
        write(path, format!("{}\n", serde_json::to_string_pretty(&found)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn try_out(allocator: Allocator) -> Found {
    let trial = allocator.try_out();
    Found {
        version: trial.version,
        loads: trial.problem.is_none(),
        problem: trial.problem,
        name: allocator.name,
        library: allocator.library,
    }
}

fn record(found: &Found) -> Vec<String> {
    let place = match &found.library {
        Some(path) => path.display().to_string(),
        None => "(the C library's own)".dimmed().to_string(),
    };
    let loads = if found.loads { "yes".green().to_string() } else { "no".red().to_string() };
    let remark = found.problem.as_ref().map_or_else(String::new, |problem| format!(": {problem}"));
    let version = found.version.clone().unwrap_or_else(|| "?".to_owned());
    vec![found.name.bold().to_string(), version, loads, place + &remark]
}
