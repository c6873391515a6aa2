//! The kernel's records, as far as they matter here.

use std::ops::Range;

use perf_event::data::{self, RecordMetadata, Visitor};

#[derive(Debug)]
pub struct Timed {
    pub time: u64,
    pub event: Event,
}

#[derive(Debug)]
pub enum Event {
    Fault(Fault),
    Stack(Stack),
    Mapped(Mapped),
    Forked { pid: u32, parent: u32 },
    Execed { pid: u32 },
    Exited { pid: u32 },
}

/// One fault; `period` tells how many it stands for.
#[derive(Clone, Debug)]
pub struct Fault {
    pub pid: u32,
    pub address: u64,
    /// Where the program was, also when the kernel faulted on its behalf.
    pub instruction: u64,
    pub stack_pointer: u64,
    pub in_kernel: bool,
    pub is_major: bool,
    pub period: u64,
}

#[derive(Debug)]
pub struct Stack {
    pub fault: Fault,
    pub frame_pointer: u64,
    /// Only some machines have one.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code))]
    pub link_register: u64,
    pub copy: Vec<u8>,
}

#[derive(Debug)]
pub struct Mapped {
    pub pid: u32,
    pub range: Range<u64>,
    pub offset: u64,
    pub is_shared: bool,
    pub is_executable: bool,
    pub name: String,
}

struct Registers {
    instruction: u64,
    stack_pointer: u64,
    frame_pointer: u64,
    link_register: u64,
}

impl Registers {
    fn of(values: &[u64]) -> Option<Registers> {
        #[cfg(target_arch = "x86_64")]
        let (&[frame_pointer, stack_pointer, instruction], link_register) =
            (values.first_chunk()?, 0);
        #[cfg(target_arch = "aarch64")]
        let &[frame_pointer, link_register, stack_pointer, instruction] = values.first_chunk()?;
        Some(Registers { instruction, stack_pointer, frame_pointer, link_register })
    }
}

/// The bits of a record's header that say from where it came.
const CPU_MODE: u16 = 7;
const CPU_MODE_KERNEL: u16 = 1;
const COMM_EXEC: u16 = 1 << 13;

/// Turns a record into an event; those that do not matter give none.
#[derive(Clone, Copy)]
pub struct Reader {
    pub is_major: bool,
    /// How many faults a record stands for that does not tell.
    pub weight: u64,
}

impl<'a> Visitor<'a> for Reader {
    type Output = Option<Timed>;

    fn visit_unimplemented(self, _: RecordMetadata) -> Option<Timed> {
        None
    }

    fn visit_sample(self, sample: data::Sample<'a>, about: RecordMetadata) -> Option<Timed> {
        let registers = sample.regs_user().and_then(|registers| Registers::of(&registers.regs));
        let in_kernel = about.misc() & CPU_MODE == CPU_MODE_KERNEL;
        let instruction = match &registers {
            Some(registers) if in_kernel => registers.instruction,
            _ => sample.ip()?,
        };
        let fault = Fault {
            pid: sample.pid()?,
            address: sample.addr()?,
            instruction,
            stack_pointer: registers.as_ref().map_or(0, |registers| registers.stack_pointer),
            in_kernel,
            is_major: self.is_major,
            period: sample.period().unwrap_or(self.weight),
        };
        let event = match (sample.stack_user(), registers) {
            (Some(copy), Some(registers)) => Event::Stack(Stack {
                fault,
                frame_pointer: registers.frame_pointer,
                link_register: registers.link_register,
                copy: copy.to_vec(),
            }),
            _ => Event::Fault(fault),
        };
        Some(Timed { time: sample.time()?, event })
    }

    fn visit_mmap2(self, map: data::Mmap2<'a>, about: RecordMetadata) -> Option<Timed> {
        let event = Event::Mapped(Mapped {
            pid: map.pid,
            range: map.addr..map.addr.saturating_add(map.len),
            offset: map.pgoff,
            is_shared: map.flags as i32 & libc::MAP_SHARED != 0,
            is_executable: map.prot as i32 & libc::PROT_EXEC != 0,
            name: String::from_utf8_lossy(&map.filename).trim_end_matches('\0').to_owned(),
        });
        timed(&about, event)
    }

    fn visit_comm(self, comm: data::Comm<'a>, about: RecordMetadata) -> Option<Timed> {
        let is_exec = about.misc() & COMM_EXEC != 0;
        timed(&about, Event::Execed { pid: comm.pid }).filter(|_| is_exec)
    }

    fn visit_fork(self, fork: data::Fork, about: RecordMetadata) -> Option<Timed> {
        let is_process = fork.pid != fork.ppid;
        let event = Event::Forked { pid: fork.pid, parent: fork.ppid };
        timed(&about, event).filter(|_| is_process)
    }

    fn visit_exit(self, exit: data::Exit, about: RecordMetadata) -> Option<Timed> {
        let is_process = exit.pid == exit.tid;
        timed(&about, Event::Exited { pid: exit.pid }).filter(|_| is_process)
    }
}

fn timed(about: &RecordMetadata, event: Event) -> Option<Timed> {
    Some(Timed { time: about.sample_id().time().unwrap_or(0), event })
}
