//! A running process: what the kernel says of it, its memory, which of its pages are resident.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Error, Result, bail};
use nix::unistd::{SysconfVar, sysconf};
use procfs::process::Process;

use super::limits::limits;
use super::memory::Memory;
use super::refusal::{check, forbidden, refusal};
use super::{Source, Subject};
use crate::{proc_texts, processes};

/// Of a page's entry in /proc/PID/pagemap.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Mapped here only, and a page at all: not the one of zeros that stands for what was only read.
const EXCLUSIVE: u64 = 1 << 56;
const ENTRY_SIZE: u64 = 8;
/// Entries read at a time.
const ENTRIES: usize = 16 << 10;

pub fn subject(pid: i32) -> Result<Subject> {
    let process = processes::open(pid).map_err(|error| refusal(pid, error))?;
    let program = processes::program_name(&process).or_else(|| Some(process.stat().ok()?.comm));
    check(&process)?;
    let maps = proc_texts::smaps(&process).map_err(|error| refusal(pid, error))?;
    let thread_count = process.stat().context(format!("{pid}: the process has ended"))?.num_threads;
    let subject = Subject {
        source: Source::Process,
        pid: Some(pid),
        program: program.unwrap_or_default(),
        maps: maps.into_iter().collect(),
        stack_pointers: stack_pointers(&process),
        threads: thread_count.max(1) as u64,
        limits: limits(&process),
        memory: ProcessMemory::open(pid).map(|memory| Box::new(memory) as Box<dyn Memory>),
    };
    if subject.maps.is_empty() {
        bail!("{pid}: the process has ended");
    }
    Ok(subject)
}

/// Where threads that wait in the kernel have their stacks; of the others it does not tell.
fn stack_pointers(process: &Process) -> Vec<u64> {
    let tasks = process.tasks().into_iter().flatten().flatten();
    let pointer = |tid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", process.pid()));
        let text = text.ok()?;
        let word = text.split_whitespace().rev().nth(1)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    tasks.filter_map(|task| pointer(task.tid)).collect()
}

pub struct ProcessMemory {
    bytes: File,
    pages: File,
    page_size: u64,
}

impl ProcessMemory {
    /// The kernel lets us as it lets a debugger.
    pub fn open(pid: i32) -> Result<ProcessMemory> {
        let number = processes::shown_as(pid);
        let open = |name: &str| {
            let path = format!("/proc/{number}/{name}");
            File::open(&path).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => forbidden(pid),
                _ => Error::new(error).context(format!("{path} cannot be read")),
            })
        };
        let page_size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as u64;
        Ok(ProcessMemory { bytes: open("mem")?, pages: open("pagemap")?, page_size })
    }

    fn each_page(&self, start: u64, end: u64, mut visit: impl FnMut(u64, u64)) -> io::Result<()> {
        let mut page = start - start % self.page_size;
        let pages = end.saturating_sub(page).div_ceil(self.page_size);
        let mut buffer = vec![0; (pages.min(ENTRIES as u64) * ENTRY_SIZE) as usize];
        while page < end {
            let count = (end - page).div_ceil(self.page_size).min(ENTRIES as u64);
            let entries = &mut buffer[..(count * ENTRY_SIZE) as usize];
            self.pages.read_exact_at(entries, page / self.page_size * ENTRY_SIZE)?;
            for entry in entries.chunks_exact(ENTRY_SIZE as usize) {
                visit(page, u64::from_ne_bytes(entry.try_into().unwrap_or_default()));
                page += self.page_size;
            }
        }
        Ok(())
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(buffer, address)
    }

    fn read_touched(&self, address: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; size];
        let end = address + size as u64;
        self.each_page(address, end, |page, entry| {
            if entry & (PRESENT | SWAPPED) != 0 {
                let start = page.max(address);
                let stop = (page + self.page_size).min(end);
                let range = (start - address) as usize..(stop - address) as usize;
                // It may have gone since: then it reads as zero indeed.
                let _ = self.read(start, &mut buffer[range]);
            }
        })?;
        Ok(buffer)
    }

    fn resident_bytes(&self, start: u64, end: u64, may_share: bool) -> io::Result<u64> {
        let resident = if may_share { PRESENT } else { PRESENT | EXCLUSIVE };
        let mut bytes = 0;
        self.each_page(start, end, |page, entry| {
            if entry & resident == resident {
                bytes += (page + self.page_size).min(end) - page.max(start);
            }
        })?;
        Ok(bytes)
    }

    fn page_size(&self) -> u64 {
        self.page_size
    }
}
