//! Where primalloc's books are: the ELF note that src/watch/outside.c writes.
//!
//! It is read from memory, not from a file: that may have been replaced since.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::image::Image;
use super::mappings::Mappings;
use super::memory::Memory;
use crate::processes::is_library;

const OWNER: &[u8] = b"primalloc\0";
const TYPE: u32 = 1;
/// Owner and description end with a whole word.
const ALIGNMENT: usize = 4;
const HEADER_SIZE: usize = 12;
const ADDRESSES: usize = 5;
const WORDS: usize = ADDRESSES + 1;
const HALVES: usize = 28;
/// What an older library's note ends without: two halves and four addresses.
const OPTIONS: usize = WORDS * 4 + HALVES * 2;
const OPTIONS_SIZE: usize = 2 * 2 + 4 * 4;
/// Bytes of one file's notes: none has as many.
const NOTES_SIZE_MAX: u64 = 64 << 10;
/// Of a heap: slices of a chunk, size classes, bytes of what there are many of.
const SLICES_SHIFT_MAX: u64 = 20;
const CLASSES_MAX: u64 = 128;
const SIZE_MAX: u64 = 4096;

/// Addresses in the process, and offsets in the structures that are there, by their names in src.
#[derive(Debug, Default, PartialEq)]
pub struct Note {
    pub newest_chunk: u64,
    pub size_classes: u64,
    pub shards: u64,
    pub active_caches: u64,
    pub newest_metadata: u64,
    pub chunk_next: u64,
    pub slice_shift: u64,
    pub chunk_shift: u64,
    pub slot_size: u64,
    pub span: SpanOffsets,
    pub class_count: u64,
    pub shard_count: u64,
    pub rests: u64,
    pub rest_size: u64,
    pub listed_count: u64,
    pub cache: CacheOffsets,
    pub metadata_block_size: u64,
    pub sampler: SamplerOffsets,
    /// None in an older library.
    pub options: Option<OptionPlaces>,
}

#[derive(Debug, Default, PartialEq)]
pub struct OptionPlaces {
    pub count: u64,
    pub row_size: u64,
    pub rows: u64,
    pub texts: u64,
    pub values: u64,
    pub sources: u64,
}

#[derive(Debug, Default, PartialEq)]
pub struct SpanOffsets {
    pub slice_count: usize,
    pub used_count: usize,
    pub state: usize,
    pub object_class: usize,
    pub bucket: usize,
}

#[derive(Debug, Default, PartialEq)]
pub struct CacheOffsets {
    pub next: u64,
    pub room: u64,
    pub in_use: u64,
    pub bins: u64,
    pub rest: u64,
    pub bin_size: u64,
    pub capacity: u64,
    pub spare_count: u64,
    pub small_class_last: u64,
    pub few_blocks: u64,
}

/// Of the bins that a thread takes blocks from while it samples.
#[derive(Debug, Default, PartialEq)]
pub struct SamplerOffsets {
    pub sampler: u64,
    pub counted: u64,
    pub counted_size: u64,
    pub given: u64,
}

impl Note {
    /// Of everything that is mapped: a program may have primalloc linked in and preloaded.
    pub fn find_all(mappings: &Mappings, memory: &dyn Memory) -> Vec<Result<Note>> {
        let note = |(start, name): (u64, &str)| {
            let found = match find(memory, start) {
                Ok(found) => found?,
                Err(error) if is_library(Path::new(name)) => Err(error.into()),
                Err(_) => return None,
            };
            Some(found.with_context(|| name.to_owned()))
        };
        mappings.images().filter_map(note).collect()
    }

    fn parse(address: u64, kind: u32, description: &[u8]) -> Result<Note> {
        if kind == TYPE && description.len() >= OPTIONS {
            let note = Note::of_description(address, description);
            if note.can_be() {
                return Ok(note);
            }
        }
        bail!("this primalloc is of another version than this tool");
    }

    /// In the order in which src/watch/outside.c writes it.
    fn of_description(address: u64, description: &[u8]) -> Note {
        let word = |index: usize| word_at(description, index * 4);
        let place = |index: usize| place_at(address, description, index * 4);
        let mut halves = description[WORDS * 4..]
            .chunks_exact(2)
            .map(|bytes| u64::from(u16::from_ne_bytes(bytes.try_into().unwrap_or_default())));
        let mut half = || halves.next().unwrap_or_default();
        Note {
            newest_chunk: place(0),
            size_classes: place(1),
            shards: place(2),
            active_caches: place(3),
            newest_metadata: place(4),
            chunk_next: u64::from(word(ADDRESSES) as u32),
            slice_shift: half(),
            chunk_shift: half(),
            slot_size: half(),
            span: SpanOffsets {
                slice_count: half() as usize,
                used_count: half() as usize,
                state: half() as usize,
                object_class: half() as usize,
                bucket: half() as usize,
            },
            class_count: half(),
            shard_count: half(),
            rests: half(),
            rest_size: half(),
            listed_count: half(),
            cache: CacheOffsets {
                next: half(),
                room: half(),
                in_use: half(),
                bins: half(),
                rest: half(),
                bin_size: half(),
                capacity: half(),
                spare_count: half(),
                small_class_last: half(),
                few_blocks: half(),
            },
            metadata_block_size: half() << 10,
            sampler: SamplerOffsets {
                sampler: half(),
                counted: half(),
                counted_size: half(),
                given: half(),
            },
            options: OptionPlaces::of_description(address, description),
        }
    }

    /// Whoever writes the note may have made it up: what we cut memory by, and reserve, is bounded.
    fn can_be(&self) -> bool {
        let shifts = self.slice_shift..=self.slice_shift + SLICES_SHIFT_MAX;
        self.slice_shift < u64::from(u32::BITS)
            && shifts.contains(&self.chunk_shift)
            && self.class_count < CLASSES_MAX
            && [self.slot_size, self.rest_size].iter().all(|size| (1..=SIZE_MAX).contains(size))
    }
}

impl OptionPlaces {
    fn of_description(address: u64, description: &[u8]) -> Option<OptionPlaces> {
        if description.len() < OPTIONS + OPTIONS_SIZE {
            return None;
        }
        let halves = word_at(description, OPTIONS).to_ne_bytes();
        let place = |index: usize| place_at(address, description, OPTIONS + 4 + index * 4);
        Some(OptionPlaces {
            count: u64::from(u16::from_ne_bytes([halves[0], halves[1]])),
            row_size: u64::from(u16::from_ne_bytes([halves[2], halves[3]])),
            rows: place(0),
            texts: place(1),
            values: place(2),
            sources: place(3),
        })
    }
}

/// That of the primalloc that begins at `start`; None if none is there, or it does not tell.
pub fn at(memory: &dyn Memory, start: u64) -> Option<Note> {
    find(memory, start).ok()??.ok()
}

/// Whether the primalloc that begins at `start` has a heap; None as above.
pub fn has_heap(memory: &dyn Memory, start: u64) -> Option<bool> {
    let note = at(memory, start)?;
    memory.word(note.newest_chunk).ok().map(|chunk| chunk != 0)
}

fn word_at(description: &[u8], at: usize) -> i32 {
    i32::from_ne_bytes(description[at..at + 4].try_into().unwrap_or_default())
}

/// An address counts from itself.
fn place_at(address: u64, description: &[u8], at: usize) -> u64 {
    address.wrapping_add(at as u64).wrapping_add_signed(i64::from(word_at(description, at)))
}

/// The note of the ELF file whose first page is mapped at `start`, if it has one.
fn find(memory: &dyn Memory, start: u64) -> io::Result<Option<Result<Note>>> {
    let Some(image) = Image::at(memory, start)? else { return Ok(None) };
    for (address, size) in image.notes() {
        let notes = memory.read_vec(address, size.min(NOTES_SIZE_MAX) as usize)?;
        if let Some((offset, kind, description)) = ours(&notes) {
            return Ok(Some(Note::parse(address + offset as u64, kind, description)));
        }
    }
    Ok(None)
}

/// Among the notes of a segment: where our description begins, of which type it is, and
/// what it says.
fn ours(notes: &[u8]) -> Option<(usize, u32, &[u8])> {
    let mut at = 0;
    loop {
        let word = |index: usize| {
            let bytes = notes.get(at + index * 4..at + index * 4 + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let (owner_size, size, kind) = (word(0)? as usize, word(1)? as usize, word(2)?);
        let owner = notes.get(at + HEADER_SIZE..)?.get(..owner_size)?;
        let begin = (at + HEADER_SIZE + owner_size).next_multiple_of(ALIGNMENT);
        let description = notes.get(begin..)?.get(..size)?;
        if owner == OWNER {
            return Some((begin, kind, description));
        }
        at = (begin + size).next_multiple_of(ALIGNMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the linker lays notes out, each at a whole word.
    fn note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let words = [owner.len() as u32, description.len() as u32, kind];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for part in [owner, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        }
        bytes
    }

    fn description() -> Vec<u8> {
        let words = [0x100, 0x200, -0x10, 0x400, 0x500, 0x10_0840];
        let halves = (1..=HALVES as u16).flat_map(u16::to_ne_bytes);
        words.iter().flat_map(|word: &i32| word.to_ne_bytes()).chain(halves).collect()
    }

    #[test]
    fn ours_is_found_among_others() {
        let build_id = note(b"GNU\0", 3, &[7; 20]);
        let other = note(b"primal\0", 1, b"xyz");
        let notes = [build_id.clone(), other, note(OWNER, TYPE, b"here")].concat();
        let (offset, kind, found) = ours(&notes).unwrap();
        assert_eq!((kind, found, &notes[offset..][..4]), (TYPE, &b"here"[..], &b"here"[..]));
        assert_eq!(ours(&build_id), None);
        assert_eq!(ours(&notes[..notes.len() - 1]), None);
        assert_eq!(ours(&[0xff; 40]), None);
    }

    #[test]
    fn addresses_count_from_themselves() {
        let parsed = Note::parse(0x7000_0000, TYPE, &description()).unwrap();
        assert_eq!((parsed.newest_chunk, parsed.size_classes), (0x7000_0100, 0x7000_0204));
        assert_eq!((parsed.shards, parsed.active_caches), (0x6fff_fff8, 0x7000_040c));
        assert_eq!(parsed.chunk_next, 0x10_0840);
        assert_eq!((parsed.slice_shift, parsed.span.bucket, parsed.class_count), (1, 8, 9));
        assert_eq!((parsed.listed_count, parsed.cache.next), (13, 14));
        assert_eq!((parsed.cache.few_blocks, parsed.metadata_block_size), (23, 24 << 10));
        assert_eq!((parsed.sampler.sampler, parsed.sampler.given), (25, 28));
        assert_eq!(parsed.options, None);
    }

    #[test]
    fn a_newer_note_tells_of_options() {
        let counts = [7_u16, 24].into_iter().flat_map(u16::to_ne_bytes);
        let places = [0x10_i32, 0x20, -0x30, 0x40].into_iter().flat_map(i32::to_ne_bytes);
        let whole: Vec<u8> = description().into_iter().chain(counts).chain(places).collect();
        let options = Note::parse(0x1000, TYPE, &whole).unwrap().options.unwrap();
        assert_eq!((options.count, options.row_size), (7, 24));
        let after = 0x1000 + OPTIONS as u64 + 4;
        assert_eq!((options.rows, options.texts), (after + 0x10, after + 4 + 0x20));
        assert_eq!((options.values, options.sources), (after + 8 - 0x30, after + 12 + 0x40));
        assert_eq!(Note::parse(0, TYPE, &whole[..whole.len() - 1]).unwrap().options, None);
    }

    #[test]
    fn a_note_of_another_version_is_refused() {
        let whole = description();
        let mut impossible = whole.clone();
        let slot_size = WORDS * 4 + 2 * 2;
        impossible[slot_size..slot_size + 2].fill(0);
        let short = &whole[..whole.len() - 2];
        for (kind, description) in [(TYPE, short), (TYPE + 1, &whole), (TYPE, &impossible)] {
            let error = Note::parse(0, kind, description).unwrap_err();
            assert!(error.to_string().contains("of another version"));
        }
    }
}
