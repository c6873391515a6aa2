//! What the kernel says of a process's memory, by mapping.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use crate::processes::is_library;

/// What a thread's stack, without its guard, has at most; a guard at most.
const STACK_MAX: u64 = 256 << 20;
const GUARD_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ground {
    /// Anonymous, and primalloc's in part or as a whole.
    Heap,
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
    /// Its first page is the file's.
    is_beginning: bool,
    ground: Ground,
    resident_bytes: u64,
    swapped_bytes: u64,
    huge_bytes: u64,
}

pub struct Mappings {
    mappings: Vec<Mapping>,
    has_library: bool,
    thread_count: u64,
}

impl Mappings {
    pub fn read(process: &Process) -> Result<Mappings> {
        let pid = process.pid();
        let maps = process.smaps().map_err(|error| crate::explain::refusal(pid, error))?;
        let thread_count =
            process.stat().context(format!("{pid}: the process has ended"))?.num_threads;
        let maps: Vec<MemoryMap> = maps.into_iter().collect();
        let has_library = maps.iter().filter_map(path_of).any(|path| is_library(path));
        Ok(Mappings {
            mappings: described(&maps, &stack_pointers(process)),
            has_library,
            thread_count: thread_count.max(1) as u64,
        })
    }

    /// The heap lies at these addresses, whatever else it looks like.
    pub fn note_heap(&mut self, addresses: impl IntoIterator<Item = u64>) {
        for address in addresses {
            let behind = self.mappings.partition_point(|mapping| mapping.start <= address);
            let found = behind.checked_sub(1).map(|index| &mut self.mappings[index]);
            if let Some(mapping) = found.filter(|mapping| address < mapping.end) {
                mapping.ground = Ground::Heap;
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    fn sum(&self, ground: Ground) -> u64 {
        let of_ground = self.mappings.iter().filter(|mapping| mapping.ground == ground);
        of_ground.map(|mapping| mapping.resident_bytes).sum()
    }

    pub fn resident_bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.resident_bytes).sum()
    }

    pub fn swapped_bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.swapped_bytes).sum()
    }

    /// Of the heap's mappings, in huge pages.
    pub fn huge_bytes(&self) -> u64 {
        let heap = self.mappings.iter().filter(|mapping| mapping.ground == Ground::Heap);
        heap.map(|mapping| mapping.huge_bytes).sum()
    }

    pub fn anonymous_bytes(&self) -> u64 {
        self.sum(Ground::Heap) + self.sum(Ground::Anonymous)
    }

    pub fn break_bytes(&self) -> u64 {
        self.sum(Ground::Break)
    }

    pub fn stack_bytes(&self) -> u64 {
        self.sum(Ground::Stack)
    }

    pub fn program_bytes(&self) -> u64 {
        self.sum(Ground::Program)
    }

    pub fn file_bytes(&self) -> u64 {
        self.sum(Ground::File)
    }

    pub fn shared_bytes(&self) -> u64 {
        self.sum(Ground::Shared)
    }

    pub fn thread_count(&self) -> u64 {
        self.thread_count
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

/// Where threads that wait in the kernel have their stacks; of the others it does not tell.
fn stack_pointers(process: &Process) -> Vec<u64> {
    let tasks = process.tasks().into_iter().flatten().flatten();
    let pointer = |tid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", process.pid()));
        let text = text.ok()?;
        let word = text.split_whitespace().rev().nth(1)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    tasks.filter_map(|task| pointer(task.tid)).collect()
}

fn described(maps: &[MemoryMap], stack_pointers: &[u64]) -> Vec<Mapping> {
    let is_code = |map: &&MemoryMap| map.perms.contains(MMPermissions::EXECUTE);
    let images: HashSet<&PathBuf> = maps.iter().filter(is_code).filter_map(path_of).collect();
    let mut described: Vec<Mapping> = Vec::with_capacity(maps.len());
    for (index, map) in maps.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| (&maps[index], &described[index]));
        let follows = before.filter(|(before, _)| before.address.1 == map.address.0);
        let is_image = path_of(map).is_some_and(|path| images.contains(path));
        let ground = match &map.pathname {
            MMapPath::Path(path) if is_shared_memory(path, map) => Ground::Shared,
            MMapPath::Path(_) if is_image => Ground::Program,
            MMapPath::Path(_) => Ground::File,
            MMapPath::Heap => Ground::Break,
            MMapPath::Stack | MMapPath::TStack(_) => Ground::Stack,
            MMapPath::Vdso | MMapPath::Vvar | MMapPath::Vsyscall => Ground::Program,
            MMapPath::Vsys(_) => Ground::Shared,
            MMapPath::Anonymous | MMapPath::Rollup | MMapPath::Other(_) => {
                let is_shared = map.perms.contains(MMPermissions::SHARED);
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
        let kernel = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
        described.push(Mapping {
            start: map.address.0,
            end: map.address.1,
            name: path_of(map).map_or_else(String::new, |path| path.display().to_string()),
            is_beginning: is_image && map.offset == 0,
            ground,
            resident_bytes: kernel("Rss"),
            swapped_bytes: kernel("Swap"),
            huge_bytes: kernel("AnonHugePages"),
        });
    }
    described
}

fn is_shared_memory(path: &std::path::Path, map: &MemoryMap) -> bool {
    let names = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];
    let path = path.to_string_lossy();
    map.perms.contains(MMPermissions::SHARED) && names.iter().any(|name| path.starts_with(name))
}

/// A thread waits on it, or it lies right above a guard.
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
    stack_pointers.iter().any(holds) || below.is_some_and(is_guard)
}
