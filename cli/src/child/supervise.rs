//! Stands between a program and whoever started the tool, as if it were not there.
//!
//! Signals sent to the tool go on to the program. Those of the terminal (Ctrl-C, Ctrl-Z, a new
//! window size) have reached the program already, for the kernel sends them to the whole
//! process group; sent twice they would, say, end a shell that asks for a second Ctrl-C. They have
//! not if the program has made a group of its own, and a terminal that closes tells the leader of
//! its session alone, which the tool may be.
//! When the program stops, the tool stops too, so that the shell gets its prompt back. But where no
//! shell waits and nobody has asked the tool, it would only miss that the program goes on.
//!
//! A program that is only measured has nobody else to end what it has started: a signal that asks
//! the tool to end is for all of that.

use std::cell::Cell;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::process::Child;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getsid, tcgetpgrp};

use super::{End, Interrupted, Outcome};
use crate::handshake::{Handshake, State};
use crate::processes::{descendants, is_same_process, stat_of};

/// What a thread brings on itself, by a fault or by writing: it is for the tool, not the program.
const OWN: [Signal; 8] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGPIPE,
    Signal::SIGXFSZ,
];

/// What work of the tool's own is to know of; any other signal does to it what it does to all.
const HEEDED: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
    Signal::SIGCHLD,
];

/// What the kernel sends to a whole group for its terminal.
const OF_TERMINAL: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGWINCH,
];

/// What ends the watching of somebody else's process, and a measurement.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// What a session's leader gets when its terminal closes; all others get the signals of a group.
const OF_LEADER: [Signal; 2] = [Signal::SIGHUP, Signal::SIGCONT];

/// Of a process that is no child, only asking tells whether it has ended.
const PATIENCE_MILLISECONDS: u16 = 20;

/// What is to end and has not by then is killed.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How often one looks after what a measured program leaves.
const LOOK_MILLISECONDS: u16 = 100;

/// How often one looks whether the handshake is waited for in vain.
const HANDSHAKE_LOOK: Duration = Duration::from_millis(200);

/// Loading a library takes milliseconds; a busy machine may take a hundred times as long.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(3);

pub struct Supervisor {
    signals: SignalFd,
    /// The mask from before, which the program is to start with.
    pub original_mask: SigSet,
    /// Whether the last request was to stop, not to continue.
    is_to_stop: Cell<bool>,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.leave_signals();
    }
}

impl Supervisor {
    /// Begins to collect signals for a program that the tool stands for; from before it starts, so
    /// that none is lost.
    pub fn of_program() -> Result<Supervisor> {
        let mut collected = SigSet::all();
        OWN.iter().for_each(|signal| collected.remove(*signal));
        Supervisor::of(&collected)
    }

    /// The same for a measurement, or for watching somebody else's process.
    pub fn of_work() -> Result<Supervisor> {
        Supervisor::of(&SigSet::from_iter(HEEDED))
    }

    fn of(collected: &SigSet) -> Result<Supervisor> {
        let original_mask = SigSet::thread_get_mask().context("cannot read the signal mask")?;
        collected.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(collected, flags).context("cannot wait for signals")?;
        Ok(Supervisor { signals, original_mask, is_to_stop: Cell::new(false) })
    }

    /// From here on signals do what they did before, those that have come meanwhile as well: what
    /// must not be left behind when one ends the tool is gone by now.
    pub fn leave_signals(&self) {
        let _ = self.original_mask.thread_set_mask();
    }

    /// What became of the handshake, and how the program ended if it did before. `is_in_vain` is
    /// asked now and then.
    pub fn wait_for_handshake(
        &mut self,
        child: &Child,
        handshake: &mut Handshake,
        is_in_vain: impl Fn() -> bool,
    ) -> Result<(State, Option<Outcome>)> {
        let pid = Pid::from_raw(child.id() as i32);
        let deadline = Instant::now() + HANDSHAKE_PATIENCE;
        let mut next_look = Instant::now() + HANDSHAKE_LOOK;
        loop {
            self.wait_for_news(handshake, next_look)?;
            let ended = self.take_signals(pid)?;
            let state = handshake.poll();
            let now = Instant::now();
            let mut is_late = ended.is_some() || now >= deadline;
            if !is_late && now >= next_look {
                is_late = is_in_vain();
                next_look = now + HANDSHAKE_LOOK;
            }
            if state != State::Waiting || is_late {
                return Ok((state, ended.map(|end| end.outcome)));
            }
        }
    }

    /// Waits for the program's end.
    pub fn wait_for_end(&mut self, child: &Child) -> Result<End> {
        let pid = Pid::from_raw(child.id() as i32);
        loop {
            self.wait_for_signal(PollTimeout::NONE)?;
            if let Some(end) = self.take_signals(pid)? {
                return Ok(end);
            }
        }
    }

    /// The same, until `is_over`, which is asked again and again.
    pub fn wait_for_end_unless(
        &mut self,
        child: &Child,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Outcome>> {
        while !is_over() {
            self.wait_for_signal(PollTimeout::from(PATIENCE_MILLISECONDS))?;
            if let Some(end) = self.take_signals(Pid::from_raw(child.id() as i32))? {
                return Ok(Some(end.outcome));
            }
        }
        Ok(None)
    }

    /// The same of a program that is measured, and `meanwhile` is called now and then. A request to
    /// end is one to all that it has started, and an error here.
    pub fn wait_for_measured(&mut self, child: &Child, meanwhile: impl Fn()) -> Result<End> {
        let pid = Pid::from_raw(child.id() as i32);
        loop {
            self.wait_for_signal(PollTimeout::from(LOOK_MILLISECONDS))?;
            while let Some(info) = self.read_signal()? {
                if is_request(&info) {
                    return Err(self.end_all(pid, &info)?.into());
                }
                if let Some(end) = self.take_signal(pid, &info)? {
                    return Ok(end);
                }
            }
            meanwhile();
        }
    }

    /// Passes the request on, and waits until all have ended. A second one is for a quick end.
    fn end_all(&self, pid: Pid, request: &siginfo) -> Result<Interrupted> {
        let signal = Signal::try_from(request.ssi_signo as i32).context("no such signal")?;
        let mut started = descendants(|parent| parent == pid.as_raw());
        // The program first, so that it starts no more. What ends meanwhile can't take it.
        let all = [pid].into_iter().chain(started.keys().copied().map(Pid::from_raw));
        for pid in all.filter(|pid| !has_reached(*pid, request)) {
            let _ = kill(pid, signal);
        }
        let deadline = Instant::now() + END_PATIENCE;
        let (mut has_ended, mut is_urgent) = (false, false);
        let is_left = |&(&pid, &start): &(&i32, &u64)| is_same_process(pid, start);
        while !is_urgent && Instant::now() < deadline {
            while let Some(info) = self.read_signal()? {
                match is_request(&info) {
                    true => is_urgent = true,
                    // It is waited for once. Others may be the tool's to wait for then.
                    false => has_ended = has_ended || self.take_signal(pid, &info)?.is_some(),
                }
            }
            // Who has been asked to end may start others for that.
            let more = descendants(|parent| {
                (parent == pid.as_raw() && !has_ended)
                    || started.get(&parent).is_some_and(|&start| is_same_process(parent, start))
            });
            started.extend(more);
            if has_ended && !started.iter().any(|one| is_left(&one)) {
                break;
            }
            self.wait_for_signal(PollTimeout::from(PATIENCE_MILLISECONDS))?;
        }
        let left = started.iter().filter(is_left).map(|(&pid, _)| Pid::from_raw(pid));
        for pid in left.chain((!has_ended).then_some(pid)) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        Ok(Interrupted(signal))
    }

    /// Waits until a signal asks for an end, or `is_over`, which is asked again and again; tells
    /// whether it was a signal. Who asks the tool to stop stops it alone.
    pub fn wait_for_request(&mut self, is_over: impl Fn() -> bool) -> Result<bool> {
        while !is_over() {
            self.wait_for_signal(PollTimeout::from(PATIENCE_MILLISECONDS))?;
            while let Some(info) = self.read_signal()? {
                if is_request(&info) {
                    // timeout, for one, sends it to the process and then to its group.
                    self.wait_for_signal(PollTimeout::from(PATIENCE_MILLISECONDS))?;
                    while self.read_signal()?.is_some() {}
                    return Ok(true);
                }
                if is_unignored(&info, &[Signal::SIGTSTP]) {
                    raise(Signal::SIGSTOP).context("cannot stop")?;
                }
            }
        }
        Ok(false)
    }

    fn read_signal(&self) -> Result<Option<siginfo>> {
        self.signals.read_signal().context("cannot read signals")
    }

    fn wait_for_signal(&self, timeout: PollTimeout) -> Result<()> {
        match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for the program"),
        }
    }

    fn wait_for_news(&self, handshake: &Handshake, deadline: Instant) -> Result<()> {
        let of_signals = PollFd::new(self.signals.as_fd(), PollFlags::POLLIN);
        let of_handshake = PollFd::new(handshake.descriptor(), PollFlags::POLLIN);
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [of_signals, of_handshake], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for the program"),
        }
    }

    /// Acts on every signal that has arrived; says how the program ended if it did.
    fn take_signals(&self, pid: Pid) -> Result<Option<End>> {
        while let Some(info) = self.read_signal()? {
            if let Some(end) = self.take_signal(pid, &info)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn take_signal(&self, pid: Pid, info: &siginfo) -> Result<Option<End>> {
        let number = info.ssi_signo as i32;
        let is_kernels = info.ssi_code == libc::SI_KERNEL;
        match number {
            libc::SIGCHLD => return self.take_state(pid),
            libc::SIGTSTP => self.is_to_stop.set(true),
            libc::SIGCONT => self.is_to_stop.set(false),
            // From anybody else they mean what the program takes them for.
            libc::SIGTTIN | libc::SIGTTOU if is_kernels => {
                self.is_to_stop.set(true);
                // The program's own signal may have stopped it, and told so, before.
                if is_stopped(pid) {
                    raise(Signal::SIGSTOP).context("cannot stop with the program")?;
                }
            }
            _ => {}
        }
        if !has_reached(pid, info) {
            // SAFETY: nothing of this process is touched. A program that has just ended can't take
            // it, and need not.
            let _ = unsafe { libc::kill(pid.as_raw(), number) };
        }
        Ok(None)
    }

    fn take_state(&self, pid: Pid) -> Result<Option<End>> {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        let options = libc::WNOHANG | libc::WUNTRACED;
        loop {
            // SAFETY: both are valid places to write to, of the types that the call fills.
            let changed =
                unsafe { libc::wait4(pid.as_raw(), &mut status, options, usage.as_mut_ptr()) };
            let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("there is no clock")?;
            match changed {
                0 => return Ok(None),
                -1 => return Err(Errno::last()).context("cannot wait for the program"),
                _ if libc::WIFSTOPPED(status) => {
                    if self.is_to_stop.get() || are_in_foreground(pid) {
                        raise(Signal::SIGSTOP).context("cannot stop with the program")?
                    }
                }
                _ => {
                    let outcome = Outcome::from_wait_status(status);
                    // SAFETY: wait4 has reaped the child and with that filled the buffer.
                    let usage = unsafe { usage.assume_init() };
                    return Ok(Some(End { outcome, usage, time: time.into() }));
                }
            }
        }
    }
}

/// Whether a terminal is the tool's or the program's at the moment: a shell waits for it then.
fn are_in_foreground(pid: Pid) -> bool {
    let foreground = File::open("/dev/tty").ok().and_then(|terminal| tcgetpgrp(terminal).ok());
    foreground.is_some_and(|group| group == getpgrp() || getpgid(Some(pid)) == Ok(group))
}

fn is_stopped(pid: Pid) -> bool {
    stat_of(pid.as_raw()).is_some_and(|stat| stat.state == 'T')
}

/// Whether the kernel has sent it to this process as well.
fn has_reached(pid: Pid, info: &siginfo) -> bool {
    let is_one_of = |signals: &[Signal]| signals.iter().any(|one| *one as u32 == info.ssi_signo);
    let is_for_group = info.ssi_code == libc::SI_KERNEL && is_one_of(&OF_TERMINAL);
    let is_for_leader = is_one_of(&OF_LEADER) && getsid(None) == Ok(getpid());
    is_for_group && !is_for_leader && getpgid(Some(pid)) == Ok(getpgrp())
}

/// Whether it asks the tool to end.
fn is_request(info: &siginfo) -> bool {
    is_unignored(info, &ENDING)
}

/// Whether it is one of these, and nohup or a shell has not had it ignored.
fn is_unignored(info: &siginfo, signals: &[Signal]) -> bool {
    let is_it = signals.iter().any(|signal| *signal as u32 == info.ssi_signo);
    is_it && !is_ignored(info.ssi_signo as i32)
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is set, and the buffer is a valid place to write to.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call has filled the buffer if it succeeded.
    asked == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
