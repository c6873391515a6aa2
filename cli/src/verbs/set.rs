//! `primalloc set`: changes options of a running process.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueHint};
use serde::Serialize;

use super::meant::{meant, process_number};
use super::report_files::{STANDARD_OUTPUT, check_files, print, take_output, tell, write};
use crate::OWN_FAILURE;
use crate::environment::Setting;
use crate::inside::Inside;
use crate::output::printable;

const EXAMPLES: &str = "\
Examples:
  primalloc set 4711 soft_limit=256M
  primalloc set $(pidof service) trim_threshold=0 mmap_threshold=1M
  primalloc set --json 4711 soft_limit=256M | jq '.options[] | {name, before, after}'

A thread of the process that waits at the moment, or one that happens to be outside of malloc, calls
prim_option_set_text and goes on as if nothing had been; the others are not stopped, and see a
change at their next slow call. primalloc explain shows what is set then.

Exit status: 0; 125 if an option could not be set, after the others have been.";

/// Change options of a running process
///
/// Makes a thread of the process set options of the allocator, without a debugger and with nothing
/// prepared, and says what they were before. docs/options.md says which may change while a program
/// runs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SetArguments {
    /// The process, by its number (primalloc ps lists those on primalloc)
    #[arg(value_name = "PID", value_parser = process_number,
          allow_negative_numbers = true)]
    pid: i32,

    /// Options and their values, as --option of primalloc run takes them
    #[arg(value_name = "NAME=VALUE", required = true, value_hint = ValueHint::Other)]
    options: Vec<Setting>,

    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Done<'a> {
    format: u32,
    tool: &'static str,
    pid: i32,
    program: &'a str,
    options: Vec<OptionPart<'a>>,
}

/// Values as people read them.
#[derive(Serialize)]
struct OptionPart<'a> {
    name: &'a str,
    /// None if there is no such option.
    before: Option<&'a str>,
    after: Option<&'a str>,
    refused_because: Option<&'a str>,
}

pub fn run(arguments: &SetArguments) -> Result<ExitCode> {
    check_files([&arguments.json], &[])?;
    let inside = Inside::open(meant(arguments.pid))?;
    let settings: Vec<(&str, &str)> =
        arguments.options.iter().map(|setting| (setting.name(), setting.value())).collect();
    let changes = inside.set(&settings)?;
    let options = settings.iter().zip(&changes).map(|((name, _), change)| OptionPart {
        name,
        before: change.before.as_deref(),
        after: change.after.as_deref().ok(),
        refused_because: change.after.as_deref().err().map(String::as_str),
    });
    let done = Done {
        format: 1,
        tool: concat!("primalloc ", env!("CARGO_PKG_VERSION")),
        pid: inside.pid(),
        program: &inside.program,
        options: options.collect(),
    };
    if !take_output([&arguments.json]) {
        print(&text(&done))?;
    }
    let refusals = done.options.iter().filter_map(|o| o.refused_because.map(|why| (o.name, why)));
    let count = refusals.map(|(name, why)| tell(format!("{name}: {why}"))).count();
    if let Some(path) = &arguments.json {
        write(path, serde_json::to_string_pretty(&done)? + "\n")?;
    }
    Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::from(OWN_FAILURE) })
}

fn text(done: &Done) -> String {
    let program = printable(done.program);
    let set = done.options.iter().filter_map(|option| {
        let (before, after) = (option.before?, option.after?);
        let (before, after) = (printable(before), printable(after));
        Some(format!("{program} ({}): {} is {after}, was {before}\n", done.pid, option.name))
    });
    set.collect()
}
