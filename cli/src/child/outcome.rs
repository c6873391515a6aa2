//! How a program ended, and how to end the same way.

use std::fmt;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::ptr;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exited(i32),
    Killed(i32),
}

/// An outcome, what the kernel has counted until then for the program and those that it waited for,
/// and when that was on the monotonic clock.
pub struct End {
    pub outcome: Outcome,
    pub usage: libc::rusage,
    pub time: Duration,
}

/// A signal has asked the tool to end before its work was done.
#[derive(Debug, Error)]
#[error("{0} has asked for an end")]
pub struct Interrupted(pub Signal);

impl Interrupted {
    /// Ends this process by that signal, as if it had done so at once.
    pub fn imitate(&self) -> ExitCode {
        Outcome::Killed(self.0 as i32).imitate()
    }
}

impl Outcome {
    pub fn from_wait_status(status: i32) -> Outcome {
        if libc::WIFSIGNALED(status) {
            Outcome::Killed(libc::WTERMSIG(status))
        } else {
            Outcome::Exited(libc::WEXITSTATUS(status))
        }
    }

    pub fn of(status: ExitStatus) -> Outcome {
        Outcome::from_wait_status(status.into_raw())
    }

    pub fn is_success(self) -> bool {
        self == Outcome::Exited(0)
    }

    /// The same where the program's success is not enough.
    pub fn imitate_failure(self) -> ExitCode {
        if self.is_success() { ExitCode::from(OWN_FAILURE) } else { self.imitate() }
    }

    /// Ends this process as the program ended: with its status, or by the same signal.
    pub fn imitate(self) -> ExitCode {
        match self {
            Outcome::Exited(status) => ExitCode::from(status as u8),
            Outcome::Killed(number) => {
                die_of(number);
                // Only a signal that does not kill leads here; shells give 128 more than it.
                ExitCode::from(128u8.wrapping_add(number as u8))
            }
        }
    }
}

/// What wrappers return for a failure of their own.
const OWN_FAILURE: u8 = 125;

/// By number: real-time signals have no names.
fn die_of(number: i32) {
    // The program has left its core file; one of the tool would only take its place.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let mut fatal = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset makes it a set before it is used as one, and the default disposition runs
    // no handler that could misbehave.
    unsafe {
        libc::sigemptyset(fatal.as_mut_ptr());
        libc::sigaddset(fatal.as_mut_ptr(), number);
        libc::signal(number, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, fatal.as_ptr(), ptr::null_mut());
        libc::raise(number);
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Outcome::Exited(status) => write!(formatter, "exit status {status}"),
            Outcome::Killed(number) => match Signal::try_from(number) {
                Ok(signal) => write!(formatter, "killed by {signal}"),
                Err(_) => write!(formatter, "killed by signal {number}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_told_apart() {
        assert_eq!(Outcome::from_wait_status(3 << 8), Outcome::Exited(3));
        assert_eq!(Outcome::from_wait_status(9), Outcome::Killed(9));
        assert_eq!(Outcome::Killed(11).to_string(), "killed by SIGSEGV");
        assert_eq!(Outcome::Killed(40).to_string(), "killed by signal 40");
        assert_eq!(Outcome::Exited(1).to_string(), "exit status 1");
    }
}
