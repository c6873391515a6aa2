//! Stands between a program and whoever started the tool, as if it were not there.
//!
//! Signals sent to the tool go on to the program. Those of the terminal (Ctrl-C, Ctrl-Z, a new
//! window size) have reached the program already, for the kernel sends them to the whole
//! process group; sent twice they would, say, end a shell that asks for a second Ctrl-C.
//! When the program stops, the tool stops too, so that the shell gets its prompt back.

use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;

use super::Outcome;
use crate::handshake::{Handshake, State};

const FORWARDED: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// What ends the watching of somebody else's process.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Of a process that is no child, only asking tells whether it has ended.
const PATIENCE_MILLISECONDS: u16 = 20;

/// Loading a library takes milliseconds; a busy machine may take a hundred times as long.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(3);

pub struct Supervisor {
    signals: SignalFd,
    /// The mask from before, which the program is to start with.
    pub original_mask: SigSet,
}

impl Supervisor {
    /// Begins to collect signals; from before the program starts, so that none is lost.
    pub fn new() -> Result<Supervisor> {
        let mut collected = SigSet::from_iter(FORWARDED);
        collected.add(Signal::SIGCHLD);
        let original_mask = SigSet::thread_get_mask().context("cannot read the signal mask")?;
        collected.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&collected, flags).context("cannot wait for signals")?;
        Ok(Supervisor { signals, original_mask })
    }

    /// Waits for the program's end. `on_handshake` learns once what became of the handshake.
    pub fn wait(
        &mut self,
        child: &Child,
        handshake: &mut Handshake,
        mut on_handshake: impl FnMut(Pid, State),
    ) -> Result<Outcome> {
        let pid = Pid::from_raw(child.id() as i32);
        let deadline = Instant::now() + HANDSHAKE_PATIENCE;
        let mut is_settled = false;
        loop {
            self.wait_for_news(handshake, (!is_settled).then_some(deadline))?;
            let ended = self.take_signals(pid)?;
            if !is_settled {
                let state = handshake.poll();
                let is_late = ended.is_some() || Instant::now() >= deadline;
                if state != State::Waiting || is_late {
                    is_settled = true;
                    on_handshake(pid, state);
                }
            }
            if let Some(outcome) = ended {
                return Ok(outcome);
            }
        }
    }

    /// The same without a handshake.
    pub fn wait_for_end(&mut self, child: &Child) -> Result<Outcome> {
        let pid = Pid::from_raw(child.id() as i32);
        loop {
            self.wait_for_signal(PollTimeout::NONE)?;
            if let Some(outcome) = self.take_signals(pid)? {
                return Ok(outcome);
            }
        }
    }

    /// Waits until a signal asks for an end, or `is_over`, which is asked again and again; tells
    /// whether it was a signal.
    pub fn wait_for_request(&mut self, is_over: impl Fn() -> bool) -> Result<bool> {
        while !is_over() {
            self.wait_for_signal(PollTimeout::from(PATIENCE_MILLISECONDS))?;
            while let Some(info) = self.signals.read_signal().context("cannot read signals")? {
                if ENDING.iter().any(|signal| *signal as u32 == info.ssi_signo) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn wait_for_signal(&self, timeout: PollTimeout) -> Result<()> {
        match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for the program"),
        }
    }

    fn wait_for_news(&self, handshake: &Handshake, deadline: Option<Instant>) -> Result<()> {
        let of_signals = PollFd::new(self.signals.as_fd(), PollFlags::POLLIN);
        let of_handshake = PollFd::new(handshake.descriptor(), PollFlags::POLLIN);
        let news = match deadline {
            None => poll(&mut [of_signals], PollTimeout::NONE),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
                poll(&mut [of_signals, of_handshake], timeout)
            }
        };
        match news {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for the program"),
        }
    }

    /// Acts on every signal that has arrived; says how the program ended if it did.
    fn take_signals(&mut self, pid: Pid) -> Result<Option<Outcome>> {
        while let Some(info) = self.signals.read_signal().context("cannot read signals")? {
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else {
                continue;
            };
            if signal == Signal::SIGCHLD {
                if let Some(outcome) = self.take_state(pid)? {
                    return Ok(Some(outcome));
                }
            } else if !is_from_terminal(&info) {
                // A program that has just ended can't take it, and need not.
                let _ = kill(pid, signal);
            }
        }
        Ok(None)
    }

    fn take_state(&self, pid: Pid) -> Result<Option<Outcome>> {
        let mut status = 0;
        loop {
            // SAFETY: the status is a valid place to write to.
            let changed = unsafe {
                libc::waitpid(pid.as_raw(), &mut status, libc::WNOHANG | libc::WUNTRACED)
            };
            match changed {
                0 => return Ok(None),
                -1 => return Err(Errno::last()).context("cannot wait for the program"),
                _ if libc::WIFSTOPPED(status) => {
                    raise(Signal::SIGSTOP).context("cannot stop with the program")?
                }
                _ => return Ok(Some(Outcome::from_wait_status(status))),
            }
        }
    }
}

fn is_from_terminal(info: &siginfo) -> bool {
    info.ssi_code == libc::SI_KERNEL
}
