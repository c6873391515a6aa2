//! A core file: what the kernel or a debugger wrote down of a process's memory.
//!
//! It holds little of what lies in files, as programs' code: that is read from the file itself, if
//! it is there and still the one that was mapped.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf::{self, FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use procfs::process::{MMPermissions, MMapExtension, MMapPath, MemoryMap};

use super::core_kind::{check_kind, is_damaged, open_file};
use super::core_notes::{CoreNotes, MappedFile};
use super::core_pages::{CorePages, Extent, PAGE_SIZE_MAX};
use super::mappings::is_shared_memory;
use super::memory::Memory;
use super::{Source, Subject};

/// Stands for the program where the core does not tell, as in the commands' usage.
const NAMELESS: &str = "PROGRAM";
/// Of a thread's notes so many kilobytes are none too many, and there may be ten thousand threads.
const NOTES_SIZE_MAX: u64 = 1 << 30;
/// Addresses from here on are the kernel's, also that of a page of code in every process.
const KERNEL: u64 = 1 << 63;
const PAGE_SIZE_MIN: usize = 4096;

pub fn subject(path: &Path, sysroot: Option<&Path>) -> Result<Subject> {
    let core = CoreFile::open(path, sysroot).with_context(|| path.display().to_string())?;
    Ok(Subject {
        source: Source::Core {
            file: path.display().to_string(),
            missing_bytes: core.segments.iter().map(|segment| segment.missing).sum(),
            lacks_notes: core.notes.are_cut,
        },
        pid: core.notes.pid,
        program: match core.notes.program.as_str() {
            "" => NAMELESS.to_owned(),
            name => name.to_owned(),
        },
        maps: core.maps(),
        stack_pointers: core.notes.stack_pointers.clone(),
        threads: core.notes.threads.max(1),
        limits: Vec::new(),
        memory: Ok(Box::new(core)),
    })
}

/// What was mapped as one.
struct Segment {
    start: u64,
    end: u64,
    permissions: MMPermissions,
    /// Where in the core it begins, and how much of it is there,
    offset: u64,
    size: u64,
    /// and how much that should be but is not.
    missing: u64,
}

impl Segment {
    fn promised(&self) -> u64 {
        self.size + self.missing
    }
}

struct CoreFile {
    file: File,
    /// Sorted by address, and apart from each other.
    segments: Vec<Segment>,
    notes: CoreNotes,
    page_size: usize,
    pages: CorePages,
    sysroot: Option<PathBuf>,
}

impl CoreFile {
    fn open(path: &Path, sysroot: Option<&Path>) -> Result<CoreFile> {
        let file = open_file(path)?;
        check_kind(&file, path)?;
        let (segments, notes) = parse(&ReadCache::new(&file))?;
        let says = notes.page_size.and_then(|size| usize::try_from(size).ok());
        let can_be = |&size: &usize| {
            (PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&size) && size.is_power_of_two()
        };
        let page_size = says.filter(can_be).unwrap_or(PAGE_SIZE_MIN);
        let extents = segments.iter().map(|&Segment { start: address, offset, size, .. }| Extent {
            address,
            offset,
            size,
        });
        let pages = CorePages::find(&file, extents, page_size).context("cannot be read")?;
        let sysroot = sysroot.map(Path::to_owned);
        Ok(CoreFile { file, segments, notes, page_size, pages, sysroot })
    }

    /// What the kernel would have said of the running process, as far as the core tells: the
    /// program break has no name there. A debugger leaves code that lies in a file out altogether.
    fn maps(&self) -> Vec<MemoryMap> {
        let next = |address: u64| self.segments.partition_point(|other| other.end <= address);
        let is_left_out = |file: &&MappedFile| {
            file.start < file.end
                && self.segments.get(next(file.start)).is_none_or(|other| other.start >= file.end)
        };
        let code = MMPermissions::READ | MMPermissions::EXECUTE;
        let left_out = self.notes.files().iter().filter(is_left_out);
        let left_out = left_out.map(|file| self.map(file.start, file.end, code));
        let segments = self.segments.iter();
        let mut maps: Vec<MemoryMap> =
            segments.map(|s| self.map(s.start, s.end, s.permissions)).chain(left_out).collect();
        maps.sort_by_key(|map| map.address);
        maps
    }

    fn map(&self, start: u64, end: u64, permissions: MMPermissions) -> MemoryMap {
        let file = self.notes.file_at(start);
        let is_here = |address: Option<u64>| address.is_some_and(|a| (start..end).contains(&a));
        let is_shared = file.is_some_and(|file| is_shared_memory(&file.path));
        let shared = if is_shared { MMPermissions::SHARED } else { MMPermissions::NONE };
        MemoryMap {
            address: (start, end),
            perms: permissions | shared,
            offset: file.map_or(0, |file| file.offset_at(start)),
            dev: (0, 0),
            inode: 0,
            pathname: match file {
                Some(file) => MMapPath::Path(file.path.clone()),
                None if is_here(self.notes.stack) => MMapPath::Stack,
                None if is_here(self.notes.vdso) => MMapPath::Vdso,
                None => MMapPath::Anonymous,
            },
            extension: MMapExtension {
                map: HashMap::from([("Rss".to_owned(), self.pages.bytes(start, end))]),
                ..MMapExtension::default()
            },
        }
    }

    /// Reads from the address on what lies in one place; returns how much it is.
    fn read_part(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let next = self.segments.partition_point(|segment| segment.end <= address);
        let here = self.segments.get(next).filter(|segment| segment.start <= address);
        let least = |rest: u64| buffer.len().min(rest.try_into().unwrap_or(usize::MAX));
        if let Some(segment) = here.filter(|segment| address - segment.start < segment.size) {
            let at = address - segment.start;
            let size = least(segment.size - at);
            self.file.read_exact_at(&mut buffer[..size], segment.offset + at)?;
            return Ok(size);
        }
        // What can be written may have become another than in the file.
        let is_constant =
            here.is_none_or(|segment| !segment.permissions.contains(MMPermissions::WRITE));
        let is_cut = here.is_some_and(|segment| address - segment.start < segment.promised());
        let mapped = self.notes.file_at(address).filter(|_| is_constant);
        let mapped = mapped.ok_or_else(|| is_not_held(address, is_cut))?;
        let behind = self.segments.get(next + usize::from(here.is_some()));
        let end = behind.map_or(mapped.end, |segment| segment.start.min(mapped.end));
        let size = least(end - address);
        let file = self.open_mapped(mapped)?;
        file.read_exact_at(&mut buffer[..size], mapped.offset_at(address))?;
        Ok(size)
    }

    /// The file that was mapped, from the sysroot or where it was.
    fn open_mapped(&self, mapped: &MappedFile) -> io::Result<File> {
        let below = |directory: &PathBuf| {
            let name = mapped.path.file_name().unwrap_or_default();
            let path = mapped.path.strip_prefix("/").unwrap_or(&mapped.path);
            [directory.join(path), directory.join(name)]
        };
        let in_sysroot = self.sysroot.iter().flat_map(below).filter(|path| path.exists());
        let mut refusals = Vec::new();
        for path in in_sysroot.chain([mapped.path.clone()]) {
            match self.open_same(&path, mapped) {
                Ok(file) => return Ok(file),
                Err(error) => refusals.push(format!("{} {error}", path.display())),
            }
        }
        let (path, refusals) = (mapped.path.display(), refusals.join(", "));
        Err(io::Error::other(format!(
            "the core leaves {path} out, and {refusals}; --sysroot tells where else it may be"
        )))
    }

    /// The file, if it is the one that was mapped: it begins as that did; where the core does not
    /// hold that, it is no younger than the core.
    fn open_same(&self, path: &Path, mapped: &MappedFile) -> io::Result<File> {
        let open = || {
            if !fs::metadata(path)?.is_file() {
                return Err(io::Error::other("not a file"));
            }
            File::open(path)
        };
        let told = |error| io::Error::other(format!("cannot be read: {error}"));
        let file = open().map_err(told)?;
        let mut here = vec![0; self.page_size];
        let mut there = vec![0; self.page_size];
        let is_same = match self.beginning(mapped, &mut there) {
            true => file.read_exact_at(&mut here, 0).is_ok() && here == there,
            false => file.metadata()?.modified()? <= self.file.metadata()?.modified()?,
        };
        is_same.then_some(file).ok_or_else(|| io::Error::other("is another file by now"))
    }

    /// Reads the first page of what the process had mapped of the file, if the core holds it.
    fn beginning(&self, mapped: &MappedFile, page: &mut [u8]) -> bool {
        self.notes.beginnings(&mapped.path).any(|start| {
            let segment = self.segments.iter().find(|segment| segment.start == start);
            segment.is_some_and(|segment| {
                segment.size >= page.len() as u64
                    && self.file.read_exact_at(page, segment.offset).is_ok()
            })
        })
    }
}

impl Memory for CoreFile {
    fn read(&self, mut address: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let size = self.read_part(address, buffer)?;
            address += size as u64;
            buffer = &mut buffer[size..];
        }
        Ok(())
    }

    /// The kernel writes down what was not touched, too, as zeros.
    fn read_touched(&self, address: u64, size: usize) -> io::Result<Vec<u8>> {
        self.read_vec(address, size)
    }

    fn resident_bytes(&self, start: u64, end: u64, _may_share: bool) -> io::Result<u64> {
        Ok(self.pages.bytes(start, end))
    }

    fn page_size(&self) -> u64 {
        self.page_size as u64
    }
}

fn is_not_held(address: u64, is_cut: bool) -> io::Error {
    let why = match is_cut {
        true => "it is in the part that is cut off",
        false => "coredump_filter may have left it out",
    };
    io::Error::other(format!("{address:#x} is not in the core: {why}"))
}

fn parse<'data>(data: impl ReadRef<'data>) -> Result<(Vec<Segment>, CoreNotes)> {
    let header = FileHeader64::<Endianness>::parse(data).map_err(is_damaged)?;
    let endian = header.endian().map_err(is_damaged)?;
    let headers = header.program_headers(endian, data).map_err(is_damaged)?;
    let length = data.len().unwrap_or(0);
    let loaded = headers.iter().filter(|header| header.p_type(endian) == PT_LOAD);
    let mut segments: Vec<Segment> =
        loaded.filter_map(|header| segment(header, endian, length)).collect();
    segments.sort_by_key(|segment| segment.start);
    if segments.is_empty() {
        bail!("holds nothing of a process's memory");
    }
    if segments.windows(2).any(|pair| pair[0].end > pair[1].start) {
        bail!("is damaged: two of its segments lie at one address");
    }
    let mut notes = CoreNotes::default();
    let machine = header.e_machine(endian);
    let are_notes = |header: &&ProgramHeader64<Endianness>| {
        header.p_type(endian) == PT_NOTE && header.p_filesz(endian) <= NOTES_SIZE_MAX
    };
    // A debugger writes notes last: of a core that is cut off it is they that are missing.
    let is_memory_held = segments.iter().any(|segment| segment.size > 0);
    for header in headers.iter().filter(are_notes) {
        match add_notes(&mut notes, header, endian, machine, data) {
            Err(_) if is_memory_held => notes.are_cut = true,
            added => added.map_err(is_damaged)?,
        }
    }
    Ok((segments, notes))
}

fn segment(
    header: &ProgramHeader64<Endianness>,
    endian: Endianness,
    length: u64,
) -> Option<Segment> {
    let (start, size) = (header.p_vaddr(endian), header.p_memsz(endian));
    let end = start.checked_add(size).filter(|&end| end < KERNEL && size > 0)?;
    let (offset, promised) = header.file_range(endian);
    let promised = promised.min(size);
    let held = promised.min(length.saturating_sub(offset));
    let flags = header.p_flags(endian);
    let permissions = [
        (elf::PF_R, MMPermissions::READ),
        (elf::PF_W, MMPermissions::WRITE),
        (elf::PF_X, MMPermissions::EXECUTE),
    ];
    let given = permissions.into_iter().filter(|(flag, _)| flags.contains(*flag));
    let permissions = given.fold(MMPermissions::NONE, |all, (_, permission)| all | permission);
    Some(Segment { start, end, permissions, offset, size: held, missing: promised - held })
}

fn add_notes<'data>(
    notes: &mut CoreNotes,
    header: &ProgramHeader64<Endianness>,
    endian: Endianness,
    machine: elf::Machine,
    data: impl ReadRef<'data>,
) -> object::Result<()> {
    let Some(mut found) = header.notes(endian, data)? else { return Ok(()) };
    while let Some(note) = found.next()? {
        if note.name() == elf::ELF_NOTE_CORE {
            notes.add(machine, note.n_type(endian), note.desc());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use nix::sys::memfd::{MFdFlags, memfd_create};
    use object::elf::{NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NoteType};

    use super::super::core_notes::tests::{mapped, process, thread, words};
    use super::super::{Asked, Explanation, Use, explain};
    use super::*;

    const HEADER_SIZE: usize = 64;
    const PROGRAM_HEADER_SIZE: usize = 56;
    const PAGE: usize = 4096;
    const R: u32 = 4;
    const W: u32 = 2;
    const X: u32 = 1;

    /// Address, size, permissions, and what is held of it: a byte for each page.
    type Part<'a> = (u64, usize, u32, &'a [u8]);

    fn halves(halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| half.to_ne_bytes()).collect()
    }

    fn header(kind: u32, flags: u32, offset: usize, address: u64, sizes: [usize; 2]) -> Vec<u8> {
        let first = words(&[u64::from(flags) << 32 | u64::from(kind)]);
        let [held, size] = sizes.map(|size| size as u64);
        [first, words(&[offset as u64, address, 0, held, size, 1])].concat()
    }

    /// As a debugger lays it out: what it holds does not begin at a page of the file.
    fn core_of(parts: &[Part], notes: &[(NoteType, Vec<u8>)]) -> Vec<u8> {
        let mut described = Vec::new();
        for (kind, description) in notes {
            let sizes = [5, description.len() as u32, kind.0];
            described.extend(sizes.iter().flat_map(|size| size.to_ne_bytes()));
            described.extend(b"CORE\0\0\0\0");
            described.extend(description);
            described.resize(described.len().next_multiple_of(4), 0);
        }
        let count = parts.len() as u16 + 1;
        let mut core = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        core.extend(halves(&[4, 62, 1, 0]));
        core.extend(words(&[0, HEADER_SIZE as u64, 0]));
        core.extend(halves(&[0, 0, 64, PROGRAM_HEADER_SIZE as u16, count, 64, 0, 0]));
        let mut offset = HEADER_SIZE + usize::from(count) * PROGRAM_HEADER_SIZE;
        core.extend(header(4, 0, offset, 0, [described.len(), 0]));
        offset += described.len();
        for &(address, size, flags, held) in parts {
            core.extend(header(1, flags, offset, address, [held.len() * PAGE, size]));
            offset += held.len() * PAGE;
        }
        core.extend(described);
        let held = parts.iter().flat_map(|(.., held)| held.iter());
        core.extend(held.flat_map(|&byte| [byte; PAGE]));
        core
    }

    fn explained(bytes: &[u8]) -> Result<Explanation> {
        let file = File::from(memfd_create("core", MFdFlags::empty()).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        explain(&Asked::Core(path.into()), None)
    }

    fn core() -> Vec<u8> {
        let files = [
            (0x40_0000, 0x40_2000, 0, "/no/such/program"),
            (0x40_2000, 0x40_3000, 1, "/no/such/program"),
            (0x70_0000, 0x70_4000, 0, "/dev/zero (deleted)"),
            (0x80_0000, 0x80_4000, 0, "/no/such/data"),
        ];
        core_of(
            &[
                (0xff_0000, 4 * PAGE, R | W, &[0, 0, 1, 1]), // the first thread's stack
                (0x40_0000, 2 * PAGE, R | X, &[1]),
                (0x40_2000, PAGE, R | W, &[1]),
                (0x40_3000, PAGE, R | W, &[1]), // variables
                (0x50_0000, 4 * PAGE, R | W, &[1, 0, 1, 1]),
                (0x60_0000, PAGE, 0, &[]), // a guard
                (0x60_1000, 2 * PAGE, R | W, &[0, 1]),
                (0x70_0000, 4 * PAGE, R | W, &[1, 1, 1, 1]),
                (0x80_0000, 4 * PAGE, R, &[]),
                (0xffff_ffff_ff60_0000, PAGE, R | X, &[1]),
            ],
            &[
                (NT_PRSTATUS, thread(0xff_2100)),
                (NT_PRPSINFO, process(4711, "served", "/usr/bin/served --fast")),
                (NT_AUXV, words(&[25, 0xff_3000, 0, 0])),
                (NT_FILE, mapped(&files)),
                (NT_PRSTATUS, thread(0x60_2100)),
            ],
        )
    }

    #[test]
    fn a_core_is_explained_as_far_as_it_tells() {
        let found = explained(&core()).unwrap();
        assert_eq!((found.pid, found.program.as_str(), found.threads), (Some(4711), "served", 2));
        assert!(!found.is_ours && found.is_core());
        let pages = |used_for| found.bytes(used_for) as usize / PAGE;
        assert_eq!((pages(Use::Programs), pages(Use::Brk), pages(Use::Anonymous)), (3, 3, 0));
        assert_eq!((pages(Use::Stacks), pages(Use::Shared), pages(Use::Files)), (3, 4, 0));
        assert_eq!(found.resident_bytes as usize, 13 * PAGE);
    }

    /// Only its files' names say that there was code beside the variables.
    #[test]
    fn code_that_is_left_out_makes_a_file_a_program() {
        let files =
            [(0x40_0000, 0x40_2000, 0, "/no/such/so"), (0x40_2000, 0x40_3000, 2, "/no/such/so")];
        let variables: Part = (0x40_2000, PAGE, R | W, &[1]);
        let found = explained(&core_of(&[variables], &[(NT_FILE, mapped(&files))])).unwrap();
        assert_eq!(found.bytes(Use::Programs) as usize, PAGE);
        assert_eq!((found.pid, found.threads), (None, 1));
    }

    #[test]
    fn what_is_cut_off_is_said_to_be() {
        let whole = core();
        let found = explained(&whole[..whole.len() - 2 * PAGE - 100]).unwrap();
        let Source::Core { missing_bytes, .. } = found.source else { panic!("{found:?}") };
        // The last page is the kernel's, of which nobody asks.
        assert_eq!(missing_bytes, 100 + PAGE as u64);
        assert_eq!(found.bytes(Use::Shared) as usize, 3 * PAGE - 100);
        let held = header(1, R | W, HEADER_SIZE + 2 * PROGRAM_HEADER_SIZE, 0x50_0000, [PAGE; 2]);
        let mut notes_last = core_of(&[(0x50_0000, PAGE, R | W, &[1])], &[]);
        notes_last.splice(HEADER_SIZE + PROGRAM_HEADER_SIZE.., held);
        notes_last.resize(notes_last.len() + PAGE, 1);
        let notes = header(4, 0, notes_last.len(), 0, [500, 0]);
        notes_last.splice(HEADER_SIZE..HEADER_SIZE + PROGRAM_HEADER_SIZE, notes);
        let found = explained(&notes_last).unwrap();
        let Source::Core { lacks_notes, .. } = found.source else { panic!("{found:?}") };
        assert_eq!((lacks_notes, found.resident_bytes as usize), (true, PAGE));
        assert_eq!(found.program, "PROGRAM");
        for length in [20, 63, 200, 600, 900] {
            let error = format!("{:#}", explained(&whole[..length]).unwrap_err());
            assert!(error.contains("is cut off or damaged"), "{length}: {error}");
        }
    }

    #[test]
    fn what_is_no_core_is_named() {
        let refusal = |bytes: &[u8]| format!("{:#}", explained(bytes).unwrap_err());
        let with = |offset: usize, value: u8| {
            let mut core = core();
            core[offset] = value;
            refusal(&core)
        };
        assert!(refusal(b"").contains("is empty"));
        assert!(refusal(b"\x28\xb5\x2f\xfd and more").contains("unpack it first: zstd -dc"));
        assert!(refusal(b"hello, world, how are you").contains("is not in ELF format"));
        assert!(with(4, 1).contains("a 32-bit ELF file"));
        assert!(with(5, 2).contains("another order of bytes"));
        assert!(with(16, 3).contains("is a program or a library"));
        assert!(refusal(&core_of(&[], &[])).contains("holds nothing"));
        let twice: Part = (0x1000, PAGE, R, &[1]);
        assert!(refusal(&core_of(&[twice, twice], &[])).contains("lie at one address"));
    }
}
