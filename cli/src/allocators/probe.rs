//! Starts the tool anew with a library preloaded, to see that it loads and serves a program.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use nix::unistd::alarm;
use serde::{Deserialize, Serialize};

use crate::child::Outcome;
use crate::environment::{self, Setting};

/// A probe takes milliseconds; an allocator that hangs is ended after this.
const PATIENCE_SECONDS: u32 = 10;

/// What a process knows of the allocator that it runs on.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProbeAnswer {
    pub malloc_from: Option<String>,
    pub version: Option<String>,
}

/// How the library's messages about options begin that it can't use.
const OPTION_COMPLAINTS: [&str; 2] = ["unknown option ", "ignoring value "];

/// What `library` says of options that it doesn't know, or of values that it can't use: its lines
/// without its name. A program under measurement says them too, but what it says may go nowhere.
pub fn option_complaints<'a>(
    library: &Path,
    settings: impl IntoIterator<Item = &'a Setting>,
) -> Result<Vec<String>> {
    let said = said_under(library, settings)?;
    let is_complaint = |line: &&str| OPTION_COMPLAINTS.iter().any(|start| line.starts_with(start));
    let lines = said.lines().filter_map(|line| line.strip_prefix("primalloc: "));
    Ok(lines.filter(is_complaint).map(str::to_owned).collect())
}

/// All options, as `library` lists them.
pub fn option_list(library: &Path) -> Result<String> {
    said_under(library, &[Setting::help()])
}

fn said_under<'a>(
    library: &Path,
    settings: impl IntoIterator<Item = &'a Setting>,
) -> Result<String> {
    let said = run_under(library, settings)?.stderr;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn run_under<'a>(
    library: &Path,
    settings: impl IntoIterator<Item = &'a Setting>,
) -> Result<Output> {
    let mut command = Command::new(env::current_exe().context("cannot find the tool itself")?);
    command.arg("probe-allocator").stdin(Stdio::null());
    environment::preload(&mut command, library, OsStr::new(""))?;
    environment::apply(&mut command, settings);
    // SAFETY: alarm is a system call, as is right between fork and exec.
    unsafe { command.pre_exec(set_alarm) };
    command.output().context("cannot start the tool itself")
}

/// Runs the tool under `library`; an error says why that did not work.
pub fn probe(library: &Path) -> Result<ProbeAnswer> {
    let output = run_under(library, &[])?;
    let outcome = Outcome::of(output.status);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().next().unwrap_or_default();
    if !outcome.is_success() {
        bail!("a program under it ended with {outcome} {complaint}");
    }
    let answer: ProbeAnswer =
        serde_json::from_slice(&output.stdout).context("a program under it said nonsense")?;
    // The answer is text, whatever bytes the path has.
    let from = answer.malloc_from.as_deref();
    let is_serving = from.is_some_and(|file| file == library.to_string_lossy());
    if !is_serving {
        bail!("{}", format!("it does not take the place of malloc {complaint}").trim_end());
    }
    Ok(answer)
}

/// An error names the library, and says why programs do not run on it.
pub fn check_serves(library: &Path) -> Result<()> {
    probe(library).map(drop).with_context(|| library.display().to_string())
}

fn set_alarm() -> io::Result<()> {
    alarm::set(PATIENCE_SECONDS);
    Ok(())
}
