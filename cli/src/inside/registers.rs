//! The registers of a thread that is held, and what a call of a function makes of them.
//!
//! The structure is the kernel's NT_PRSTATUS; which register is which stands here alone.

/// A call returns here: nothing is ever mapped there, so the thread stops for a SIGSEGV that is
/// ours, and whoever unwinds its stack sees an end.
pub const RETURN: u64 = 0;
/// What the kernel wants below a stack pointer.
pub const STACK_ALIGNMENT: u64 = 16;

/// Regsets with the rest of a thread's state, the whole one first.
#[cfg(target_arch = "x86_64")]
pub const VECTOR_SETS: [i32; 2] = [0x202 /* NT_X86_XSTATE */, 2 /* NT_PRFPREG */];
#[cfg(target_arch = "aarch64")]
pub const VECTOR_SETS: [i32; 2] = [0x405 /* NT_ARM_SVE */, 2 /* NT_PRFPREG */];

/// The regset whose first bit tells that the thread has a shadow stack, if /proc does not.
#[cfg(target_arch = "x86_64")]
pub const SHADOW_STACK_SET: Option<i32> = None;
#[cfg(target_arch = "aarch64")]
pub const SHADOW_STACK_SET: Option<i32> = Some(0x410 /* NT_ARM_GCS */);

/// Below the stack pointer a function of x86-64 may keep something without saying so.
#[cfg(target_arch = "x86_64")]
pub const RED_ZONE: u64 = 128;
#[cfg(target_arch = "aarch64")]
pub const RED_ZONE: u64 = 0;

/// The bits of an address of code; others sign it where it lies on the stack, or soon will.
#[cfg(target_arch = "x86_64")]
pub const ADDRESS_BITS: u64 = u64::MAX;
#[cfg(target_arch = "aarch64")]
pub const ADDRESS_BITS: u64 = (1 << 48) - 1;

/// Whether the registers say of a call that waited for a time that it goes on for the rest of it.
/// Otherwise the kernel sees to that as the thread goes on, and does so where it stood.
pub const TELL_RESTART: bool = cfg!(target_arch = "x86_64");

/// Of what the kernel lays on the stack for a handler: the place of the code that was interrupted,
/// and what tells these words from others.
pub const INTERRUPTED_WORDS: usize = 4;

/// The place, if the words look like that.
#[cfg(target_arch = "x86_64")]
pub fn interrupted_at(words: &[u64]) -> Option<u64> {
    /// One that is always set, and that interrupts are allowed; beyond 22 bits there are none.
    const FLAGS: u64 = 1 << 1 | 1 << 9;
    const CODE_SEGMENT: u64 = 0x33;
    let [place, flags, segments, _] = *words else { return None };
    let are_flags = flags & FLAGS == FLAGS && flags >> 22 == 0;
    (are_flags && segments & 0xffff == CODE_SEGMENT).then_some(place)
}
#[cfg(target_arch = "aarch64")]
pub fn interrupted_at(words: &[u64]) -> Option<u64> {
    /// FPSIMD_MAGIC, and the size of what follows: of all that may, it comes first.
    const FLOATING_POINT: u64 = 0x210 << 32 | 0x4650_8001;
    let [place, _flags, _padding, next] = *words else { return None };
    (next == FLOATING_POINT).then_some(place)
}

#[derive(Clone, Copy)]
pub struct Registers(pub libc::user_regs_struct);

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    const ERESTARTNOHAND: i64 = -514;
    const NO_SYSTEM_CALL: u64 = u64::MAX;
    /// Both ways of entering the kernel have two bytes.
    const SYSTEM_CALL_SIZE: u64 = 2;
    /// Strings go backwards; one step at a time.
    const FLAGS_UNWANTED: u64 = 1 << 10 | 1 << 8;

    pub fn pc(&self) -> u64 {
        self.0.rip
    }

    pub fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// Where the function returns to, if a register says so: here the stack does.
    pub fn link(&self) -> u64 {
        0
    }

    pub fn result(&self) -> u64 {
        self.0.rax
    }

    pub fn set_result(&mut self, result: i64) {
        self.0.rax = result as u64;
    }

    /// Of the system call that the thread is about to make.
    pub fn arguments(&self) -> [u64; 4] {
        [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10]
    }

    pub fn system_call(&self) -> i64 {
        self.0.orig_rax as i64
    }

    /// The first of a call that has ended, if it is still there.
    pub fn first_argument(&self) -> Option<u64> {
        Some(self.0.rdi)
    }

    /// Whether the thread waited in a system call that goes on as if nothing had been.
    pub fn will_restart(&self, _at_pc: &[u8]) -> bool {
        self.system_call() >= 0 && Self::RESTARTS.contains(&(self.0.rax as i64))
    }

    pub fn was_interrupted(&self, _before_pc: &[u8]) -> bool {
        self.system_call() >= 0 && self.0.rax as i64 == -i64::from(libc::EINTR)
    }

    /// Some calls that wait do not go on by themselves: the kernel makes it anew, as others, unless
    /// a handler runs first. Then it is over, for a program may count on that.
    pub fn repeat_system_call(&mut self, _first: u64) {
        self.0.rax = Self::ERESTARTNOHAND as u64;
    }

    /// One that was held back at its beginning is made, if the thread goes on.
    pub fn make_system_call(&mut self) {
        self.0.rax = self.0.orig_rax;
        self.0.rip -= Self::SYSTEM_CALL_SIZE;
        self.0.orig_rax = Self::NO_SYSTEM_CALL;
    }

    /// The thread at the beginning of the function, and what must lie at its stack pointer. That
    /// it is in no system call keeps the kernel from restarting one in the middle of this.
    pub fn call(&self, function: u64, arguments: &[u64], stack: u64) -> (Registers, Option<u64>) {
        let mut called = self.0;
        let registers = [&mut called.rdi, &mut called.rsi, &mut called.rdx];
        registers.into_iter().zip(arguments).for_each(|(register, value)| *register = *value);
        called.rip = function;
        called.rsp = stack - size_of::<u64>() as u64;
        called.rax = 0;
        called.orig_rax = Self::NO_SYSTEM_CALL;
        called.eflags &= !Self::FLAGS_UNWANTED;
        (Registers(called), Some(RETURN))
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    const SYSTEM_CALL: [u8; 4] = [0x01, 0x00, 0x00, 0xd4]; // svc #0
    /// An indirect branch has just been taken (BTYPE): not every function may begin so.
    const FLAGS_UNWANTED: u64 = 0b11 << 10;

    pub fn pc(&self) -> u64 {
        self.0.pc
    }

    pub fn sp(&self) -> u64 {
        self.0.sp
    }

    /// Where the function returns to, as far as it has called no other.
    pub fn link(&self) -> u64 {
        self.0.regs[30]
    }

    pub fn result(&self) -> u64 {
        self.0.regs[0]
    }

    pub fn set_result(&mut self, result: i64) {
        self.0.regs[0] = result as u64;
    }

    /// Of the system call that the thread is about to make.
    pub fn arguments(&self) -> [u64; 4] {
        [self.0.regs[0], self.0.regs[1], self.0.regs[2], self.0.regs[3]]
    }

    pub fn system_call(&self) -> i64 {
        self.0.regs[8] as i64
    }

    /// The first of a call that has ended, if it is still there: what it answered is.
    pub fn first_argument(&self) -> Option<u64> {
        None
    }

    /// Whether the thread waited in a system call that goes on as if nothing had been: the kernel
    /// has put it before that, with all that it was called with.
    pub fn will_restart(&self, at_pc: &[u8]) -> bool {
        at_pc.starts_with(&Self::SYSTEM_CALL)
    }

    pub fn was_interrupted(&self, before_pc: &[u8]) -> bool {
        before_pc.ends_with(&Self::SYSTEM_CALL) && self.0.regs[0] as i64 == -i64::from(libc::EINTR)
    }

    /// Some calls that wait do not go on by themselves: it is made anew. What it answered lies over
    /// its first argument.
    pub fn repeat_system_call(&mut self, first: u64) {
        self.0.regs[0] = first;
        self.make_system_call();
    }

    /// One that was held back at its beginning is made, if the thread goes on.
    pub fn make_system_call(&mut self) {
        self.0.pc -= Self::SYSTEM_CALL.len() as u64;
    }

    /// The thread at the beginning of the function.
    pub fn call(&self, function: u64, arguments: &[u64], stack: u64) -> (Registers, Option<u64>) {
        let mut called = self.0;
        called.regs[..arguments.len()].copy_from_slice(arguments);
        called.regs[29] = 0;
        called.regs[30] = RETURN;
        called.pc = function;
        called.sp = stack;
        called.pstate &= !Self::FLAGS_UNWANTED;
        (Registers(called), None)
    }
}
