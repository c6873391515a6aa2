//! One run of the program under one candidate: start it, wait for it, read what it used.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::SigSet;
use nix::time::{ClockId, clock_gettime};

use super::{Plan, ProgramOutput};
use crate::allocators::Candidate;
use crate::child::{self, LaunchStamp, Outcome};
use crate::environment;

/// As much of a failed program's messages as is shown.
const MESSAGES_BYTES_MAX: u64 = 2048;

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

pub fn run_once(plan: &Plan, candidate: &Candidate) -> Result<Run> {
    let mut command = plan.program.command();
    environment::replace_allocator(&mut command, candidate.library())?;
    environment::apply(&mut command, plan.options.iter().chain(&candidate.settings));
    let messages = redirect(&mut command, plan)?;

    let stamp = LaunchStamp::new().context("cannot share a page with the program")?;
    let signal_mask = SigSet::thread_get_mask().unwrap_or(SigSet::empty());
    let child = child::start_stamped(plan.program, &mut command, signal_mask, &stamp)?;
    let (status, usage, ended_at) = wait(&child).context("cannot wait for the program")?;

    let outcome = Outcome::from_wait_status(status);
    let before_exec = stamp.usage();
    let spent = |field: fn(&libc::rusage) -> f64| (field(&usage) - field(&before_exec)).max(0.0);
    Ok(Run {
        outcome,
        wall_seconds: ended_at.saturating_sub(stamp.time()).as_secs_f64(),
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

fn wait(child: &Child) -> io::Result<(i32, libc::rusage, Duration)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    loop {
        // SAFETY: both are valid places to write to, of the types that the call fills.
        let ended = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
        let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        if ended > 0 {
            // SAFETY: wait4 has reaped the child and with that filled the buffer.
            return Ok((status, unsafe { usage.assume_init() }, now));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
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
