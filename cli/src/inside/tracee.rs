//! One thread of another process that is seized: stopped, looked at, let go.
//!
//! It is seized, not attached to: no signal is sent to it, and a tracer that ends lets go of it.

use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options, regset};
use nix::unistd::Pid;

use super::registers::{Registers, SHADOW_STACK_SET, VECTOR_SETS};
use crate::explain::Memory;

/// Of waitpid's status: how a thread stands that neither runs nor takes a signal.
const EVENT_STOP: i32 = 128;
const SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;
const GETREGSET: u32 = 0x4204;
const SETREGSET: u32 = 0x4205;
const GETSIGMASK: u32 = 0x420a;
const SETSIGMASK: u32 = 0x420b;
const GET_RSEQ: u32 = 0x420f;
const SYSEMU: u32 = 31;
/// Bytes of the kernel's set of signals.
const MASK_SIZE: usize = 8;
/// What no regset is larger than.
const REGSET_SIZE_MAX: usize = 64 << 10;
const LOOKS_AT_ONCE: u32 = 100;
const PAUSE: Duration = Duration::from_micros(200);

pub const ENDED: &str = "the process has ended meanwhile";

#[derive(Clone, Copy, PartialEq)]
pub enum Stop {
    /// By our request.
    Asked,
    /// With its whole process, as by SIGSTOP.
    Group,
    /// It is about to take this signal.
    Signal(i32),
    /// It is about to make a system call, or has made one.
    SystemCall,
}

/// How a thread goes on.
#[derive(Clone, Copy, PartialEq)]
pub enum Resume {
    Freely,
    /// Up to a system call's beginning or end.
    ToSystemCall,
    /// Up to a system call, which is not made.
    WithoutSystemCalls,
}

/// The vector and floating point registers, as one of the kernel's sets.
pub struct Vectors {
    set: i32,
    bytes: Vec<u8>,
}

pub struct Tracee(Pid);

impl Tracee {
    pub fn seize(tid: i32) -> nix::Result<Tracee> {
        ptrace::seize(Pid::from_raw(tid), Options::PTRACE_O_TRACESYSGOOD)?;
        Ok(Tracee(Pid::from_raw(tid)))
    }

    pub fn interrupt(&self) -> Result<()> {
        ptrace::interrupt(self.0).map_err(refused)
    }

    /// None if it has not stopped by then.
    pub fn wait(&self, patience: Duration) -> Result<Option<Stop>> {
        let begin = Instant::now();
        for look in 0.. {
            let mut status = 0;
            // SAFETY: the status is a valid place to write to.
            let found = unsafe {
                libc::waitpid(self.0.as_raw(), &mut status, libc::__WALL | libc::WNOHANG)
            };
            match Errno::result(found) {
                Ok(0) if begin.elapsed() >= patience => return Ok(None),
                Ok(0) if look < LOOKS_AT_ONCE => std::thread::yield_now(),
                Ok(0) => std::thread::sleep(PAUSE),
                Err(Errno::EINTR) => {}
                Ok(_) if libc::WIFSTOPPED(status) => return Ok(Some(stop_of(status))),
                _ => bail!(ENDED),
            }
        }
        Ok(None)
    }

    pub fn resume(&self, how: Resume, signal: i32) -> Result<()> {
        let request = match how {
            Resume::Freely => libc::PTRACE_CONT,
            Resume::ToSystemCall => libc::PTRACE_SYSCALL,
            Resume::WithoutSystemCalls => SYSEMU,
        };
        self.request(request, 0, ptr::without_provenance_mut(signal as usize)).map_err(refused)
    }

    pub fn registers(&self) -> Result<Registers> {
        ptrace::getregset::<regset::NT_PRSTATUS>(self.0).map(Registers).map_err(refused)
    }

    pub fn set_registers(&self, registers: &Registers) -> Result<()> {
        ptrace::setregset::<regset::NT_PRSTATUS>(self.0, registers.0).map_err(refused)
    }

    pub fn vectors(&self) -> Result<Vectors> {
        let mut bytes = vec![0_u8; REGSET_SIZE_MAX];
        let mut failure = Errno::EINVAL;
        for set in VECTOR_SETS {
            match self.regset(GETREGSET, set, &mut bytes) {
                Ok(size) => {
                    bytes.truncate(size);
                    return Ok(Vectors { set, bytes });
                }
                Err(error) => failure = error,
            }
        }
        Err(refused(failure))
    }

    pub fn set_vectors(&self, vectors: &mut Vectors) -> Result<()> {
        self.regset(SETREGSET, vectors.set, &mut vectors.bytes).map(drop).map_err(refused)
    }

    /// Whether calls of its own alone may change where it returns to.
    pub fn has_shadow_stack(&self) -> bool {
        let mut state = [0; 3 * size_of::<u64>()];
        let asked = SHADOW_STACK_SET.map(|set| self.regset(GETREGSET, set, &mut state));
        matches!(asked, Some(Ok(_))) && state[0] & 1 != 0
    }

    /// How much of the buffer the set fills.
    fn regset(&self, request: u32, set: i32, bytes: &mut [u8]) -> nix::Result<usize> {
        let mut range = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.request(request, set as usize, (&raw mut range).cast())?;
        Ok(range.iov_len)
    }

    /// Which signals wait; of a thread in a call that changes that, as `ppoll`, from before.
    pub fn blocked_signals(&self) -> Result<u64> {
        let mut mask = 0_u64;
        self.request(GETSIGMASK, MASK_SIZE, (&raw mut mask).cast()).map_err(refused)?;
        Ok(mask)
    }

    pub fn block_signals(&self, mut mask: u64) -> Result<()> {
        self.request(SETSIGMASK, MASK_SIZE, (&raw mut mask).cast()).map(drop).map_err(refused)
    }

    /// Whether it is in code that must be begun anew when the thread was elsewhere.
    pub fn is_in_restartable_sequence(&self, memory: &dyn Memory) -> bool {
        let mut area = [0_u64; 3];
        let asked = self.request(GET_RSEQ, size_of_val(&area), area.as_mut_ptr().cast());
        let is_known = asked.is_ok() && area[0] != 0;
        is_known && memory.word(area[0] + 8).unwrap_or(1) != 0
    }

    fn request(&self, request: u32, address: usize, data: *mut libc::c_void) -> nix::Result<()> {
        // SAFETY: what the data points to, if it does, is as large as the request takes it for, as
        // the callers above say; nothing else of this process is touched.
        let answer = unsafe {
            libc::ptrace(request, self.0.as_raw(), ptr::without_provenance_mut::<()>(address), data)
        };
        Errno::result(answer).map(drop)
    }
}

/// It goes on as it stands; a signal that it was about to take is forgotten.
impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.0, None);
    }
}

fn stop_of(status: i32) -> Stop {
    match (status >> 16, libc::WSTOPSIG(status)) {
        (EVENT_STOP, libc::SIGTRAP) => Stop::Asked,
        (EVENT_STOP, _) => Stop::Group,
        (_, SYSTEM_CALL) => Stop::SystemCall,
        (_, signal) => Stop::Signal(signal),
    }
}

fn refused(error: Errno) -> anyhow::Error {
    match error {
        Errno::ESRCH => anyhow!(ENDED),
        error => anyhow::Error::new(error).context("the kernel refuses to trace it"),
    }
}
