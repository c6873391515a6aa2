//! Which primalloc a process runs on, and where in it a function is.
//!
//! Names are looked up in memory, by the tables that the loader uses: the library's file may have
//! been replaced since. Of what is linked into a program only the file may tell.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use memmap2::Mmap;
use object::{Object, ObjectSymbol};
use procfs::process::{MMPermissions, MemoryMap, Process};

use super::refusal;
use crate::explain::{Image, Memory, has_heap, is_loaded, path_of, serving};
use crate::processes::{self, is_library, seen_by};

/// A program or a library.
struct Loaded {
    start: u64,
    path: PathBuf,
    image: Image,
}

pub struct Library {
    pid: i32,
    /// The one whose malloc the process calls is the first.
    loaded: Vec<Loaded>,
    /// Its code; none of one that is linked into a program, where nobody knows which is its.
    pub code: Vec<Range<u64>>,
}

impl Library {
    pub fn find(process: &Process, maps: &[MemoryMap], memory: &dyn Memory) -> Result<Library> {
        let mut loaded: Vec<Loaded> =
            (0..maps.len()).filter_map(|index| read(&maps[index..], memory)).collect();
        let is_ours = |found: &Loaded| match has_heap(memory, found.start) {
            // The minimal library does not tell.
            None => is_library(&found.path),
            told => told == Some(true),
        };
        // One that nobody has taken a block from so far can be asked all the same.
        let is_next = || {
            let next = serving(memory, loaded.iter().map(|found| found.start))?;
            loaded.iter().position(|found| found.start == next)
        };
        let Some(ours) = loaded.iter().position(is_ours).or_else(is_next) else {
            return Err(refusal::other_allocator(process, maps));
        };
        loaded[..=ours].rotate_right(1);
        let path = &loaded[0].path;
        let is_code = |map: &&MemoryMap| {
            map.perms.contains(MMPermissions::EXECUTE) && path_of(map) == Some(path)
        };
        let code = maps.iter().filter(is_code).map(|map| map.address.0..map.address.1);
        let code = if is_library(path) { code.collect() } else { Vec::new() };
        Ok(Library { pid: process.pid, loaded, code })
    }

    /// One of the library's functions.
    pub fn function(&self, name: &str, memory: &dyn Memory) -> Result<u64> {
        let ours = &self.loaded[0];
        match ours.image.function(memory, name).or_else(|| self.function_in_file(ours, name)) {
            Some(address) => Ok(address),
            None if is_library(&ours.path) => {
                bail!("this primalloc has no {name}: it is of another version than this tool")
            }
            None => bail!(
                "primalloc is linked into {}, and where its {name} is nobody tells: names of \
                 functions were stripped from it, or it was left out",
                ours.path.display()
            ),
        }
    }

    /// A function of whoever has one of that name.
    pub fn any_function(&self, name: &str, memory: &dyn Memory) -> Option<u64> {
        let in_tables = self.loaded.iter().find_map(|l| l.image.function(memory, name));
        in_tables.or_else(|| self.function_in_file(&self.loaded[0], name))
    }

    fn function_in_file(&self, loaded: &Loaded, name: &str) -> Option<u64> {
        let process = processes::open(self.pid).ok()?;
        let is_program = process.exe().is_ok_and(|program| program == loaded.path);
        let path = match is_program {
            true => Path::new("/proc").join(processes::shown_as(self.pid).to_string()).join("exe"),
            false => seen_by(&process, &loaded.path),
        };
        let file = std::fs::File::open(path).ok()?;
        // SAFETY: a file that somebody cuts short meanwhile would end the tool, and no one else.
        let bytes = unsafe { Mmap::map(&file) }.ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let symbol = file.symbols().find(|s| s.is_definition() && s.name() == Ok(name))?;
        Some(loaded.image.bias().wrapping_add(symbol.address()))
    }
}

/// What the loader has begun to map at the first of these.
fn read(maps: &[MemoryMap], memory: &dyn Memory) -> Option<Loaded> {
    let (path, start) = (path_of(&maps[0])?, maps[0].address.0);
    if maps[0].offset != 0 || !is_loaded(maps) {
        return None;
    }
    let image = Image::at(memory, start).ok()??;
    Some(Loaded { start, path: path.clone(), image })
}
