//! Another process's memory, and which of its pages are resident.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

/// Of a page's entry in /proc/PID/pagemap.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Mapped here only, and a page at all: not the one of zeros that stands for what was only read.
const EXCLUSIVE: u64 = 1 << 56;
const ENTRY_SIZE: u64 = 8;
/// Entries read at a time.
const ENTRIES: usize = 16 << 10;

pub struct Memory {
    bytes: File,
    pages: File,
    page_size: u64,
}

impl Memory {
    /// The kernel lets us as it lets a debugger.
    pub fn open(pid: i32) -> Result<Memory> {
        let open = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            File::open(&path).with_context(|| format!("{path} cannot be read"))
        };
        let page_size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as u64;
        Ok(Memory { bytes: open("mem")?, pages: open("pagemap")?, page_size })
    }

    pub fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(buffer, address)
    }

    pub fn read_vec(&self, address: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; size];
        self.read(address, &mut buffer)?;
        Ok(buffer)
    }

    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// What nobody has touched yet reads as zero, and stays untouched.
    pub fn read_touched(&self, address: u64, size: usize) -> io::Result<Vec<u8>> {
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

    /// Where pages are shared, as with a fork's child, those of zeros are not told apart.
    pub fn resident_bytes(&self, start: u64, end: u64, may_share: bool) -> io::Result<u64> {
        let resident = if may_share { PRESENT } else { PRESENT | EXCLUSIVE };
        let mut bytes = 0;
        self.each_page(start, end, |page, entry| {
            if entry & resident == resident {
                bytes += (page + self.page_size).min(end) - page.max(start);
            }
        })?;
        Ok(bytes)
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
