//! Why a process is as large as it is: what its resident memory consists of.
//!
//! Nothing runs in the process, and nobody stops it: what is said here is read, from the process or
//! from the core file that is left of it.
//!
//!   memory.rs      memory, wherever it is read from:
//!   process.rs     from a running process,
//!   core_file.rs   or from a core, if the file is one (core_kind.rs); core_notes.rs is what that
//!                  says, core_pages.rs what it holds
//!   note.rs        where primalloc's books are in it
//!   books.rs       what these say: blocks in use, cached, free, by size
//!   heap.rs        where its memory lies, for who asks nothing else
//!   options.rs     which options are set in it
//!   serving.rs     whether malloc is primalloc's before it has a heap
//!   limits.rs      what it may have at most
//!   mappings.rs    what the kernel says of the rest
//!   image.rs       where programs and libraries end, and their notes are
//!   functions.rs   where a function of theirs is, for who calls it
//!   advice.rs      what was found, in plain words

mod advice;
mod books;
mod core_file;
mod core_kind;
mod core_notes;
mod core_pages;
mod functions;
mod heap;
mod image;
mod limits;
mod mappings;
mod memory;
mod note;
mod options;
mod process;
mod refusal;
mod serving;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use procfs::process::{MMPermissions, MemoryMap};
use serde::Serialize;

use crate::allocators::{PRIMALLOC, name_of_library};

pub use advice::{advice, listed, on_primalloc, program, unread};
pub use books::SizeRow;
pub use heap::heap;
pub use image::{Image, is_loaded};
pub use limits::{Limit, LimitKind};
pub use mappings::path_of;
pub use memory::Memory;
pub use note::has_heap;
pub use options::{Setting, Value};
pub use process::ProcessMemory;
pub use refusal::{check, check_numbers, forbidden, refusal};
pub use serving::{Server, server, serving};

use books::Books;
use mappings::{Ground, Mappings};
use note::Note;

/// What is to be explained.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Process(i32),
    Core(PathBuf),
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    Process,
    Core {
        file: String,
        /// Of the bytes that it should hold by its own account.
        missing_bytes: u64,
        /// Whether it is cut off before it says all of its program, threads and files.
        lacks_notes: bool,
    },
}

/// A process, or what is left of one.
struct Subject {
    source: Source,
    pid: Option<i32>,
    program: String,
    maps: Vec<MemoryMap>,
    stack_pointers: Vec<u64>,
    threads: u64,
    limits: Vec<Limit>,
    /// Or why it cannot be read.
    memory: Result<Box<dyn Memory>>,
}

/// What resident memory is used for, in the order in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    Blocks,
    LargeBlocks,
    Heaps,
    Caches,
    FreeBlocks,
    FreePages,
    Records,
    Brk,
    Anonymous,
    Stacks,
    Programs,
    Files,
    Shared,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    #[serde(rename = "use")]
    pub used_for: Use,
    pub resident_bytes: u64,
    /// How many there are, of what can be counted: blocks, threads.
    pub count: Option<u64>,
}

/// An allocator that is not primalloc.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Allocator {
    pub name: &'static str,
    pub library: PathBuf,
}

/// The one source of every output format.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    pub source: Source,
    /// Of a core, if it says so.
    pub pid: Option<i32>,
    pub program: String,
    pub resident_bytes: u64,
    pub swapped_bytes: u64,
    /// Of the mappings that the heap has a part in, in huge pages.
    pub huge_bytes: u64,
    /// Whether the process runs on primalloc.
    pub is_ours: bool,
    /// Whether that has handed anything out yet.
    pub has_heap: bool,
    /// Another allocator whose library it has mapped: name and file.
    pub allocator: Option<Allocator>,
    /// Whether the program is linked statically, so that nothing can be preloaded.
    pub is_static: bool,
    /// Why the heap could not be looked into although it is primalloc's.
    pub unread: Option<String>,
    pub threads: u64,
    /// In the order of their uses, without what holds nothing. They add up to the resident bytes.
    pub parts: Vec<Part>,
    /// By the size of the blocks; empty where the heap was not looked into.
    pub sizes: Vec<SizeRow>,
    /// Those of primalloc's options that do not have their default.
    pub options: Vec<Setting>,
    /// Why these could not be read although the heap could.
    pub options_unread: Option<String>,
    /// What limits a process's memory, if anything does.
    pub limits: Vec<Limit>,
}

impl Explanation {
    pub fn is_core(&self) -> bool {
        matches!(self.source, Source::Core { .. })
    }

    /// Where a core does not name its files, nobody finds primalloc among them.
    pub fn knows_malloc(&self) -> bool {
        self.is_ours || !matches!(self.source, Source::Core { lacks_notes: true, .. })
    }

    /// Whether what is anonymous and not the heap's did not come from primalloc.
    pub fn knows_heap(&self) -> bool {
        self.is_ours && self.unread.is_none()
    }

    /// Then nobody can tell which of the heap's blocks are in use.
    pub fn is_hardened(&self) -> bool {
        self.part(Use::Blocks).is_some_and(|part| part.count.is_none())
    }

    pub fn part(&self, used_for: Use) -> Option<&Part> {
        self.parts.iter().find(|part| part.used_for == used_for)
    }

    pub fn bytes(&self, used_for: Use) -> u64 {
        self.part(used_for).map_or(0, |part| part.resident_bytes)
    }

    pub fn share(&self, used_for: Use) -> f64 {
        self.bytes(used_for) as f64 / self.resident_bytes.max(1) as f64
    }
}

/// Files that a core's process had mapped are looked for in the `sysroot`, too.
pub fn explain(asked: &Asked, sysroot: Option<&Path>) -> Result<Explanation> {
    let subject = match asked {
        Asked::Process(pid) => process::subject(*pid)?,
        Asked::Core(path) => core_file::subject(path, sysroot)?,
    };
    let memory = subject.memory.as_deref().ok();
    let allocator = other_allocator(&subject.maps);
    let is_static = is_static(&subject.maps);
    let mut mappings = Mappings::new(subject.maps, &subject.stack_pointers, memory);
    if let Asked::Core(_) = asked {
        mappings.find_break();
    }
    let serving = memory.and_then(|m| serving(m, mappings.images().map(|(start, _)| start)));
    let mut books = Books::default();
    let looked = match &subject.memory {
        Ok(memory) => look_into(&**memory, &mut mappings, &mut books, serving.is_some()),
        Err(error) if mappings.has_library() => Err(anyhow!("{error:#}")),
        Err(_) => Ok(Ok(Vec::new())),
    };
    let (unread, options) = match looked {
        Ok(options) => (None, options),
        Err(error) => (Some(error), Ok(Vec::new())),
    };
    if let (Asked::Process(pid), Ok(memory)) = (asked, &subject.memory) {
        if mappings.images().next().is_some_and(|(start, _)| memory.word(start).is_err()) {
            bail!("{pid}: the process has ended, or has become another program meanwhile");
        }
    }
    Ok(Explanation {
        source: subject.source,
        pid: subject.pid,
        program: subject.program,
        resident_bytes: mappings.resident_bytes(),
        swapped_bytes: mappings.swapped_bytes(),
        huge_bytes: mappings.huge_bytes(),
        is_ours: books.is_any() || unread.is_some() || serving.is_some(),
        has_heap: books.is_any() || unread.is_some(),
        allocator,
        is_static,
        unread: unread.map(|error| format!("{error:#}")),
        threads: subject.threads,
        parts: parts(&books, &mappings, subject.threads),
        sizes: books.sizes(),
        options_unread: options.as_ref().err().map(|error| format!("{error:#}")),
        options: options.unwrap_or_default(),
        limits: subject.limits,
    })
}

/// The first allocator's library among what is mapped.
pub fn other_allocator(maps: &[MemoryMap]) -> Option<Allocator> {
    maps.iter().filter_map(path_of).find_map(|path| {
        let name = name_of_library(path).filter(|name| *name != PRIMALLOC)?;
        // A path in a core may have any bytes, and JSON takes text only.
        Some(Allocator { name, library: path.to_string_lossy().into_owned().into() })
    })
}

/// A program that is not static has the loader's code beside its own.
fn is_static(maps: &[MemoryMap]) -> bool {
    let is_code = |map: &&MemoryMap| map.perms.contains(MMPermissions::EXECUTE);
    let mut paths = maps.iter().filter(is_code).filter_map(path_of);
    let first = paths.next();
    first.is_some() && paths.all(|path| Some(path) == first)
}

/// Which options are set, or why nobody knows.
type Options = Result<Vec<Setting>>;

/// Adds up the heaps of all that is mapped; an error says what of them could not be looked into.
fn look_into(
    memory: &dyn Memory,
    mappings: &mut Mappings,
    books: &mut Books,
    is_serving: bool,
) -> Result<Options> {
    let notes = Note::find_all(mappings, memory);
    if notes.is_empty() && mappings.has_library() {
        bail!("this library is the minimal one, or of an older version");
    }
    let notes = notes.into_iter().collect::<Result<Vec<Note>>>()?;
    notes.iter().try_for_each(|note| books.add(note, memory, mappings))?;
    Ok(options_of(&notes, memory, is_serving))
}

/// Of the library that has a heap, or is to have one: of several the first is the one whose malloc
/// all call.
fn options_of(notes: &[Note], memory: &dyn Memory, is_serving: bool) -> Options {
    let has_heap = |note: &&Note| memory.word(note.newest_chunk).is_ok_and(|chunk| chunk != 0);
    let next = || notes.first().filter(|_| is_serving);
    let Some(note) = notes.iter().find(has_heap).or_else(next) else { return Ok(Vec::new()) };
    match &note.options {
        Some(places) => options::settings(places, memory),
        None => bail!("this library is of an older version"),
    }
}

fn parts(books: &Books, mappings: &Mappings, threads: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |used_for, resident_bytes, count| {
        if resident_bytes > 0 {
            parts.push(Part { used_for, resident_bytes, count });
        }
    };
    for (used_for, bytes, count) in books.uses() {
        add(used_for, bytes, count);
    }
    for (used_for, ground, count) in [
        (Use::Brk, Ground::Break, None),
        (Use::Anonymous, Ground::Anonymous, None),
        (Use::Stacks, Ground::Stack, Some(threads)),
        (Use::Programs, Ground::Program, None),
        (Use::Files, Ground::File, None),
        (Use::Shared, Ground::Shared, None),
    ] {
        add(used_for, mappings.bytes_of(ground), count);
    }
    parts
}

#[cfg(test)]
pub mod sample {
    //! A made-up process for the tests of the rules and of the formats.

    use super::*;

    pub fn explanation(parts: &[(Use, u64, Option<u64>)]) -> Explanation {
        let part = |&(used_for, mebibytes, count): &(Use, u64, Option<u64>)| Part {
            used_for,
            resident_bytes: mebibytes << 20,
            count,
        };
        let parts: Vec<Part> = parts.iter().map(part).collect();
        let row = |block_bytes, blocks, free_bytes| SizeRow {
            block_bytes,
            blocks,
            in_use_bytes: block_bytes * blocks,
            cached_bytes: 0,
            free_bytes,
            resident_bytes: block_bytes * blocks + free_bytes,
            slabs: 1,
        };
        Explanation {
            source: Source::Process,
            pid: Some(4711),
            program: "served".to_owned(),
            resident_bytes: parts.iter().map(|part| part.resident_bytes).sum(),
            swapped_bytes: 0,
            huge_bytes: 32 << 20,
            is_ours: true,
            has_heap: true,
            allocator: None,
            is_static: false,
            unread: None,
            threads: 12,
            parts,
            sizes: vec![
                row(16, 10, 100),
                row(64, 300_000, 2 << 20),
                row(1024, 20_000, 30 << 20),
                row(2048, 1, 0),
            ],
            options: Vec::new(),
            options_unread: None,
            limits: Vec::new(),
        }
    }

    /// The same with options of every kind, under limits.
    pub fn set_and_limited() -> Explanation {
        let setting = |name: &str, value, default, unit: Option<&str>, source: &str| Setting {
            name: name.to_owned(),
            value,
            default,
            unit: unit.map(str::to_owned),
            source: (!source.is_empty()).then(|| source.to_owned()),
        };
        let word = |word: &str| Value::Word(word.to_owned());
        let number = Value::Number;
        let bytes = Some("bytes");
        let limit = |kind, limit_mib: u64, used_mib: Option<u64>| Limit {
            kind,
            limit_bytes: limit_mib << 20,
            used_bytes: used_mib.map(|used| used << 20),
            directory: None,
        };
        let path = "/var/lib/served/heap.pb.gz";
        Explanation {
            options: vec![
                setting("shards", number(4), number(0), Some("shards"), "MALLOC_ARENA_MAX"),
                setting("purge_delay", number(1500), number(500), Some("ms"), "PRIMALLOC_OPTIONS"),
                setting("trim_threshold", number(0), word("auto"), bytes, "GLIBC_TUNABLES"),
                setting("thp", word("always"), word("auto"), None, ""),
                setting("large_os_pages", number(1), number(0), None, "PRIMALLOC_LARGE_OS_PAGES"),
                setting("hard_limit", number(3 << 30), number(0), bytes, "prim_option_set"),
                setting("profile", word(path), Value::Nothing, None, "PRIMALLOC_PROFILE"),
            ],
            limits: vec![
                limit(LimitKind::Cgroup, 512, Some(300)),
                limit(LimitKind::CgroupHigh, 400, None),
                limit(LimitKind::AddressSpace, 4096, Some(1200)),
            ],
            ..service()
        }
    }

    /// The same from a core that is cut off.
    pub fn core() -> Explanation {
        let source = Source::Core {
            file: "core.4711".to_owned(),
            missing_bytes: 3 << 20,
            lacks_notes: false,
        };
        Explanation { source, huge_bytes: 0, ..service() }
    }

    pub fn service() -> Explanation {
        explanation(&[
            (Use::Blocks, 70, Some(320_011)),
            (Use::LargeBlocks, 40, Some(3)),
            (Use::Caches, 3, Some(12)),
            (Use::FreeBlocks, 32, None),
            (Use::FreePages, 20, None),
            (Use::Records, 1, None),
            (Use::Anonymous, 24, None),
            (Use::Stacks, 2, Some(12)),
            (Use::Programs, 8, None),
        ])
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use procfs::FromBufRead;
    use procfs::process::{MMapPath, MemoryMaps};

    use super::*;

    #[test]
    fn an_allocator_has_a_name_for_json_wherever_it_lies() {
        let line = "7f0000000000-7f0000001000 r-xp 00000000 00:01 4   /lib/libjemalloc.so.2\n";
        let mut maps = MemoryMaps::from_buf_read(line.as_bytes()).unwrap().0;
        let path = OsStr::from_bytes(b"/opt/b\xfcro/libjemalloc.so.2");
        maps[0].pathname = MMapPath::Path(path.into());
        let found = serde_json::to_value(other_allocator(&maps)).unwrap();
        assert_eq!(found["library"], "/opt/b\u{fffd}ro/libjemalloc.so.2");
    }
}
