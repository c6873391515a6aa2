//! A thread that is held, and made to call functions: it is as it was when it is let go.
//!
//! A call that has begun is never broken off, for it may have a lock by then. All signals but those
//! that the thread brings on itself wait meanwhile, in the kernel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::registers::{RED_ZONE, RETURN, Registers, STACK_ALIGNMENT};
use super::tracee::{Resume, Stop, Tracee, Vectors};
use super::written::Written;
use crate::explain::{Memory, ProcessMemory};
use crate::processes::shown_as;
use crate::verbs::tell;

/// Room for texts, between what the thread has on its stack and what calls have there.
pub const TEXTS_SIZE: u64 = 4096;
/// After so long somebody should know what is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const FOR_EVER: Duration = Duration::MAX;
const NOT_WRITTEN: &str = "its memory cannot be written";
/// No signal that a thread brings on itself can wait.
const OWN_SIGNALS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// What the thread has blocked itself waits on, but for the signal by which a call's end is known.
fn blocked_meanwhile(blocked: u64) -> u64 {
    (blocked | !mask_of(&OWN_SIGNALS)) & !mask_of(&[libc::SIGSEGV])
}

pub fn mask_of(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |mask, signal| mask | 1 << (signal - 1))
}

pub struct Held<'a> {
    tracee: Tracee,
    memory: &'a ProcessMemory,
    /// The kernel lets a debugger write where the process itself could not.
    writable: File,
    /// As the thread was, and shall be again.
    registers: Registers,
    vectors: Vectors,
    blocked: u64,
    /// Where calls begin to put things, downwards; texts lie above.
    stack: u64,
    texts_end: u64,
    /// Where the thread's is, and what it was.
    errno: Option<(u64, u32)>,
    is_calling: bool,
}

impl<'a> Held<'a> {
    /// Of a thread that stands still. `errno_location` is libc's function.
    pub fn new(
        tracee: Tracee,
        pid: i32,
        memory: &'a ProcessMemory,
        registers: Registers,
        errno_location: Option<u64>,
    ) -> Result<Held<'a>> {
        let writable = File::options().write(true).open(format!("/proc/{}/mem", shown_as(pid)));
        let writable = writable.context(NOT_WRITTEN)?;
        let vectors = tracee.vectors()?;
        let blocked = tracee.blocked_signals()?;
        let stack = (registers.sp() - RED_ZONE - TEXTS_SIZE) & !(STACK_ALIGNMENT - 1);
        let mut held = Held {
            tracee,
            memory,
            writable,
            registers,
            vectors,
            blocked,
            stack,
            texts_end: stack,
            errno: None,
            is_calling: false,
        };
        held.tracee.block_signals(blocked_meanwhile(blocked))?;
        if let Some(function) = errno_location {
            let place = held.call(function, &[])?;
            held.errno = Some((place, held.errno_at(place)?));
        }
        Ok(held)
    }

    fn errno_at(&self, place: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.memory.read(place, &mut bytes).context("its memory cannot be read")?;
        Ok(u32::from_ne_bytes(bytes))
    }

    /// Why the last call has failed, if that can be known.
    pub fn errno(&self) -> Option<i32> {
        let (place, _) = self.errno?;
        self.errno_at(place).ok().map(|number| number as i32)
    }

    /// Puts a text where the function can read it.
    pub fn text(&mut self, text: &str) -> Result<u64> {
        let bytes = [text.as_bytes(), b"\0"].concat();
        self.room(bytes.len()).and_then(|place| self.write(place, &bytes).map(|()| place))
    }

    /// Room for a text that a function writes.
    pub fn room(&mut self, size: usize) -> Result<u64> {
        let place = self.texts_end;
        if place + size as u64 > self.stack + TEXTS_SIZE {
            bail!("what is to be said to the process is too long");
        }
        self.texts_end += size as u64;
        Ok(place)
    }

    pub fn read(&self, place: u64, size: usize) -> Result<String> {
        let bytes = self.memory.read_vec(place, size).context("its memory cannot be read")?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    fn write(&self, place: u64, bytes: &[u8]) -> Result<()> {
        self.writable.write_all_at(bytes, place).context(NOT_WRITTEN)
    }

    /// Calls the function, and waits until it returns.
    pub fn call(&mut self, function: u64, arguments: &[u64]) -> Result<u64> {
        self.begin(function, arguments)?;
        self.finish(Resume::Freely, |_| Ok(Resume::Freely))
    }

    /// Calls a function that writes the file of that name: that comes to us.
    pub fn call_to_write(&mut self, function: u64, arguments: &[u64]) -> Result<(u64, Vec<u8>)> {
        self.begin(function, arguments)?;
        let memory = self.memory;
        let mut written = Written::default();
        // Where it begins and whether it has begun, of a system call that is made after all.
        let (mut place, mut has_begun) = (0, false);
        let mut mode = Resume::WithoutSystemCalls;
        let result = self.finish(mode, |tracee| {
            let mut registers = tracee.registers()?;
            if mode == Resume::ToSystemCall {
                // That it was not made may end first; then it begins, and ends.
                if registers.pc() != place && has_begun {
                    mode = Resume::WithoutSystemCalls;
                }
                has_begun = registers.pc() != place;
                return Ok(mode);
            }
            let (number, arguments) = (registers.system_call(), registers.arguments());
            match written.answer(memory, number, arguments)? {
                Some(answer) => registers.set_result(answer),
                None => {
                    registers.make_system_call();
                    (mode, place, has_begun) = (Resume::ToSystemCall, registers.pc(), false);
                }
            }
            tracee.set_registers(&registers)?;
            Ok(mode)
        })?;
        Ok((result, written.bytes()))
    }

    fn begin(&mut self, function: u64, arguments: &[u64]) -> Result<()> {
        let (registers, return_address) = self.registers.call(function, arguments, self.stack);
        if let Some(address) = return_address {
            self.write(registers.sp(), &address.to_ne_bytes())?;
        }
        self.tracee.set_registers(&registers)
    }

    fn finish(
        &mut self,
        mut how: Resume,
        mut on_system_call: impl FnMut(&Tracee) -> Result<Resume>,
    ) -> Result<u64> {
        let mut signal = 0;
        loop {
            self.tracee.resume(how, signal)?;
            self.is_calling = true;
            let stop = match self.tracee.wait(PATIENCE)? {
                Some(stop) => Some(stop),
                None => {
                    tell("the process has not done it yet, and is waited for");
                    self.tracee.wait(FOR_EVER)?
                }
            };
            signal = 0;
            match stop {
                Some(Stop::Signal(libc::SIGSEGV)) if self.tracee.registers()?.pc() == RETURN => {
                    break;
                }
                Some(Stop::Signal(number)) => signal = number,
                Some(Stop::SystemCall) => how = on_system_call(&self.tracee)?,
                Some(Stop::Asked | Stop::Group) | None => {}
            }
        }
        self.is_calling = false;
        Ok(self.tracee.registers()?.result())
    }
}

/// In the middle of a call nothing can be put back: the process has ended, or nobody can help it.
impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_calling {
            return;
        }
        if let Some((place, number)) = self.errno {
            let _ = self.write(place, &number.to_ne_bytes());
        }
        let put_back = [
            self.tracee.set_vectors(&mut self.vectors),
            self.tracee.block_signals(self.blocked),
            self.tracee.set_registers(&self.registers),
        ];
        for error in put_back.into_iter().filter_map(Result::err) {
            tell(format!("{error:#}"));
        }
    }
}
