//! `primalloc explain`: why a process is as large as it is.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::meant::meant;
use super::report_files::{
    STANDARD_OUTPUT, all_of, check_files, print, take_output, width_of, write, write_page,
};
use crate::arguments::directory;
use crate::explain::{self, Asked};
use crate::input;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  primalloc explain 4711
  primalloc explain --sizes $(pidof redis-server)
  sudo primalloc explain 1          of another user
  primalloc explain core.4711       what a crash has left; ./4711 if it is called so
  primalloc explain --html explained.html 4711
  primalloc explain --json 4711 | jq '.parts[] | {use, resident_bytes}'

Nothing runs in the process, and nobody stops it: its memory is read, as by a debugger. So the
figures are of some recent moment each. They add up to what is resident; of a core to what it holds,
without pages of zeros.";

/// Explain why a process is as large as it is: what its memory is used for
///
/// Shows what the resident memory of a running process, or the core file that is left of one,
/// consists of: blocks in use, caches, free blocks and free pages of a heap that is primalloc's,
/// and of any process stacks, programs, files and what was mapped past malloc; and says what would
/// make it smaller.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArguments {
    /// The process, by its number (primalloc ps lists those on primalloc), or a core file, which
    /// may be standard input: -
    #[arg(value_name = "PID|CORE", value_parser = OsStringValueParser::new().try_map(asked),
          value_hint = ValueHint::FilePath, allow_negative_numbers = true)]
    asked: Asked,

    /// Show blocks by size, too
    #[arg(long)]
    sizes: bool,

    /// Look for the files that a core leaves out in this directory first: by name, or below it
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath,
          value_parser = directory)]
    sysroot: Option<PathBuf>,

    /// Write JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the report with bars as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl ExplainArguments {
    fn files(&self) -> [&Option<PathBuf>; 2] {
        [&self.json, &self.html]
    }
}

/// A number is a process, anything else the name of a file.
fn asked(word: OsString) -> Result<Asked, String> {
    let digits = word.to_str().map(|text| text.strip_prefix(['-', '+']).unwrap_or(text));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = digits.is_some_and(|text| !text.is_empty() && are_digits(text));
    match word.to_str().and_then(|text| text.parse().ok()) {
        _ if word.is_empty() => Err("neither a number nor the name of a file".to_owned()),
        Some(pid) if pid >= 1 => Ok(Asked::Process(pid)),
        _ if is_number => Err("no process has this number".to_owned()),
        _ => Ok(Asked::Core(input::as_file(word))),
    }
}

pub fn run(arguments: &ExplainArguments) -> Result<ExitCode> {
    let core: &[&Path] = match &arguments.asked {
        Asked::Core(path) => &[path.as_path()],
        Asked::Process(_) => &[],
    };
    check_files(arguments.files(), core)?;
    let asked = match &arguments.asked {
        Asked::Process(pid) => Asked::Process(meant(*pid)),
        core => core.clone(),
    };
    let found = explain::explain(&asked, arguments.sysroot.as_deref())?;
    if !take_output(arguments.files()) {
        let width = width_of(std::io::stdout().is_terminal());
        print(&output::explain::text(&found, arguments.sizes, width))?;
    }
    let json = |path: &PathBuf| write(path, output::explain::json(&found));
    let html = |path: &PathBuf| write_page(path, &output::explain::html(&found)?);
    all_of([
        arguments.json.as_ref().map_or(Ok(()), json),
        arguments.html.as_ref().map_or(Ok(()), html),
    ])?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_process() {
        let asked = |word: &str| asked(word.into());
        assert_eq!(asked("4711"), Ok(Asked::Process(4711)));
        for word in ["./4711", "core", "core.4711", "4711.core", "1-2"] {
            assert_eq!(asked(word), Ok(Asked::Core(word.into())), "{word}");
        }
        assert_eq!(asked("-"), Ok(Asked::Core("/dev/stdin".into())));
        for word in ["", "0", "-1", "99999999999", "99999999999999999999"] {
            assert!(asked(word).is_err(), "{word}");
        }
    }
}
