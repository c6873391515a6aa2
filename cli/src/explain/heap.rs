//! Where primalloc's memory lies in a running process, for who asks whose an address is.

use std::ops::Range;

use procfs::process::MemoryMap;

use super::books::ranges;
use super::note::{self, Note};
use super::options::{Setting, settings};
use super::process::ProcessMemory;
use super::serving::beginnings;

pub struct Heap {
    /// In the order of addresses.
    pub ranges: Vec<Range<u64>>,
    /// None of an older library, which does not tell.
    pub settings: Option<Vec<Setting>>,
}

/// Nothing of a process that may not be looked into, or has no primalloc that tells. One that has
/// it linked in and preloaded may have two heaps; one that has allocated nothing has none.
pub fn heap(pid: i32, maps: &[MemoryMap]) -> Option<Heap> {
    let memory = ProcessMemory::open(pid).ok()?;
    let notes = beginnings(maps).filter_map(|map| note::at(&memory, map.address.0));
    let notes: Vec<Note> = notes.collect();
    let mut found = Vec::new();
    for note in &notes {
        found.extend(ranges(note, &memory).ok()?);
    }
    found.sort_unstable_by_key(|range| range.start);
    let places = notes.first()?.options.as_ref();
    let settings = places.and_then(|places| settings(places, &memory).ok());
    Some(Heap { ranges: found, settings })
}
