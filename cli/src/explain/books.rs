//! What the heap's books say: descriptors of spans, counts of slabs' lists, rooms of thread caches.
//!
//! The process goes on while they are read, so that counts of different moments meet: what cannot
//! be is cut to what can.

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Use;
use super::mappings::Mappings;
use super::memory::Memory;
use super::note::Note;

/// enum span_state of src/pages/span.h.
const CLEAN: u8 = 1;
const BUSY: u8 = 3;
const SLAB: u8 = 4;
const LARGE: u8 = 5;
/// HARDENED_BUCKET: what of such a slab is in use stands elsewhere.
const HARDENED: u8 = 255;
/// What follows the classes: CLASS_LARGE, CLASS_ARENA, BIN_COUNT of src/objects/size_class.h.
const LARGE_BEHIND: u64 = 1;
const ARENA_BEHIND: u64 = 2;
const SECOND_BEHIND: u64 = 4;

/// Of a list that the process may be changing while we follow it.
const LINKS_MAX: usize = 1 << 20;
/// struct size_class: size, capacity, slices.
const SIZE_CLASS_SIZE: u64 = 8;

/// Of one size of blocks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Class {
    block_bytes: u64,
    used_blocks: u64,
    cached_blocks: u64,
    resident_bytes: u64,
    slabs: u64,
}

/// A row of the table of sizes. What is resident is in use, cached, or free.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeRow {
    pub block_bytes: u64,
    pub blocks: u64,
    pub in_use_bytes: u64,
    pub cached_bytes: u64,
    pub free_bytes: u64,
    pub resident_bytes: u64,
    pub slabs: u64,
}

impl SizeRow {
    pub fn used_share(&self) -> f64 {
        self.in_use_bytes as f64 / self.resident_bytes.max(1) as f64
    }

    /// Of several sizes, so that the block's is none.
    pub fn sum(rows: &[&SizeRow]) -> SizeRow {
        let sum = |part: fn(&SizeRow) -> u64| rows.iter().map(|row| part(row)).sum();
        SizeRow {
            block_bytes: 0,
            blocks: sum(|row| row.blocks),
            in_use_bytes: sum(|row| row.in_use_bytes),
            cached_bytes: sum(|row| row.cached_bytes),
            free_bytes: sum(|row| row.free_bytes),
            resident_bytes: sum(|row| row.resident_bytes),
            slabs: sum(|row| row.slabs),
        }
    }
}

impl Class {
    fn row(&self) -> SizeRow {
        let cached = self.cached_blocks.min(self.used_blocks);
        let blocks = self.used_blocks - cached;
        let in_use_bytes = (blocks * self.block_bytes).min(self.resident_bytes);
        let cached_bytes = (cached * self.block_bytes).min(self.resident_bytes - in_use_bytes);
        SizeRow {
            block_bytes: self.block_bytes,
            blocks,
            in_use_bytes,
            cached_bytes,
            free_bytes: self.resident_bytes - in_use_bytes - cached_bytes,
            resident_bytes: self.resident_bytes,
            slabs: self.slabs,
        }
    }
}

#[derive(Default)]
pub struct Books {
    classes: Vec<Class>,
    large_blocks: u64,
    large_bytes: u64,
    heap_bytes: u64,
    other_bytes: u64,
    free_bytes: u64,
    record_bytes: u64,
    caches: u64,
    is_any: bool,
    /// Free blocks count as used: who is what stands in another place.
    is_hardened: bool,
}

struct Span {
    start: u64,
    end: u64,
    state: u8,
    class: u64,
    used_blocks: Option<u64>,
}

impl Books {
    pub fn is_any(&self) -> bool {
        self.is_any
    }

    /// Adds a heap up, if anybody has used it. A process has one, but where it has primalloc linked
    /// in and preloaded.
    pub fn add(&mut self, note: &Note, memory: &dyn Memory, mappings: &mut Mappings) -> Result<()> {
        self.read(note, memory, mappings).context("its heap could not be read")
    }

    fn read(
        &mut self,
        note: &Note,
        memory: &dyn Memory,
        mappings: &mut Mappings,
    ) -> io::Result<()> {
        let mut chunks = chunks(note, memory)?;
        if chunks.is_empty() {
            return Ok(());
        }
        self.is_any = true;
        self.read_sizes(note, memory)?;
        chunks.sort_unstable();
        let spans = spans(note, memory, &chunks)?;
        for span in spans {
            let bytes = mappings.take_for_heap(memory, span.start, span.end)?;
            self.add_span(note, &span, bytes);
        }
        self.add_caches(note, memory)?;
        self.add_lists(note, memory)?;
        for (_number, address) in chunks {
            let end = address + note.chunk_next;
            self.record_bytes += mappings.take_for_heap(memory, address, end)?;
        }
        for block in links(memory, note.newest_metadata, 0)? {
            let end = block + note.metadata_block_size;
            self.record_bytes += mappings.take_for_heap(memory, block, end)?;
        }
        Ok(())
    }

    /// Class 0 is none; the table's rows are the same in every heap of a version.
    fn read_sizes(&mut self, note: &Note, memory: &dyn Memory) -> io::Result<()> {
        self.classes.resize(note.class_count as usize + 1, Class::default());
        for (class, index) in self.classes.iter_mut().zip(0..) {
            let word = memory.word(note.size_classes + index * SIZE_CLASS_SIZE)?;
            class.block_bytes = word & u64::from(u32::MAX);
        }
        Ok(())
    }

    fn add_span(&mut self, note: &Note, span: &Span, bytes: u64) {
        if span.state <= BUSY {
            self.free_bytes += bytes;
        } else if span.class == note.class_count + ARENA_BEHIND {
            self.heap_bytes += bytes;
        } else if span.class == note.class_count + LARGE_BEHIND {
            self.large_blocks += 1;
            self.large_bytes += bytes;
        } else if let Some(class) = self.classes.get_mut(span.class as usize) {
            let all = bytes / class.block_bytes.max(1);
            class.used_blocks += span.used_blocks.unwrap_or(all);
            self.is_hardened |= span.used_blocks.is_none();
            class.resident_bytes += bytes;
            class.slabs += 1;
        } else {
            self.other_bytes += bytes;
        }
    }

    fn add_caches(&mut self, note: &Note, memory: &dyn Memory) -> io::Result<()> {
        let offsets = &note.cache;
        let small = offsets.small_class_last + 1;
        for cache in links(memory, note.active_caches, offsets.next)? {
            self.caches += 1;
            let in_use = memory.word(cache + offsets.in_use)?;
            let in_use_above = memory.word(cache + offsets.in_use + 8)?;
            let in_use = u128::from(in_use_above) << 64 | u128::from(in_use);
            let rest = memory.word(cache + offsets.rest)?;
            let sampler = memory.word(cache + note.sampler.sampler)?;
            for (class, index) in self.classes.iter_mut().zip(0..) {
                if in_use >> index & 1 == 0 {
                    continue; // What it has lies on a page that may be untouched.
                }
                let bin = match index < small {
                    true => cache + offsets.bins + index * offsets.bin_size,
                    false => rest + (index - small) * offsets.bin_size,
                };
                class.cached_blocks += bin_blocks(note, memory, cache, bin, index)?;
                if index < small && sampler != 0 {
                    class.cached_blocks += second_bin(note, memory, cache, sampler, index)?;
                }
            }
        }
        Ok(())
    }

    /// Lists of blocks that wait for any thread.
    fn add_lists(&mut self, note: &Note, memory: &dyn Memory) -> io::Result<()> {
        for index in 0..note.shard_count {
            let shard = memory.word(note.shards + 8 * index)?;
            if shard == 0 {
                continue;
            }
            let size = self.classes.len() * note.rest_size as usize;
            let rests = memory.read_touched(shard + note.rests, size)?;
            let rests = rests.chunks_exact(note.rest_size as usize);
            for (class, rest) in self.classes.iter_mut().zip(rests) {
                class.cached_blocks += u64::from(word_at(rest, note.listed_count as usize));
            }
        }
        Ok(())
    }

    /// What the heap uses memory for, in the order of its uses.
    pub fn uses(&self) -> Vec<(Use, u64, Option<u64>)> {
        let rows = self.classes.iter().map(Class::row);
        let sum = |part: fn(&SizeRow) -> u64| rows.clone().map(|row| part(&row)).sum::<u64>();
        let blocks = (!self.is_hardened).then(|| sum(|row| row.blocks));
        vec![
            (Use::Blocks, sum(|row| row.in_use_bytes) + self.other_bytes, blocks),
            (Use::LargeBlocks, self.large_bytes, Some(self.large_blocks)),
            (Use::Heaps, self.heap_bytes, None),
            (Use::Caches, sum(|row| row.cached_bytes), Some(self.caches)),
            (Use::FreeBlocks, sum(|row| row.free_bytes), None),
            (Use::FreePages, self.free_bytes, None),
            (Use::Records, self.record_bytes, None),
        ]
    }

    pub fn sizes(&self) -> Vec<SizeRow> {
        let used = self.classes.iter().filter(|class| class.slabs > 0);
        used.map(Class::row).collect()
    }
}

fn word_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .map_or(0, |word| u32::from_ne_bytes(word.try_into().unwrap_or_default()))
}

/// Head and spare of a thread's bin, as src/objects/bin.h counts them: a head of few blocks may be
/// twice as long as its capacity.
fn bin_blocks(
    note: &Note,
    memory: &dyn Memory,
    cache: u64,
    bin: u64,
    index: u64,
) -> io::Result<u64> {
    let offsets = &note.cache;
    let room = memory.word(cache + offsets.room + 4 * index)? as u32 as i32;
    let capacity = i32::from(memory.word(bin + offsets.capacity)? as u16);
    let spare = memory.word(bin + offsets.spare_count)? as u16;
    let is_short = capacity <= offsets.few_blocks as i32;
    let most = if is_short { 2 * capacity } else { capacity };
    let head = if capacity > 0 { (most - room).max(0) as u64 } else { 0 };
    Ok(head + u64::from(spare))
}

/// Blocks that wait for a thread to take them while it samples: of what the bin was given, those
/// that it has not handed out.
fn second_bin(
    note: &Note,
    memory: &dyn Memory,
    cache: u64,
    sampler: u64,
    class: u64,
) -> io::Result<u64> {
    let bin = class + note.class_count + SECOND_BEHIND;
    if memory.word(cache + 8 * bin)? == 0 {
        return Ok(0);
    }
    let counted = sampler + note.sampler.counted + class * note.sampler.counted_size;
    let given = memory.word(counted + note.sampler.given)? & 0xffff;
    let handed_out = memory.word(cache + note.cache.room + 4 * bin)? & u64::from(u32::MAX);
    Ok(given.saturating_sub(handed_out))
}

/// Where all that lies that a heap has taken: its spans, and its records of them.
pub fn ranges(note: &Note, memory: &dyn Memory) -> io::Result<Vec<Range<u64>>> {
    let mut chunks = chunks(note, memory)?;
    chunks.sort_unstable();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for span in spans(note, memory, &chunks)? {
        match ranges.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => ranges.push(span.start..span.end),
        }
    }
    ranges.extend(chunks.iter().map(|(_, address)| *address..address + note.chunk_next));
    let blocks = links(memory, note.newest_metadata, 0)?;
    ranges.extend(blocks.iter().map(|block| *block..block + note.metadata_block_size));
    Ok(ranges)
}

/// The elements of a list whose first one the word at `head` names; the next one's name stands at
/// the offset `next` in each.
fn links(memory: &dyn Memory, head: u64, next: u64) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut element = memory.word(head)?;
    // One that has been moved to the front meanwhile leads through the list again.
    while element != 0 && found.len() < LINKS_MAX && seen.insert(element) {
        found.push(element);
        let Ok(follower) = memory.word(element.wrapping_add(next)) else { break };
        element = follower;
    }
    Ok(found)
}

/// Number of each piece of address space that the heap has been in, and where its descriptors are.
fn chunks(note: &Note, memory: &dyn Memory) -> io::Result<Vec<(u64, u64)>> {
    let chunks = links(memory, note.newest_chunk, note.chunk_next)?;
    chunks.into_iter().map(|chunk| Ok((memory.word(chunk + note.chunk_next + 8)?, chunk))).collect()
}

/// From head to head: descriptors between them may be of former spans.
fn spans(note: &Note, memory: &dyn Memory, chunks: &[(u64, u64)]) -> io::Result<Vec<Span>> {
    let slots = 1 << (note.chunk_shift - note.slice_shift);
    let mut found = Vec::new();
    let mut next = 0;
    for &(number, chunk) in chunks {
        let begin = number << note.chunk_shift;
        let descriptors = memory.read_touched(chunk, (slots * note.slot_size) as usize)?;
        for (slot, descriptor) in descriptors.chunks_exact(note.slot_size as usize).enumerate() {
            let start = begin + ((slot as u64) << note.slice_shift);
            if start < next {
                continue;
            }
            if let Some(span) = span_at(note, start, descriptor) {
                next = span.end;
                found.push(span);
            }
        }
    }
    Ok(found)
}

fn span_at(note: &Note, start: u64, descriptor: &[u8]) -> Option<Span> {
    let offsets = &note.span;
    let byte = |offset: usize| descriptor.get(offset).copied();
    let state = byte(offsets.state)?;
    let slices = u64::from(word_at(descriptor, offsets.slice_count));
    let address = u64::from_ne_bytes(descriptor.get(..8)?.try_into().ok()?);
    if !(CLEAN..=LARGE).contains(&state) || slices == 0 || address != start {
        return None;
    }
    let used = u64::from(word_at(descriptor, offsets.used_count) & 0xffff);
    let used_blocks = match (state, byte(offsets.bucket)?) {
        (SLAB, HARDENED) => None,
        (SLAB, _) => Some(used),
        _ => Some(1),
    };
    Some(Span {
        start,
        end: start + (slices << note.slice_shift),
        state,
        class: u64::from(byte(offsets.object_class)?),
        used_blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(used_blocks: u64, cached_blocks: u64, resident_bytes: u64) -> SizeRow {
        Class { block_bytes: 100, used_blocks, cached_blocks, resident_bytes, slabs: 1 }.row()
    }

    #[test]
    fn what_is_resident_is_in_use_cached_or_free() {
        let row = class(50, 10, 16_384);
        assert_eq!((row.blocks, row.in_use_bytes, row.cached_bytes), (40, 4000, 1000));
        assert_eq!(row.free_bytes, 16_384 - 5000);
    }

    #[test]
    fn counts_of_different_moments_are_cut_to_what_can_be() {
        let more_cached = class(10, 30, 16_384);
        assert_eq!((more_cached.blocks, more_cached.cached_bytes), (0, 1000));
        let untouched = class(100, 10, 4096);
        assert_eq!(untouched.in_use_bytes, 4096);
        assert_eq!((untouched.cached_bytes, untouched.free_bytes), (0, 0));
    }
}
