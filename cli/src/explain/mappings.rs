//! What the kernel says of a process's memory, by mapping.

use std::io;
use std::path::{Path, PathBuf};

use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use super::image::Images;
use super::memory::Memory;
use crate::processes::is_library;

/// What a thread's stack, without its guard, has at most; a guard at most.
const STACK_MAX: u64 = 256 << 20;
const UNGUARDED_STACK_MAX: u64 = 16 << 20;
const GUARD_MAX: u64 = 1 << 20;
/// So far behind a program's variables the kernel places the program break at most.
const BREAK_DISTANCE_MAX: u64 = 1 << 30;

/// What the kernel knows a mapping as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ground {
    Anonymous,
    Break,
    Stack,
    Program,
    File,
    Shared,
}

struct Mapping {
    start: u64,
    end: u64,
    name: String,
    /// Here the loader has begun to map a program or a library.
    is_beginning: bool,
    ground: Ground,
    resident_bytes: u64,
    /// Of the resident bytes, primalloc's.
    heap_bytes: u64,
    /// Pages of it are resident elsewhere, too.
    is_shared: bool,
    swapped_bytes: u64,
    huge_bytes: u64,
}

pub struct Mappings {
    mappings: Vec<Mapping>,
    has_library: bool,
}

impl Mappings {
    pub fn new(
        mut maps: Vec<MemoryMap>,
        stack_pointers: &[u64],
        memory: Option<&dyn Memory>,
    ) -> Mappings {
        let images = Images::find(&maps, memory);
        if let Some(memory) = memory {
            images.cut(&mut maps, memory);
        }
        Mappings {
            mappings: described(&maps, &images, stack_pointers),
            has_library: maps.iter().filter_map(path_of).any(|path| is_library(path)),
        }
    }

    /// What is resident from `start` to `end` is the heap's, whatever the mapping looks like:
    /// blocks with a protected page in front look like stacks, and heaps may lie in a program's
    /// variables.
    pub fn take_for_heap(&mut self, memory: &dyn Memory, start: u64, end: u64) -> io::Result<u64> {
        let first = self.mappings.partition_point(|mapping| mapping.end <= start);
        let mut taken = 0;
        for mapping in self.mappings[first..].iter_mut().take_while(|mapping| mapping.start < end) {
            let left = mapping.resident_bytes - mapping.heap_bytes;
            if left > 0 {
                let (start, end) = (start.max(mapping.start), end.min(mapping.end));
                let bytes = memory.resident_bytes(start, end, mapping.is_shared)?.min(left);
                mapping.heap_bytes += bytes;
                taken += bytes;
            }
        }
        Ok(taken)
    }

    /// A core does not tell which memory the program break has: what lies next behind the variables
    /// of the program, which is the lowest that is loaded.
    pub fn find_break(&mut self) {
        let is_beginning = |mapping: &Mapping| mapping.is_beginning;
        let Some(first) = self.mappings.iter().position(is_beginning) else { return };
        let (program, behind) = self.mappings.split_at_mut(first + 1);
        let is_program = |m: &&Mapping| m.ground == Ground::Program && !m.is_beginning;
        let parts = behind.iter().take_while(is_program).count();
        let (parts, behind) = behind.split_at_mut(parts);
        let mut end = parts.last().map_or(program[first].end, |last| last.end);
        let mut distance = BREAK_DISTANCE_MAX;
        for mapping in behind {
            if mapping.ground != Ground::Anonymous || mapping.start - end > distance {
                break;
            }
            mapping.ground = Ground::Break;
            (end, distance) = (mapping.end, 0);
        }
    }

    /// Resident bytes of one kind that are not the heap's.
    pub fn bytes_of(&self, ground: Ground) -> u64 {
        let of_ground = self.mappings.iter().filter(|mapping| mapping.ground == ground);
        of_ground.map(|mapping| mapping.resident_bytes - mapping.heap_bytes).sum()
    }

    pub fn resident_bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.resident_bytes).sum()
    }

    pub fn swapped_bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.swapped_bytes).sum()
    }

    /// Of the heap's mappings, in huge pages.
    pub fn huge_bytes(&self) -> u64 {
        let heap = self.mappings.iter().filter(|mapping| mapping.heap_bytes > 0);
        heap.map(|mapping| mapping.huge_bytes).sum()
    }

    /// A libprimalloc.so is mapped.
    pub fn has_library(&self) -> bool {
        self.has_library
    }

    /// Where programs and libraries begin, and their names.
    pub fn images(&self) -> impl Iterator<Item = (u64, &str)> {
        let beginnings = self.mappings.iter().filter(|mapping| mapping.is_beginning);
        beginnings.map(|mapping| (mapping.start, mapping.name.as_str()))
    }
}

/// What the kernel counts of it under this name.
pub fn kernels(map: &MemoryMap, name: &str) -> u64 {
    map.extension.map.get(name).copied().unwrap_or(0)
}

pub fn path_of(map: &MemoryMap) -> Option<&PathBuf> {
    match &map.pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    }
}

fn described(maps: &[MemoryMap], images: &Images, stack_pointers: &[u64]) -> Vec<Mapping> {
    let mut described: Vec<Mapping> = Vec::with_capacity(maps.len());
    for (index, map) in maps.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| (&maps[index], &described[index]));
        let follows = before.filter(|(before, _)| before.address.1 == map.address.0);
        let is_shared = map.perms.contains(MMPermissions::SHARED);
        // What a program's variables have no room for in its file.
        let is_variables = || match images.end_for(map.address.0) {
            Some(end) => map.address.0 < end,
            None => is_writable(map) && follows.is_some_and(|(_, m)| m.ground == Ground::Program),
        };
        let ground = match &map.pathname {
            MMapPath::Path(path) if is_shared && is_shared_memory(path) => Ground::Shared,
            MMapPath::Path(path) if images.are_of(path) => Ground::Program,
            MMapPath::Path(_) => Ground::File,
            MMapPath::Stack | MMapPath::TStack(_) => Ground::Stack,
            MMapPath::Vdso | MMapPath::Vvar | MMapPath::Vsyscall => Ground::Program,
            MMapPath::Vsys(_) => Ground::Shared,
            _ if is_shared => Ground::Shared,
            MMapPath::Anonymous | MMapPath::Heap if is_variables() => Ground::Program,
            MMapPath::Heap => Ground::Break,
            MMapPath::Anonymous | MMapPath::Rollup | MMapPath::Other(_) => {
                match is_stack(map, follows.map(|(map, _)| map), stack_pointers) {
                    true => Ground::Stack,
                    false => Ground::Anonymous,
                }
            }
        };
        let shared = ["Shared_Clean", "Shared_Dirty", "Shared_Hugetlb"];
        let kernel = |name: &str| kernels(map, name);
        described.push(Mapping {
            start: map.address.0,
            end: map.address.1,
            name: path_of(map).map_or_else(String::new, |path| path.display().to_string()),
            is_beginning: images.begin_at(map.address.0),
            ground,
            resident_bytes: kernel("Rss") + kernel("Private_Hugetlb") + kernel("Shared_Hugetlb"),
            heap_bytes: 0,
            is_shared: shared.iter().any(|name| kernel(name) > 0),
            swapped_bytes: kernel("Swap"),
            huge_bytes: kernel("AnonHugePages"),
        });
    }
    described
}

/// Whether a mapping of this name can be of memory that processes share.
pub fn is_shared_memory(path: &Path) -> bool {
    let names = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];
    let path = path.to_string_lossy();
    names.iter().any(|name| path.starts_with(name))
}

fn is_writable(map: &MemoryMap) -> bool {
    map.perms.contains(MMPermissions::READ | MMPermissions::WRITE)
}

/// It lies right above a guard; or a thread waits on it, and it is not a mapping in which runtimes
/// place stacks among other things, as Go's does.
fn is_stack(map: &MemoryMap, below: Option<&MemoryMap>, stack_pointers: &[u64]) -> bool {
    let (start, end) = map.address;
    if !is_writable(map) || end - start > STACK_MAX {
        return false;
    }
    let holds = |pointer: &u64| (start..end).contains(pointer);
    let is_guard = |map: &MemoryMap| {
        let any = MMPermissions::READ | MMPermissions::WRITE | MMPermissions::EXECUTE;
        !map.perms.intersects(any)
            && map.pathname == MMapPath::Anonymous
            && map.address.1 - map.address.0 <= GUARD_MAX
    };
    let is_small = end - start <= UNGUARDED_STACK_MAX;
    is_small && stack_pointers.iter().any(holds) || below.is_some_and(is_guard)
}
