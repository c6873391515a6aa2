//! What is mapped where in a process, and to which kind an address belongs.
//!
//! The kernel reports every mapping as it is made, but neither its end nor its maker. A mapping
//! is malloc's if malloc's own code was seen to fault in it: glibc, for one, writes a header at
//! the beginning of each. What is known of a mapping is only known after a while, so its faults
//! are counted with it, and go to a kind when it is replaced.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use procfs::process::{MMPermissions, MemoryMap};

use super::Kind;
use super::ground::{Ground, ground_of_name, ground_of_path, is_named_by_allocator};
use super::process_tree::{maps_of, root_of};
use super::ranges::{divided, is_most, shared_bytes};
use super::records::{Fault, Mapped};
use crate::allocators;

/// How far below the stack pointer a program may write; Linux allows compilers this much probing.
const BELOW_STACK_POINTER: u64 = 64 << 10;
const THREAD_STACK_MAX: u64 = 16 << 20;
const MAIN_STACK_MAX: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub minor: u64,
    pub major: u64,
    /// Faults whose page is followed, and those of them on a page that had faulted before.
    pub followed: u64,
    pub repeated: u64,
    /// Faults of which the kind is the likelier of two.
    pub guessed: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.minor += other.minor;
        self.major += other.major;
        self.followed += other.followed;
        self.repeated += other.repeated;
        self.guessed += other.guessed;
    }
}

#[derive(Clone, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Where `start` lies in the file.
    pub offset: u64,
    pub name: Rc<str>,
    pub is_executable: bool,
    ground: Ground,
    is_allocators: bool,
    /// The allocator's books were asked whether it is its.
    is_looked_up: bool,
    /// And they said that it is, all of it.
    is_heap: bool,
    tally: Tally,
}

impl Mapping {
    fn kind(&self) -> Kind {
        match self.ground {
            Ground::Heap => Kind::Allocator,
            Ground::Anonymous if self.is_allocators => Kind::Allocator,
            Ground::Anonymous => Kind::OwnMapping,
            Ground::Stack => Kind::Stack,
            Ground::File => Kind::File,
            Ground::Other => Kind::Other,
        }
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Cut where the heap begins and ends. Most of its faults are in the longest part.
    fn divided(self, heap: &[Range<u64>]) -> Vec<Mapping> {
        let parts = divided(&(self.start..self.end), heap);
        let longest = parts.iter().map(|(part, _)| part.end - part.start).max();
        let is_whole = parts.len() == 1;
        let mut tally = Some(self.tally);
        let part = |(part, is_heap): (Range<u64>, bool)| Mapping {
            start: part.start,
            end: part.end,
            is_allocators: is_heap || is_whole && self.is_allocators && !self.is_heap,
            is_looked_up: true,
            is_heap,
            tally: match longest == Some(part.end - part.start) {
                true => tally.take().unwrap_or_default(),
                false => Tally::default(),
            },
            ..self.clone()
        };
        parts.into_iter().map(part).collect()
    }
}

#[derive(Clone, Default)]
pub struct AddressSpace {
    mappings: BTreeMap<u64, Mapping>,
    /// Goes up whenever code is mapped.
    pub generation: u64,
    /// A library that replaces malloc is loaded: it may map memory that its code never touches, and
    /// whatever is anonymous is taken to be its.
    pub allocator: Option<&'static str>,
    has_glibc: bool,
    /// Some faults only are recorded: malloc's own may be missed, and what is anonymous may be its.
    pub is_sampled: bool,
    /// Whose they are may be known later.
    pub faults: u64,
    /// Below this lies what the process knows by its names: nothing, or a directory of /proc.
    root: Rc<str>,
    /// Where the file mapping ended that was reported last: .bss begins there.
    file_end: Option<u64>,
}

/// The part of the address space that an address lies in.
pub enum Place {
    Known(Kind),
    /// Anonymous memory that begins here, of whom is yet to be seen.
    Anonymous(u64),
}

impl AddressSpace {
    /// What a child of fork begins with: the same mappings, without their faults.
    pub fn forked(&self) -> AddressSpace {
        let mut copy = self.clone();
        copy.mappings.values_mut().for_each(|mapping| mapping.tally = Tally::default());
        copy.faults = 0;
        copy
    }

    /// Of a process that has just begun.
    pub fn of_new(pid: u32) -> AddressSpace {
        AddressSpace { root: root_of(pid as i32), ..AddressSpace::default() }
    }

    /// Of one that runs already.
    pub fn of_running(pid: i32) -> AddressSpace {
        AddressSpace { root: root_of(pid), ..AddressSpace::of_maps(&maps_of(pid)) }
    }

    /// What is mapped in a process that runs already.
    fn of_maps(maps: &[MemoryMap]) -> AddressSpace {
        let mut space = AddressSpace::default();
        for map in maps {
            let (ground, name) = ground_of_path(map);
            let mapping = Mapping {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                name: name.into(),
                is_executable: map.perms.contains(MMPermissions::EXECUTE),
                ground,
                is_allocators: false,
                is_looked_up: false,
                is_heap: false,
                tally: Tally::default(),
            };
            space.insert(mapping);
        }
        space
    }

    /// Takes in a new mapping; gives the faults of those that it replaces.
    pub fn map(&mut self, mapped: &Mapped) -> Vec<(Kind, Tally)> {
        let mut ground = ground_of_name(&mapped.name, mapped.is_shared);
        if ground == Ground::Anonymous && self.file_end == Some(mapped.range.start) {
            ground = Ground::File;
        }
        self.file_end = (ground == Ground::File).then_some(mapped.range.end);
        let parts = match ground {
            Ground::Anonymous => self.outside_heap(&mapped.range),
            _ => vec![mapped.range.clone()],
        };
        let mut settled = Vec::new();
        for part in parts {
            settled.extend(self.insert(Mapping {
                start: part.start,
                end: part.end,
                offset: mapped.offset,
                name: mapped.name.as_str().into(),
                is_executable: mapped.is_executable,
                ground,
                is_allocators: self.is_mostly(&part, |mapping| mapping.is_allocators),
                is_looked_up: self.is_mostly(&part, |mapping| mapping.is_looked_up),
                is_heap: false,
                tally: Tally::default(),
            }));
        }
        settled
    }

    /// The kernel reports neighbours without names as one mapping: what is known to be the heap
    /// stays what it is.
    fn outside_heap(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let heap = self.overlapping(range.start, range.end).filter(|mapping| mapping.is_heap);
        let heap: Vec<Range<u64>> = heap.map(|mapping| mapping.start..mapping.end).collect();
        let parts = divided(range, &heap).into_iter();
        parts.filter(|(_, is_heap)| !is_heap).map(|(part, _)| part).collect()
    }

    /// A mapping that grows or changes its protection is reported anew.
    fn is_mostly(&self, range: &Range<u64>, is_so: fn(&&Mapping) -> bool) -> bool {
        let shared = |mapping: &Mapping| shared_bytes(range, &(mapping.start..mapping.end));
        let known = self.overlapping(range.start, range.end).filter(is_so).map(shared).sum();
        is_most(known, range)
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Mapping> {
        let before = self.mappings.range(..start).next_back().map(|(_, mapping)| mapping);
        let inside = self.mappings.range(start..end).map(|(_, mapping)| mapping);
        before.into_iter().filter(move |mapping| mapping.end > start).chain(inside)
    }

    fn insert(&mut self, new: Mapping) -> Vec<(Kind, Tally)> {
        if new.is_executable {
            self.generation += 1;
            self.has_glibc |= allocators::is_glibc(Path::new(&*new.name));
        }
        let old: Vec<Mapping> = self.overlapping(new.start, new.end).cloned().collect();
        let mut settled = Vec::new();
        for mapping in old {
            self.mappings.remove(&mapping.start);
            settled.push(self.settled(&mapping));
            let rest = Mapping { tally: Tally::default(), ..mapping };
            if rest.start < new.start {
                self.mappings.insert(rest.start, Mapping { end: new.start, ..rest.clone() });
            }
            if rest.end > new.end {
                let offset = rest.offset + (new.end - rest.start);
                self.mappings.insert(new.end, Mapping { start: new.end, offset, ..rest });
            }
        }
        self.mappings.insert(new.start, new);
        settled
    }

    /// Gives the faults of all mappings, as at the end of the process.
    pub fn settle(&mut self) -> Vec<(Kind, Tally)> {
        let mappings = std::mem::take(&mut self.mappings);
        mappings.values().map(|mapping| self.settled(mapping)).collect()
    }

    /// The one whose malloc is called is the process's, whatever else is loaded; the program's own
    /// has no name. One that is only mapped is, unless another has been seen; without, it is glibc.
    pub fn take_allocator(&mut self, name: Option<&'static str>, is_called: bool) {
        let other = name.filter(|name| *name != allocators::GLIBC);
        if is_called {
            self.allocator = other;
            self.has_glibc = name == Some(allocators::GLIBC);
        } else {
            self.allocator = self.allocator.or(other);
        }
    }

    /// Where no other is seen, the C library's, if there is one: a static program may have any.
    pub fn serving_allocator(&self) -> Option<&'static str> {
        self.allocator.or_else(|| self.has_glibc.then_some(allocators::GLIBC))
    }

    pub fn executables(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.values().filter(|m| m.is_executable && m.ground == Ground::File)
    }

    /// Where its file lies for us: another may have its name here if the process is in a container.
    pub fn place_of_file(&self, mapping: &Mapping) -> Rc<str> {
        match &*self.root {
            "" => mapping.name.clone(),
            root => format!("{root}{}", mapping.name).into(),
        }
    }

    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        mapping.contains(address).then_some(mapping)
    }

    fn kind_of(&self, mapping: &Mapping) -> Kind {
        match mapping.kind() {
            Kind::OwnMapping if !self.would_know(mapping) => Kind::Allocator,
            kind => kind,
        }
    }

    /// Whether it would have been seen that the mapping is the allocator's.
    fn would_know(&self, mapping: &Mapping) -> bool {
        if self.allocator.is_some() { mapping.is_looked_up } else { !self.is_sampled }
    }

    fn settled(&self, mapping: &Mapping) -> (Kind, Tally) {
        let kind = self.kind_of(mapping);
        let Tally { minor, major, .. } = mapping.tally;
        let guessed = if kind == mapping.kind() { 0 } else { minor + major };
        (kind, Tally { guessed, ..mapping.tally })
    }

    pub fn place(&self, fault: &Fault) -> Place {
        let sp = fault.stack_pointer;
        let is_near = |reach: u64| {
            sp != 0
                && fault.address >= sp.saturating_sub(BELOW_STACK_POINTER)
                && fault.address < sp.saturating_add(reach)
        };
        match self.at(fault.address) {
            // The kernel does not report the main thread's stack.
            None if self.at(sp).is_none() && is_near(MAIN_STACK_MAX) => Place::Known(Kind::Stack),
            None => Place::Known(Kind::Other),
            Some(mapping) if mapping.ground != Ground::Anonymous => Place::Known(mapping.kind()),
            Some(m) if !m.is_allocators && m.contains(sp) && is_near(THREAD_STACK_MAX) => {
                Place::Known(Kind::Stack)
            }
            Some(mapping) => Place::Anonymous(mapping.start),
        }
    }

    /// The kind of an address as far as it is known now.
    pub fn kind_now(&self, place: &Place) -> Kind {
        match place {
            Place::Known(kind) => *kind,
            Place::Anonymous(start) => self.kind_of(&self.mappings[start]),
        }
    }

    pub fn count(&mut self, start: u64, tally: Tally) {
        if let Some(mapping) = self.mappings.get_mut(&start) {
            mapping.tally.add(tally);
        }
    }

    /// Malloc's own code has faulted in this mapping.
    pub fn mark_allocators(&mut self, start: u64) {
        if let Some(mapping) = self.mappings.get_mut(&start).filter(|m| !m.is_looked_up) {
            mapping.is_allocators = true;
        }
    }

    /// The allocator's books say what is its, in the order of addresses; the rest is not.
    pub fn take_heap(&mut self, heap: &[Range<u64>]) {
        for mapping in std::mem::take(&mut self.mappings).into_values() {
            let parts = match mapping.ground {
                Ground::Anonymous => mapping.divided(heap),
                _ => vec![mapping],
            };
            self.mappings.extend(parts.into_iter().map(|part| (part.start, part)));
        }
    }

    /// Whether the mapping that begins here is known to be the heap's or not.
    pub fn is_looked_up(&self, start: u64) -> bool {
        self.mappings.get(&start).is_some_and(|mapping| mapping.is_looked_up)
    }

    /// Takes over the names that ranges have been given since.
    pub fn take_names(&mut self, maps: &[MemoryMap]) {
        for map in maps.iter().filter(|map| is_named_by_allocator(map)) {
            for (_, mapping) in self.mappings.range_mut(..map.address.1) {
                if mapping.end > map.address.0 && mapping.ground == Ground::Anonymous {
                    mapping.is_allocators = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(start: u64, end: u64, name: &str) -> Mapped {
        Mapped {
            pid: 1,
            range: start..end,
            offset: 0,
            is_shared: false,
            is_executable: false,
            name: name.to_owned(),
        }
    }

    fn fault(address: u64, stack_pointer: u64) -> Fault {
        Fault {
            pid: 1,
            address,
            instruction: 0,
            stack_pointer,
            in_kernel: false,
            is_major: false,
            period: 1,
        }
    }

    fn kind(space: &AddressSpace, address: u64, stack_pointer: u64) -> Kind {
        space.kind_now(&space.place(&fault(address, stack_pointer)))
    }

    const MAIN_STACK: u64 = 0x7ffc_0000_0000;

    #[test]
    fn names_tell_kinds() {
        let mut space = AddressSpace::default();
        space.map(&mapped(0x1000, 0x3000, "/bin/program"));
        space.map(&mapped(0x3000, 0x4000, "//anon"));
        space.map(&mapped(0x8000, 0x9000, "[heap]"));
        space.map(&mapped(0xa000, 0xb000, "//anon"));
        space.map(&mapped(0xc000, 0xd000, "/dev/zero (deleted)"));
        assert_eq!(kind(&space, 0x1800, MAIN_STACK), Kind::File);
        assert_eq!(kind(&space, 0x3800, MAIN_STACK), Kind::File, "the program's .bss");
        assert_eq!(kind(&space, 0x8000, MAIN_STACK), Kind::Allocator);
        assert_eq!(kind(&space, 0xa000, MAIN_STACK), Kind::OwnMapping);
        assert_eq!(kind(&space, 0xc000, MAIN_STACK), Kind::Other);
        assert_eq!(kind(&space, MAIN_STACK + 64, MAIN_STACK), Kind::Stack);
        assert_eq!(kind(&space, 0xdead_0000, MAIN_STACK), Kind::Other);
    }

    #[test]
    fn the_mapping_that_holds_the_stack_pointer_is_a_stack() {
        let mut space = AddressSpace::default();
        space.map(&mapped(0x10_0000, 0x90_0000, "//anon"));
        assert_eq!(kind(&space, 0x80_0000, 0x7f_f000), Kind::Stack);
        assert_eq!(kind(&space, 0x20_0000, 0x7f_f000), Kind::OwnMapping, "far below it");
        space.mark_allocators(0x10_0000);
        assert_eq!(kind(&space, 0x80_0000, 0x7f_f000), Kind::Allocator, "a coroutine's");
    }

    #[test]
    fn what_malloc_has_touched_is_mallocs_faults_from_before_included() {
        let mut space = AddressSpace::default();
        space.map(&mapped(0x10_0000, 0x20_0000, "//anon"));
        space.count(0x10_0000, Tally { minor: 3, ..Tally::default() });
        space.mark_allocators(0x10_0000);
        let settled = space.map(&mapped(0x10_0000, 0x20_0000, "//anon"));
        assert_eq!(settled, [(Kind::Allocator, Tally { minor: 3, ..Tally::default() })]);
        assert_eq!(kind(&space, 0x18_0000, MAIN_STACK), Kind::Allocator, "mapped anew");
    }

    #[test]
    fn of_what_another_allocator_was_not_seen_in_the_kind_is_a_guess() {
        let mut space = AddressSpace { allocator: Some("jemalloc"), ..AddressSpace::default() };
        space.map(&mapped(0x10_0000, 0x20_0000, "//anon"));
        let tally = Tally { minor: 3, major: 1, ..Tally::default() };
        space.count(0x10_0000, tally);
        let mut seen = space.clone();
        let sampled = AddressSpace { allocator: None, is_sampled: true, ..space.clone() };
        assert_eq!(space.settle(), [(Kind::Allocator, Tally { guessed: 4, ..tally })]);
        for mut glibcs in [sampled.clone(), AddressSpace { is_sampled: false, ..sampled }] {
            let guessed = if glibcs.is_sampled { 4 } else { 0 };
            assert_eq!(glibcs.settle()[0].1.guessed, guessed, "glibc's, if any");
        }
        seen.mark_allocators(0x10_0000);
        assert_eq!(seen.settle(), [(Kind::Allocator, tally)]);
    }

    #[test]
    fn an_allocators_books_tell_its_memory_from_the_programs() {
        let mut space = AddressSpace { allocator: Some("primalloc"), ..AddressSpace::default() };
        space.map(&mapped(0x10_0000, 0x20_0000, "//anon"));
        space.map(&mapped(0x20_0000, 0x30_0000, "//anon"));
        space.take_heap(&[0x8_0000..0x9_0000, 0x10_0000..0x18_0000, 0x40_0000..0x50_0000]);
        let new = Tally { minor: 3, ..Tally::default() };
        for start in [0x10_0000, 0x20_0000] {
            space.count(start, new);
            space.map(&mapped(start + 0x1000, start + 0x10_0000, "//anon"));
        }
        assert_eq!(kind(&space, 0x14_0000, MAIN_STACK), Kind::Allocator, "mapped anew");
        assert_eq!(kind(&space, 0x1c_0000, MAIN_STACK), Kind::OwnMapping, "beside it");
        assert_eq!(kind(&space, 0x28_0000, MAIN_STACK), Kind::OwnMapping, "mapped anew");
        space.map(&mapped(0x0, 0x3f_0000, "//anon"));
        assert_eq!(kind(&space, 0x14_0000, MAIN_STACK), Kind::Allocator, "reported as one");
        assert_eq!(kind(&space, 0x28_0000, MAIN_STACK), Kind::OwnMapping, "reported as one");
        space.map(&mapped(0x60_0000, 0x70_0000, "//anon"));
        space.count(0x60_0000, new);
        let guessed: u64 = space.settle().iter().map(|(_, tally)| tally.guessed).sum();
        assert_eq!(guessed, 3, "what came after the last look");
    }

    #[test]
    fn a_mapping_inside_another_leaves_both_ends() {
        let mut space = AddressSpace::default();
        space.map(&mapped(0x10_0000, 0x40_0000, "/bin/program"));
        space.map(&mapped(0x20_0000, 0x30_0000, "[heap]"));
        assert_eq!(kind(&space, 0x18_0000, MAIN_STACK), Kind::File);
        assert_eq!(kind(&space, 0x28_0000, MAIN_STACK), Kind::Allocator);
        assert_eq!(space.at(0x38_0000).unwrap().offset, 0x20_0000);
    }
}
