//! Which thread of a process may be made to call a function now.
//!
//! It must not be inside the library, which would refuse or wait for itself. Best is one that waits
//! in the kernel, as the library does only where its own code is on top of the stack; of threads
//! that compute it takes one that happens to be elsewhere.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process, Syscall, Task};

use super::held::{Held, TEXTS_SIZE};
use super::library::Library;
use super::refusal;
use super::registers::{ADDRESS_BITS, INTERRUPTED_WORDS, Registers, TELL_RESTART, interrupted_at};
use super::tracee::{ENDED, Resume, Stop, Tracee};
use crate::explain::{Memory, ProcessMemory};
use crate::proc_texts;
use crate::processes::ANONYMOUS_NAME;

/// Calls that wait, and of which nothing is lost if they are made again.
const WAITING: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_futex,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_restart_syscall,
    libc::SYS_io_getevents,
];

/// Others that may end for a stop alone, with nothing done. A thread may be in one by the time that
/// it stops.
const MADE_AGAIN: &[i64] = &[
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_connect,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_io_uring_enter,
];

/// So many words of the stack are looked through for the library's own code: it waits by libc's
/// `syscall` alone, which has only the address to return to there, and else calls what has small
/// frames. Further up lies what earlier calls have left.
const TOP_WAITING: usize = 1;
const TOP_COMPUTING: usize = 32;
const WORD: usize = size_of::<u64>();
/// So much a handler and what it calls have on the stack, with what the kernel puts there for it.
const HANDLER_SIZE_MAX: usize = 64 << 10;
/// The library's functions have at most 4 KiB each.
const STACK_ROOM: u64 = 32 << 10;
const ANY: MMPermissions =
    MMPermissions::READ.union(MMPermissions::WRITE).union(MMPermissions::EXECUTE);
const PATIENCE: Duration = Duration::from_secs(10);
/// So long only threads that wait are taken.
const PATIENCE_FOR_WAITING: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(5);
/// A thread that is asked to stop does as soon as it has a processor, but in the middle of some of
/// the kernel's work.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why a thread is not fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// In the library's code, or in a handler that has interrupted that.
    Inside,
    /// An address of that lies on top of the stack, of a call that goes on or of an earlier one.
    SeemsInside,
    Computes,
    Sequence,
    SystemCall,
    Stack,
}

/// A thread that is fit, stopped; else why it is not, unless it has ended.
type Looked = Result<(Tracee, Registers), Option<Unfit>>;

/// Holds a thread that is fit, as soon as there is one, if that is still wanted then.
pub fn hold<'a>(
    process: &Process,
    library: &Library,
    memory: &'a ProcessMemory,
    is_wanted: impl Fn() -> bool,
) -> Result<Held<'a>> {
    let errno_location = library.any_function("__errno_location", memory);
    let begin = Instant::now();
    let mut unfit = BTreeSet::new();
    loop {
        let may_compute = begin.elapsed() >= PATIENCE_FOR_WAITING && !library.code.is_empty();
        let search = Search { process, library, memory, may_compute };
        if !is_wanted() {
            bail!("nobody waits for this any more");
        }
        let (mut may_one, mut why_none) = (false, None);
        for task in process.tasks().context(ENDED)?.flatten() {
            if let Some(why) = refusal::check(process, &task)? {
                why_none = Some(why);
                continue;
            }
            may_one = true;
            match search.take(&task) {
                Ok(Ok((tracee, registers))) => {
                    return Held::new(tracee, process.pid, memory, registers, errno_location);
                }
                // Only for now.
                Ok(Err(Some(Unfit::Computes))) if !library.code.is_empty() => {}
                Ok(Err(why)) => unfit.extend(why),
                // Threads end while others go on.
                Err(_) if task.stat().is_err() && process.stat().is_ok() => {}
                Err(error) => return Err(error),
            }
        }
        if let (false, Some(why)) = (may_one, why_none) {
            bail!(why);
        }
        if begin.elapsed() >= PATIENCE {
            bail!(refusal::none_fit(process.pid, PATIENCE, &unfit));
        }
        std::thread::sleep(PAUSE);
    }
}

struct Search<'a> {
    process: &'a Process,
    library: &'a Library,
    memory: &'a ProcessMemory,
    may_compute: bool,
}

impl Search<'_> {
    fn take(&self, task: &Task) -> Result<Looked> {
        let mut waited_for = None;
        let unfit = match task.syscall() {
            Ok(Syscall::Running) => (!self.may_compute).then_some(Unfit::Computes),
            Ok(Syscall::Blocked {
                syscall_number: number,
                argument_registers: arguments,
                stack_pointer,
                program_counter,
            }) if self.waits_elsewhere(number, arguments[1]) => {
                waited_for = Some((number, arguments));
                self.unfit_at(program_counter, stack_pointer, TOP_WAITING)
            }
            Ok(_) => Some(Unfit::SystemCall),
            Err(_) => return Ok(Err(None)),
        };
        if let Some(why) = unfit {
            return Ok(Err(Some(why)));
        }
        let tracee = match Tracee::seize(task.tid) {
            Ok(tracee) => tracee,
            // The thread has ended, which others have not.
            Err(Errno::ESRCH) => return Ok(Err(None)),
            Err(error) => return Err(refusal::of_tracing(self.process.pid, task.tid, error)),
        };
        self.stop(&tracee)?;
        if tracee.has_shadow_stack() {
            bail!(refusal::shadow_stack(self.process.pid));
        }
        let mut registers = tracee.registers()?;
        let is_disturbed = self.is_disturbed(&registers, task);
        let is_same = |(number, arguments): &(i64, [u64; 6])| {
            *number == registers.system_call() && arguments[1..4] == registers.arguments()[1..]
        };
        let first = waited_for.filter(is_same).map(|(_, arguments)| arguments[0]);
        if let Some(first) = registers.first_argument().or(first).filter(|_| is_disturbed) {
            registers.repeat_system_call(first);
            tracee.set_registers(&registers)?;
        }
        let waits = is_disturbed || self.waits(&registers);
        if let Some(why) = self.unfit_stopped(&tracee, &registers, waits) {
            return Ok(Err(Some(why)));
        }
        Ok(match self.begins_again(&tracee, &mut registers)? {
            true => Ok((tracee, registers)),
            false => Err(Some(Unfit::SystemCall)),
        })
    }

    fn unfit_stopped(&self, tracee: &Tracee, registers: &Registers, waits: bool) -> Option<Unfit> {
        if !waits && !self.may_compute {
            return Some(Unfit::Computes);
        }
        if !waits && tracee.is_in_restartable_sequence(self.memory) {
            return Some(Unfit::Sequence);
        }
        if self.is_ours(registers.link()) {
            return Some(Unfit::Inside);
        }
        let top = if waits { TOP_WAITING } else { TOP_COMPUTING };
        self.unfit_at(registers.pc(), registers.sp(), top)
    }

    /// Lets a thread that waited go on up to its system call, which may be another by then: one
    /// that waits for the rest of the time.
    fn begins_again(&self, tracee: &Tracee, registers: &mut Registers) -> Result<bool> {
        let is_to = !TELL_RESTART && self.waits(registers);
        if !is_to || tracee.resume(Resume::WithoutSystemCalls, 0).is_err() {
            return Ok(true); // with a kernel that cannot, it waits for the whole time again
        }
        match tracee.wait(STOP_PATIENCE)? {
            Some(Stop::SystemCall) => {
                *registers = tracee.registers()?;
                registers.make_system_call();
                tracee.set_registers(registers)?;
                return Ok(true);
            }
            Some(Stop::Signal(signal)) => tracee.resume(Resume::Freely, signal)?,
            _ => tracee.resume(Resume::Freely, 0)?,
        }
        self.stop(tracee)?;
        Ok(false)
    }

    fn stop(&self, tracee: &Tracee) -> Result<()> {
        tracee.interrupt()?;
        loop {
            match tracee.wait(STOP_PATIENCE)? {
                Some(Stop::Asked) => return Ok(()),
                Some(Stop::Group) => bail!(refusal::stopped(self.process.pid)),
                Some(Stop::Signal(signal)) => tracee.resume(Resume::Freely, signal)?,
                Some(Stop::SystemCall) => tracee.resume(Resume::Freely, 0)?,
                None => bail!(
                    "{}: a thread of it cannot be stopped: it waits for a device, or is frozen \
                     with its control group",
                    self.process.pid
                ),
            }
        }
    }

    /// Where the library's own code cannot be told apart, by how it waits for a lock.
    fn waits_elsewhere(&self, number: i64, operation: u64) -> bool {
        let may_be_lock = number == libc::SYS_futex
            && operation as i32 & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT
            && self.library.code.is_empty();
        WAITING.contains(&number) && !may_be_lock
    }

    fn waits(&self, registers: &Registers) -> bool {
        let at_pc = self.memory.read_vec(registers.pc(), 4).unwrap_or_default();
        registers.will_restart(&at_pc)
            && self.waits_elsewhere(registers.system_call(), registers.arguments()[1])
    }

    /// Whether a call has ended for our stop alone, which the kernel does not make again.
    fn is_disturbed(&self, registers: &Registers, task: &Task) -> bool {
        let is_alone = || {
            let thread = Process::new(task.tid);
            let status = thread.and_then(|thread| proc_texts::status(&thread)).ok();
            status.is_some_and(|s| (s.sigpnd | s.shdpnd) & !s.sigblk == 0)
        };
        let before_pc = registers.pc().wrapping_sub(4);
        let before_pc = self.memory.read_vec(before_pc, 4).unwrap_or_default();
        registers.was_interrupted(&before_pc)
            && [WAITING, MADE_AGAIN].iter().any(|c| c.contains(&registers.system_call()))
            && is_alone()
    }

    /// What speaks against a thread there: it, or what it has called last, may be the library, or a
    /// call has no room.
    fn unfit_at(&self, pc: u64, sp: u64, top: usize) -> Option<Unfit> {
        let maps = proc_texts::maps(self.process).map(Vec::from_iter).unwrap_or_default();
        let Some(end) = stack_end(&maps, sp) else { return Some(Unfit::Stack) };
        let size = HANDLER_SIZE_MAX.min((end - sp) as usize);
        let Ok(bytes) = self.memory.read_vec(sp, size) else { return Some(Unfit::Stack) };
        let words = bytes.chunks_exact(WORD).map(|b| u64::from_ne_bytes(b.try_into().unwrap()));
        let words: Vec<u64> = words.collect();
        if self.is_ours(pc) || self.has_interrupted(&words) {
            return Some(Unfit::Inside);
        }
        words.iter().take(top).any(|word| self.is_ours(*word)).then_some(Unfit::SeemsInside)
    }

    /// Whether the thread is in a handler that has interrupted the library: of its first steps in
    /// malloc and free the library itself knows nothing.
    fn has_interrupted(&self, stack: &[u64]) -> bool {
        let may_be_ours = |address: u64| self.library.code.is_empty() || self.is_ours(address);
        let mut places = stack.windows(INTERRUPTED_WORDS);
        places.any(|words| interrupted_at(words).is_some_and(may_be_ours))
    }

    fn is_ours(&self, address: u64) -> bool {
        self.library.code.iter().any(|code| code.contains(&(address & ADDRESS_BITS)))
    }
}

/// Where the stack ends in which `sp` lies, if it is a thread's own and has room below. What a
/// program takes for a stack, for coroutines or handlers, may have anything below, but no guard.
fn stack_end(maps: &[MemoryMap], sp: u64) -> Option<u64> {
    let at = maps.iter().position(|map| (map.address.0..map.address.1).contains(&sp))?;
    let (start, end) = maps[at].address;
    let below = at.checked_sub(1).map(|below| &maps[below]);
    let is_guard = |map: &&MemoryMap| map.address.1 == start && !map.perms.intersects(ANY);
    let room = match maps[at].pathname {
        // It grows.
        MMapPath::Stack => 2 * TEXTS_SIZE,
        MMapPath::Other(ref name) if name.starts_with(ANONYMOUS_NAME) => return None,
        _ if below.filter(is_guard).is_none() => return None,
        _ => STACK_ROOM,
    };
    (sp - start >= room).then_some(end)
}
