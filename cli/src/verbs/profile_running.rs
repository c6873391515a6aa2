//! `primalloc profile --pid`: who allocates from now on in a process that runs already.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::meant::meant;
use super::process_files::NUMBER;
use super::profile::ProfileArguments;
use super::profile_options::Heading;
use super::report_files::{all_of, shell_text, tell, write};
use crate::child::Supervisor;
use crate::explain::{Asked, explain};
use crate::inside::Inside;
use crate::output::{printable, time_text};
use crate::proc_texts;
use crate::processes;
use crate::profile::{self, View};

/// Long enough for what a service does again and again.
const DURATION: Duration = Duration::from_secs(30);
const REMARK: &str = "It began in a process that was running: what was allocated before is not in \
                      it, nor what was freed of that.";

pub fn run(arguments: &ProfileArguments, pid: i32) -> Result<ExitCode> {
    let pid = meant(pid);
    let inside = Inside::open(pid)?;
    check_unwatched(pid)?;
    let title = command_of(pid)?;
    let running = inside.start_profile(&arguments.settings())?;
    let mut supervisor = Supervisor::of_work()?;
    let duration = arguments.duration.unwrap_or(DURATION);
    tell(format!(
        "{} ({pid}) is profiled for {}; Ctrl-C ends it earlier",
        printable(&inside.program),
        time_text(duration.as_secs_f64())
    ));
    let end = Instant::now() + duration;
    supervisor.wait_for_request(|| Instant::now() >= end || !inside.is_running())?;
    // Who ends us now leaves nothing: the keeper ends the profile all the same.
    drop(supervisor);
    if !inside.is_running() {
        bail!("{pid}: the process has ended, and its profile with it");
    }
    let bytes = running.finish().context("the profile goes on in the process")?;
    let keep = |path: &std::path::PathBuf| write(&numbered(path, pid), &bytes);
    let kept = arguments.keep.as_ref().map_or(Ok(()), keep);
    all_of([kept, report(arguments, &title, pid, &bytes)])?;
    Ok(ExitCode::SUCCESS)
}

fn report(arguments: &ProfileArguments, title: &str, pid: i32, bytes: &[u8]) -> Result<()> {
    let mut profile = profile::parse(bytes).context("the process's profile")?;
    profile.process = Some(pid);
    let usual = View::usual(&[&profile]);
    let mut shown = arguments.shown.prepare(profile, usual).context("the process's profile")?;
    shown.remarks.push(REMARK.to_owned());
    let heading = Heading { verb: "profile", title, to_output: true };
    arguments.written.report(&heading, &shown, &arguments.shown)
}

/// A new profile would take the place of one that the process has been started with.
fn check_unwatched(pid: i32) -> Result<()> {
    let found = explain(&Asked::Process(pid), None)?;
    for (option, what) in [("profile", "profiled"), ("leak_check", "watched for leaks")] {
        if found.options.iter().any(|setting| setting.name == option) {
            bail!("{pid}: it is {what} since its start, and a new profile would end that");
        }
    }
    Ok(())
}

fn command_of(pid: i32) -> Result<String> {
    let words = processes::open(pid).and_then(|process| proc_texts::cmdline(&process));
    let words = words.with_context(|| format!("{pid}: its command line cannot be read"))?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Ok(printable(&shell_text(&words)))
}

fn numbered(path: &Path, pid: i32) -> std::path::PathBuf {
    match path.to_str() {
        Some(text) => text.replace(NUMBER, &pid.to_string()).into(),
        None => path.to_owned(),
    }
}
