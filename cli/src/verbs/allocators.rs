//! `primalloc allocators`: what is installed, and whether it loads.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use owo_colors::OwoColorize;
use serde::Serialize;

use super::report_files::{STANDARD_OUTPUT, check_files, limit_of, print, take_output, write};
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
    /// As text, for a path may have any bytes.
    library: Option<String>,
    loads: bool,
    problem: Option<String>,
}

pub fn run(arguments: &AllocatorsArguments) -> Result<ExitCode> {
    check_files([&arguments.json], &[])?;
    let found: Vec<Found> =
        allocators::find_all(arguments.library.as_deref())?.into_iter().map(try_out).collect();
    if !take_output([&arguments.json]) {
        print(&table(&found, limit_of(io::stdout().is_terminal())))?;
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
        library: allocator.library.map(|path| path.display().to_string()),
    }
}

/// The beginnings of paths go first, then the versions.
fn table(found: &[Found], width: Option<usize>) -> String {
    let path = |found: &Found| found.library.as_ref().map_or(0, |path| path.chars().count());
    let longest = found.iter().map(path).max().unwrap_or(0);
    let rows = |has_version: bool, path_width: usize| {
        let is_shown = [true, has_version, true, true];
        let kept = |cells: [String; 4]| -> Vec<String> {
            let shown = cells.into_iter().zip(is_shown);
            shown.filter_map(|(cell, is_shown)| is_shown.then_some(cell)).collect()
        };
        let header = kept(["NAME", "VERSION", "LOADS", "LIBRARY"].map(str::to_owned));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let records = found.iter().map(|found| kept(record(found, path_width))).collect();
        output::listing(&header, &[], records)
    };
    let layouts = [true, false]
        .map(|has_version| output::with_names_cut(longest, width, |most| rows(has_version, most)));
    output::fitting(layouts, width)
}

fn record(found: &Found, path_width: usize) -> [String; 4] {
    let place = match &found.library {
        Some(path) => output::without_beginning(&output::printable(path), path_width),
        None => "(the C library's own)".dimmed().to_string(),
    };
    let loads = if found.loads { "yes".green().to_string() } else { "no".red().to_string() };
    let remark = match &found.problem {
        Some(problem) => format!(": {}", output::printable(problem)),
        None => String::new(),
    };
    let version = found.version.clone().unwrap_or_else(|| "?".to_owned());
    [found.name.bold().to_string(), version, loads, place + &remark]
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    #[test]
    fn a_narrow_terminal_has_less() {
        let found =
            [None, Some("/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")].map(|path| Found {
                name: "tcmalloc".into(),
                version: Some("2.10".into()),
                library: path.map(str::to_owned),
                loads: true,
                problem: None,
            });
        let text = |width| strip_str(&table(&found, width)).to_string();
        assert!(text(None).contains("  /lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4\n"));
        for (width, has_version) in [(80, true), (50, true), (40, false)] {
            let text = text(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(text.contains("minimal.so.4\n"), "{width}: {text}");
            assert_eq!(text.contains("VERSION"), has_version, "{width}: {text}");
        }
    }
}
