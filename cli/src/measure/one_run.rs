//! One run of the program under one candidate: start it, wait for it, read what it used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Plan, ProgramOutput};
use crate::allocators::Candidate;
use crate::child::{self, End, LaunchStamp, Outcome, Supervisor};
use crate::environment;

/// As much of a failed program's messages as is shown.
const MESSAGES_BYTES_MAX: u64 = 2048;

/// Of what a program writes more the beginning is let go, by parts that are worth a call.
const MESSAGES_PART_BYTES: u64 = 1 << 20;

/// How a run ended and what it used, the processes that it waited for included.
#[derive(Clone, Debug)]
pub struct Run {
    pub outcome: Outcome,
    pub wall_seconds: f64,
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub peak_resident_bytes: f64,
    pub minor_faults: f64,
    pub major_faults: f64,
    pub voluntary_switches: f64,
    pub involuntary_switches: f64,
    /// The end of what a failed program wrote to standard error.
    pub messages: String,
}

#[cfg(test)]
impl Run {
    /// Of a program that succeeded.
    pub fn made_up(wall_seconds: f64, peak_resident_bytes: f64, minor_faults: f64) -> Run {
        Run {
            outcome: Outcome::Exited(0),
            wall_seconds,
            user_seconds: wall_seconds * 0.8,
            system_seconds: wall_seconds * 0.2,
            peak_resident_bytes,
            minor_faults,
            major_faults: 0.0,
            voluntary_switches: 3.0,
            involuntary_switches: 12.0,
            messages: String::new(),
        }
    }
}

pub fn run_once(plan: &Plan, candidate: &Candidate, supervisor: &mut Supervisor) -> Result<Run> {
    let mut command = plan.program.command();
    environment::replace_allocator(&mut command, candidate.library())?;
    environment::apply(&mut command, plan.options.iter().chain(&candidate.settings));
    let messages = redirect(&mut command, plan)?;

    let stamp = LaunchStamp::new().context("cannot share a page with the program")?;
    let mask = supervisor.original_mask;
    let child = child::start_stamped(plan.program, &mut command, mask, &stamp)?;
    let kept_in_bounds = || messages.iter().for_each(forget_beginning);
    let End { outcome, usage, time } = supervisor.wait_for_measured(&child, kept_in_bounds)?;

    let before_exec = stamp.usage();
    let spent = |field: fn(&libc::rusage) -> f64| (field(&usage) - field(&before_exec)).max(0.0);
    Ok(Run {
        outcome,
        wall_seconds: time.saturating_sub(stamp.time()).as_secs_f64(),
        user_seconds: spent(|usage| seconds(usage.ru_utime)),
        system_seconds: spent(|usage| seconds(usage.ru_stime)),
        peak_resident_bytes: usage.ru_maxrss as f64 * 1024.0,
        minor_faults: spent(|usage| usage.ru_minflt as f64),
        major_faults: spent(|usage| usage.ru_majflt as f64),
        voluntary_switches: spent(|usage| usage.ru_nvcsw as f64),
        involuntary_switches: spent(|usage| usage.ru_nivcsw as f64),
        messages: match messages {
            Some(file) if !outcome.is_success() => end_of(&file)?,
            _ => String::new(),
        },
    })
}

/// Sets up the three standard streams; what goes to standard error is kept in memory.
fn redirect(command: &mut Command, plan: &Plan) -> Result<Option<File>> {
    let opened = |path: &std::path::Path, file: io::Result<File>| {
        file.with_context(|| path.display().to_string())
    };
    command.stdin(match &plan.input {
        Some(path) => Stdio::from(opened(path, File::open(path))?),
        None => Stdio::null(),
    });
    command.stdout(match &plan.output {
        ProgramOutput::Inherit => return Ok(None),
        ProgramOutput::Discard => Stdio::null(),
        ProgramOutput::File(path) => Stdio::from(opened(path, File::create(path))?),
    });
    let messages = File::from(memfd_create(c"messages", MFdFlags::MFD_CLOEXEC)?);
    command.stderr(messages.try_clone()?);
    Ok(Some(messages))
}

/// A server may write messages without an end; that they stay in memory is for their end only.
fn forget_beginning(messages: &File) {
    let length = messages.metadata().map_or(0, |facts| facts.len());
    let kept_from = length.saturating_sub(MESSAGES_BYTES_MAX) & !(MESSAGES_PART_BYTES - 1);
    if kept_from > 0 {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // Where that fails it is tried again.
        let _ = fallocate(messages, flags, 0, kept_from as libc::off_t);
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

fn end_of(messages: &File) -> io::Result<String> {
    let length = messages.metadata()?.len();
    let start = length.saturating_sub(MESSAGES_BYTES_MAX);
    let mut buffer = vec![0; (length - start) as usize];
    messages.read_exact_at(&mut buffer, start)?;
    Ok(String::from_utf8_lossy(&buffer).trim_end().to_owned())
}
