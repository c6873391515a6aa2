//! What the kernel says of a process's memory, by mapping.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use super::memory::Memory;
use crate::processes::is_library;

/// What a thread's stack, without its guard, has at most; a guard at most.
const STACK_MAX: u64 = 256 << 20;
const UNGUARDED_STACK_MAX: u64 = 16 << 20;
const GUARD_MAX: u64 = 1 << 20;

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
    pub fn new(maps: &[MemoryMap], stack_pointers: &[u64]) -> Mappings {
        Mappings {
            mappings: described(maps, stack_pointers),
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

fn path_of(map: &MemoryMap) -> Option<&PathBuf> {
    match &map.pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    }
}

fn described(maps: &[MemoryMap], stack_pointers: &[u64]) -> Vec<Mapping> {
    let is_code = |map: &&MemoryMap| map.perms.contains(MMPermissions::EXECUTE);
    let images: HashSet<&PathBuf> = maps.iter().filter(is_code).filter_map(path_of).collect();
    let mut described: Vec<Mapping> = Vec::with_capacity(maps.len());
    for (index, map) in maps.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| (&maps[index], &described[index]));
        let follows = before.filter(|(before, _)| before.address.1 == map.address.0);
        let is_image = path_of(map).is_some_and(|path| images.contains(path));
        let is_shared = map.perms.contains(MMPermissions::SHARED);
        let ground = match &map.pathname {
            MMapPath::Path(path) if is_shared && is_shared_memory(path) => Ground::Shared,
            MMapPath::Path(_) if is_image => Ground::Program,
            MMapPath::Path(_) => Ground::File,
            MMapPath::Heap => Ground::Break,
            MMapPath::Stack | MMapPath::TStack(_) => Ground::Stack,
            MMapPath::Vdso | MMapPath::Vvar | MMapPath::Vsyscall => Ground::Program,
            MMapPath::Vsys(_) => Ground::Shared,
            MMapPath::Anonymous | MMapPath::Rollup | MMapPath::Other(_) => {
                // What a program's variables have no room for in its file.
                let is_variables = follows.is_some_and(|(_, mapping)| {
                    mapping.ground == Ground::Program
                        && map.pathname == MMapPath::Anonymous
                        && map.perms.contains(MMPermissions::WRITE)
                });
                let is_stack = || is_stack(map, follows.map(|(map, _)| map), stack_pointers);
                match () {
                    () if is_shared => Ground::Shared,
                    () if is_variables => Ground::Program,
                    () if is_stack() => Ground::Stack,
                    () => Ground::Anonymous,
                }
            }
        };
        let shared = ["Shared_Clean", "Shared_Dirty", "Shared_Hugetlb"];
        let kernel = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
        described.push(Mapping {
            start: map.address.0,
            end: map.address.1,
            name: path_of(map).map_or_else(String::new, |path| path.display().to_string()),
            is_beginning: is_image && is_loaded(&maps[index..]),
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

/// Whether the first one is the beginning of a file with code behind it: one that is mapped to be
/// read, as for the names in backtraces, has none.
fn is_loaded(maps: &[MemoryMap]) -> bool {
    let begins = |map: &MemoryMap| map.offset == 0;
    let Some((first, behind)) = maps.split_first() else { return false };
    let behind = behind.iter().filter(|map| map.pathname == first.pathname);
    let mut whole = std::iter::once(first).chain(behind.take_while(|map| !begins(map)));
    begins(first) && whole.any(|map| map.perms.contains(MMPermissions::EXECUTE))
}

/// Whether a mapping of this name can be of memory that processes share.
pub fn is_shared_memory(path: &Path) -> bool {
    let names = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];
    let path = path.to_string_lossy();
    names.iter().any(|name| path.starts_with(name))
}

/// It lies right above a guard; or a thread waits on it, and it is not a mapping in which runtimes
/// place stacks among other things, as Go's does.
fn is_stack(map: &MemoryMap, below: Option<&MemoryMap>, stack_pointers: &[u64]) -> bool {
    let (start, end) = map.address;
    let is_writable = map.perms.contains(MMPermissions::READ | MMPermissions::WRITE);
    if !is_writable || end - start > STACK_MAX {
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
