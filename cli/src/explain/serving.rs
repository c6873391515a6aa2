//! Whose malloc a process calls, also before that has handed anything out: then no heap tells.
//!
//! The loader keeps a list of what it has loaded, in the order in which it looks for functions, for
//! debuggers (`struct r_debug` in link.h).

use std::io;
use std::path::PathBuf;

use object::elf::{DT_DEBUG, PT_DYNAMIC};
use procfs::process::MemoryMap;

use super::image::{Image, is_loaded};
use super::mappings::path_of;
use super::memory::Memory;
use super::note::has_heap;
use super::process::ProcessMemory;
use crate::processes::is_library;

/// In `struct r_debug` and in each `struct link_map`.
const FIRST: u64 = 8;
const DYNAMIC: u64 = 16;
const NEXT: u64 = 24;
/// No process has as many, but who is read may have made a ring of them.
const LOADED_MAX: usize = 10_000;

/// Whose malloc a process calls.
#[derive(Debug, PartialEq)]
pub enum Server {
    Primalloc,
    /// That of this program or library.
    Other(PathBuf),
}

/// Where the primalloc begins that the process's malloc is, of the programs and libraries that
/// begin at `starts`. It has a note, whether or not it has a heap.
pub fn serving(memory: &dyn Memory, starts: impl Iterator<Item = u64>) -> Option<u64> {
    called(memory, starts).filter(|(_, is_ours)| *is_ours).map(|(start, _)| start)
}

/// Where the one begins whose malloc all call, and whether it is primalloc.
fn called(memory: &dyn Memory, starts: impl Iterator<Item = u64>) -> Option<(u64, bool)> {
    let image = |start| Some((start, Image::at(memory, start).ok()??));
    let images: Vec<(u64, Image)> = starts.filter_map(image).collect();
    let debug = images.iter().find_map(|(_, image)| image.dynamic(memory, DT_DEBUG)).unwrap_or(0);
    let in_order = match loaded(memory, debug) {
        Ok(tables) if !tables.is_empty() => {
            let has = |image: &Image, table| image.segments(PT_DYNAMIC).any(|(at, _)| at == table);
            let of = |table: u64| images.iter().find(|(_, image)| has(image, table));
            tables.into_iter().filter_map(of).collect()
        }
        // Nobody has loaded a static program.
        _ => images.iter().take(1).collect::<Vec<_>>(),
    };
    // The crate's malloc has no name, and it is the program's all the same.
    let mut told = in_order.into_iter().filter_map(|(start, image)| {
        let is_ours = has_heap(memory, *start).is_some();
        (is_ours || image.function(memory, "malloc").is_some()).then_some((*start, is_ours))
    });
    told.next()
}

/// Whose malloc a process calls that has primalloc loaded; None if that is not known, as of one
/// that may not be looked into, or is being loaded, or of a library that does not tell.
pub fn server(pid: i32, maps: &[MemoryMap]) -> Option<Server> {
    let memory = ProcessMemory::open(pid).ok()?;
    let starts = || beginnings(maps).map(|map| map.address.0);
    let is_silent = |map: &MemoryMap| {
        let is_ours = path_of(map).is_some_and(|path| is_library(path));
        is_ours && has_heap(&memory, map.address.0).is_none()
    };
    let told: Vec<bool> = starts().filter_map(|start| has_heap(&memory, start)).collect();
    if told.is_empty() || beginnings(maps).any(is_silent) {
        return None;
    }
    if told.contains(&true) {
        return Some(Server::Primalloc);
    }
    match called(&memory, starts())? {
        (_, true) => Some(Server::Primalloc),
        (start, false) => {
            let file = maps.iter().find(|map| map.address.0 == start).and_then(path_of);
            file.cloned().map(Server::Other)
        }
    }
}

/// The first mappings of programs and libraries.
pub fn beginnings(maps: &[MemoryMap]) -> impl Iterator<Item = &MemoryMap> {
    let begins = |&index: &usize| maps[index].offset == 0 && is_loaded(&maps[index..]);
    (0..maps.len()).filter(begins).map(|index| &maps[index])
}

/// Where the loader's list says that the tables of each are which it links by.
fn loaded(memory: &dyn Memory, debug: u64) -> io::Result<Vec<u64>> {
    let mut tables = Vec::new();
    let mut next = if debug == 0 { 0 } else { memory.word(debug.wrapping_add(FIRST))? };
    while next != 0 && tables.len() < LOADED_MAX {
        tables.push(memory.word(next.wrapping_add(DYNAMIC))?);
        next = memory.word(next.wrapping_add(NEXT))?;
    }
    Ok(tables)
}
