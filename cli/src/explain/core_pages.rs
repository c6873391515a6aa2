//! Which pages a core file holds: those with anything but zeros.
//!
//! The kernel leaves a hole in the file for what was never touched. Whoever wrote the core through
//! a pipe, packed it or copied it may have filled that with zeros, and a debugger does. So the
//! pages themselves are asked; of holes none need be read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

pub const PAGE_SIZE_MAX: usize = 64 << 10;

/// Bytes read at a time; a multiple of every page size.
const BUFFER_SIZE: usize = 1 << 20;
static ZEROS: [u8; PAGE_SIZE_MAX] = [0; PAGE_SIZE_MAX];

/// Bytes of the file, and the address that the first one had.
pub struct Extent {
    pub address: u64,
    pub offset: u64,
    pub size: u64,
}

#[derive(Debug, Default)]
pub struct CorePages {
    /// Addresses; sorted, and apart from each other.
    runs: Vec<Range<u64>>,
}

impl CorePages {
    /// The extents are sorted by address, and apart from each other.
    pub fn find(
        file: &File,
        extents: impl Iterator<Item = Extent>,
        page_size: usize,
    ) -> io::Result<CorePages> {
        let mut pages = CorePages::default();
        let mut buffer = vec![0; BUFFER_SIZE];
        let page = page_size as u64;
        for extent in extents {
            let mut at = 0;
            while let Some(data) = next_data(file, &extent, at)? {
                at = data.end.next_multiple_of(page).min(extent.size);
                let part = data.start - data.start % page..at;
                pages.look_through(file, &extent, part, page_size, &mut buffer)?;
            }
        }
        Ok(pages)
    }

    fn look_through(
        &mut self,
        file: &File,
        extent: &Extent,
        part: Range<u64>,
        page_size: usize,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut at = part.start;
        while at < part.end {
            let size = (part.end - at).min(buffer.len() as u64) as usize;
            file.read_exact_at(&mut buffer[..size], extent.offset + at)?;
            for page in buffer[..size].chunks(page_size) {
                let start = extent.address + at;
                at += page.len() as u64;
                if page != &ZEROS[..page.len()] {
                    self.add(start, extent.address + at);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, start: u64, end: u64) {
        match self.runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.runs.push(start..end),
        }
    }

    /// How many of these bytes lie in pages that are held.
    pub fn bytes(&self, start: u64, end: u64) -> u64 {
        let first = self.runs.partition_point(|run| run.end <= start);
        let runs = self.runs[first..].iter().take_while(|run| run.start < end);
        runs.map(|run| run.end.min(end) - run.start.max(start)).sum()
    }
}

/// The next part of the extent that is no hole, from `at` on, counted from its beginning.
fn next_data(file: &File, extent: &Extent, at: u64) -> io::Result<Option<Range<u64>>> {
    let end = extent.offset + extent.size;
    let from = extent.offset + at;
    if from >= end {
        return Ok(None);
    }
    let seek = |offset: u64, whence| lseek(file, offset as i64, whence).map(|found| found as u64);
    let start = match seek(from, Whence::SeekData) {
        Ok(start) => start,
        Err(Errno::ENXIO) => return Ok(None),
        Err(_) => from, // a file system that knows no holes
    };
    let stop = seek(start, Whence::SeekHole).unwrap_or(end).clamp(start + 1, end.max(start + 1));
    Ok((start < end).then(|| start - extent.offset..stop.min(end) - extent.offset))
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    const PAGE: u64 = 4096;

    /// Pages of a file: a byte of each, or a hole.
    fn find(pages: &[Option<u8>], extents: &[(u64, u64, u64)]) -> Vec<Range<u64>> {
        let file = File::from(memfd_create("core", MFdFlags::empty()).unwrap());
        file.set_len(pages.len() as u64 * PAGE).unwrap();
        for (index, byte) in (0..).zip(pages) {
            let bytes = [byte.unwrap_or_default(); PAGE as usize];
            byte.map_or(Ok(()), |_| file.write_all_at(&bytes, index * PAGE)).unwrap();
        }
        let extents =
            extents.iter().map(|&(address, offset, size)| Extent { address, offset, size });
        CorePages::find(&file, extents, PAGE as usize).unwrap().runs
    }

    #[test]
    fn holes_and_zeros_are_the_same() {
        let mixed = [Some(1), None, Some(0), Some(2), Some(3), None];
        let whole = find(&mixed, &[(0x10_0000, 0, 6 * PAGE)]);
        assert_eq!(whole, [0x10_0000..0x10_1000, 0x10_3000..0x10_5000]);
        assert_eq!(find(&[None, Some(0)], &[(0x10_0000, 0, 2 * PAGE)]), []);
    }

    #[test]
    fn pages_are_counted_from_where_an_extent_begins() {
        let bytes = [Some(0), Some(7), None, Some(0), Some(7)];
        let apart = find(&bytes, &[(0x8000, 100, 2 * PAGE), (0xf000, 3 * PAGE + 96, PAGE)]);
        assert_eq!(apart, [0x8000..0xa000, 0xf000..0x1_0000]);
        let cut = find(&bytes, &[(0x8000, PAGE, 100)]);
        assert_eq!(cut, std::slice::from_ref(&(0x8000..0x8064)));
    }

    #[test]
    fn bytes_of_a_range_are_those_of_its_pages() {
        let pages = CorePages { runs: vec![0x1000..0x3000, 0x5000..0x6000] };
        assert_eq!(pages.bytes(0, u64::MAX), 0x3000);
        assert_eq!(pages.bytes(0x2800, 0x5800), 0x800 + 0x800);
        assert_eq!(pages.bytes(0x3000, 0x5000), 0);
    }
}
