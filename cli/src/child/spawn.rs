//! Starting a program with fork and exec.
//!
//! A vfork'd child borrows its parent's memory, and the kernel then counts the parent's peak
//! as the child's. A forked one begins with the few pages that the parent has written, and those of
//! the code that runs until exec: hardly more than the 1 MiB that the smallest dynamically linked
//! program needs for itself. The standard library forks as soon as
//! there is something to do before exec, and here there always is.

use std::io;
use std::mem::{self, MaybeUninit};
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr::NonNull;
use std::time::Duration;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpid, getppid};

use super::dispositions;
use crate::program::{CannotStart, Program};

/// Starts the program with the signal mask that the tool itself was started with.
pub fn start(
    program: &Program,
    command: &mut Command,
    signal_mask: SigSet,
) -> Result<Child, CannotStart> {
    let tool = getpid();
    // SAFETY: the closure makes system calls only, as is right between fork and exec.
    unsafe { command.pre_exec(move || prepare(tool, &signal_mask)) };
    spawn(program, command)
}

/// The same, and the last thing before exec is to write the time and the usage so far.
pub fn start_stamped(
    program: &Program,
    command: &mut Command,
    signal_mask: SigSet,
    stamp: &LaunchStamp,
) -> Result<Child, CannotStart> {
    let tool = getpid();
    let page = stamp.page.as_ptr() as usize;
    // SAFETY: the closure makes system calls only, as is right between fork and exec, and it
    // writes to a shared page that outlives the call.
    unsafe {
        command.pre_exec(move || {
            prepare(tool, &signal_mask)?;
            write_stamp(page as *mut Stamp)
        })
    };
    spawn(program, command)
}

fn spawn(program: &Program, command: &mut Command) -> Result<Child, CannotStart> {
    command.spawn().map_err(|source| CannotStart::Refused {
        program: program.name.to_string_lossy().into_owned(),
        source,
    })
}

/// Runs in the child: a killed tool leaves no program behind, and signals are as they were.
fn prepare(tool: Pid, signal_mask: &SigSet) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    if getppid() != tool {
        return Err(io::Error::other("the tool has ended"));
    }
    dispositions::give_back()?;
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(signal_mask), None)?;
    Ok(())
}

/// What the child had used when it called exec, and when that was.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamp {
    time: libc::timespec,
    usage: libc::rusage,
}

/// A page that parent and child share, through which the child hands over its stamp.
pub struct LaunchStamp {
    page: NonNull<Stamp>,
}

const STAMP_BYTES: NonZeroUsize = NonZeroUsize::new(mem::size_of::<Stamp>()).unwrap();

impl LaunchStamp {
    pub fn new() -> io::Result<LaunchStamp> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping overlaps nothing.
        let page = unsafe { mmap_anonymous(None, STAMP_BYTES, protection, MapFlags::MAP_SHARED) }?;
        Ok(LaunchStamp { page: page.cast() })
    }

    /// Time on the monotonic clock when the child called exec.
    pub fn time(&self) -> Duration {
        let time = self.read().time;
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// What the child had used when it called exec: the cost of starting it, not its own.
    pub fn usage(&self) -> libc::rusage {
        self.read().usage
    }

    fn read(&self) -> Stamp {
        // SAFETY: the page is mapped while self lives, and every bit pattern is a stamp; the
        // child has written it before exec, which its spawn has waited for.
        unsafe { self.page.as_ptr().read_volatile() }
    }
}

impl Drop for LaunchStamp {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nobody else holds it.
        let _ = unsafe { munmap(self.page.cast(), STAMP_BYTES.get()) };
    }
}

/// Runs in the child: makes system calls and writes to the shared page, nothing else.
fn write_stamp(page: *mut Stamp) -> io::Result<()> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the buffer has the size that the kernel fills.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    // SAFETY: the page is mapped and large enough, and getrusage has filled the buffer.
    unsafe { page.write(Stamp { time: *time.as_ref(), usage: usage.assume_init() }) };
    Ok(())
}
