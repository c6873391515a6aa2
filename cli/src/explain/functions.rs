//! Where a function is, by the table that the loader finds it in: DT_GNU_HASH.

use std::io;

use object::elf::{DT_GNU_HASH, DT_STRTAB, DT_SYMTAB, DynamicTag, PT_DYNAMIC, STT_FUNC};

use super::image::Image;
use super::memory::Memory;

const ENTRY_SIZE: usize = 16;
/// No program says as much about itself.
const ENTRIES_MAX: u64 = 1000;
const SYMBOL_SIZE: u64 = 24;
/// Symbols that may have to be looked at: their hashes differ as a rule.
const CHAIN_MAX: u32 = 10_000;

struct Tables {
    hash: u64,
    symbols: u64,
    names: u64,
}

impl Image {
    /// The function that it exports under this name.
    pub fn function(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        let tables = self.tables(memory).ok()??;
        let value = look_up(&tables, memory, name).ok()??;
        Some(self.bias().wrapping_add(value))
    }

    /// What the loader has put down at this entry of the table that it links by, if anything.
    pub fn dynamic(&self, memory: &dyn Memory, tag: DynamicTag) -> Option<u64> {
        let found = self.entries(memory).ok()?.into_iter().find(|(found, _)| *found == tag);
        found.map(|(_, value)| value).filter(|value| *value != 0)
    }

    fn entries(&self, memory: &dyn Memory) -> io::Result<Vec<(DynamicTag, u64)>> {
        let Some((address, size)) = self.segments(PT_DYNAMIC).next() else {
            return Ok(Vec::new());
        };
        let size = size.min(ENTRIES_MAX * ENTRY_SIZE as u64) as usize;
        let entry = |entry: &[u8]| {
            let word = |at: usize| u64::from_ne_bytes(entry[at..at + 8].try_into().unwrap());
            (DynamicTag(word(0) as i64), word(8))
        };
        Ok(memory.read_vec(address, size)?.chunks_exact(ENTRY_SIZE).map(entry).collect())
    }

    fn tables(&self, memory: &dyn Memory) -> io::Result<Option<Tables>> {
        let (mut hash, mut symbols, mut names) = (None, None, None);
        for (tag, value) in self.entries(memory)? {
            // As a rule the loader has made addresses of them.
            let place = match value {
                place if place < self.bias() => self.bias().wrapping_add(place),
                place => place,
            };
            match tag {
                DT_GNU_HASH => hash = Some(place),
                DT_SYMTAB => symbols = Some(place),
                DT_STRTAB => names = Some(place),
                _ => {}
            }
        }
        let all = hash.zip(symbols).zip(names);
        Ok(all.map(|((hash, symbols), names)| Tables { hash, symbols, names }))
    }
}

fn look_up(tables: &Tables, memory: &dyn Memory, name: &str) -> io::Result<Option<u64>> {
    let half = |address: u64| -> io::Result<u32> {
        let mut bytes = [0; 4];
        memory.read(address, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    };
    let [buckets, first, blooms, _] = [0, 4, 8, 12].map(|at| half(tables.hash.wrapping_add(at)));
    let (buckets, first, blooms) = (buckets?, first?, blooms?);
    if buckets == 0 {
        return Ok(None);
    }
    let hash = object::elf::gnu_hash(name.as_bytes());
    let bucket = tables.hash + 16 + u64::from(blooms) * 8;
    let chain = bucket + u64::from(buckets) * 4;
    let begin = half(bucket + u64::from(hash % buckets) * 4)?;
    if begin < first {
        return Ok(None);
    }
    for index in begin..begin.saturating_add(CHAIN_MAX) {
        let found = half(chain + u64::from(index - first) * 4)?;
        if found | 1 == hash | 1 {
            let symbol = memory.read_vec(
                tables.symbols.wrapping_add(u64::from(index) * SYMBOL_SIZE),
                SYMBOL_SIZE as usize,
            )?;
            let at = u64::from(u32::from_ne_bytes(symbol[..4].try_into().unwrap()));
            let called = memory.read_vec(tables.names.wrapping_add(at), name.len() + 1)?;
            let is_function = symbol[4] & 0xf == STT_FUNC.0;
            let is_here = symbol[6..8] != [0, 0];
            if is_function && is_here && called.strip_suffix(b"\0") == Some(name.as_bytes()) {
                return Ok(Some(u64::from_ne_bytes(symbol[8..16].try_into().unwrap())));
            }
        }
        if found & 1 == 1 {
            break;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::ProcessMemory;

    #[test]
    fn functions_are_where_the_loader_found_them() {
        let memory = ProcessMemory::open(std::process::id() as i32).unwrap();
        let maps = procfs::process::Process::myself().unwrap().maps().unwrap();
        let starts = maps.into_iter().filter(|map| map.offset == 0).map(|map| map.address.0);
        let images: Vec<Image> =
            starts.filter_map(|start| Image::at(&memory, start).ok()?).collect();
        let find = |name: &str| images.iter().find_map(|image| image.function(&memory, name));
        let place = libc::__errno_location as *const () as u64;
        assert_eq!(find("__errno_location"), Some(place));
        assert_eq!(find("no_such_function"), None);
    }
}
