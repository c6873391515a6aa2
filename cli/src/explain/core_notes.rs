//! What the notes of a core file say: threads, the program, its files, where its stack is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{
    self, EM_AARCH64, EM_RISCV, EM_X86_64, NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NoteType,
};

/// struct elf_prstatus of 64-bit kernels: the thread's registers, by index below.
const REGISTERS: usize = 112;
/// struct elf_prpsinfo: the process, its program's name, and its command line as far as it fits.
const PROCESS: usize = 24;
const NAME: usize = 40;
const NAME_SIZE: usize = 16;
const COMMAND: usize = NAME + NAME_SIZE;
const COMMAND_SIZE: usize = 80;
/// Of the auxiliary vector.
const AT_PAGESZ: u64 = 6;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// A part of a file that was mapped.
#[derive(Debug, PartialEq)]
pub struct MappedFile {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: PathBuf,
}

impl MappedFile {
    /// Where in the file that lies which lay at this address.
    pub fn offset_at(&self, address: u64) -> u64 {
        self.offset.wrapping_add(address - self.start)
    }
}

#[derive(Debug, Default)]
pub struct CoreNotes {
    pub pid: Option<i32>,
    pub program: String,
    pub threads: u64,
    pub stack_pointers: Vec<u64>,
    pub page_size: Option<u64>,
    /// Somewhere in the first thread's stack.
    pub stack: Option<u64>,
    /// Where the kernel's own code begins.
    pub vdso: Option<u64>,
    /// Whether some are missing.
    pub are_cut: bool,
    /// Sorted by address.
    files: Vec<MappedFile>,
}

impl CoreNotes {
    /// What makes no sense is passed over.
    pub fn add(&mut self, machine: elf::Machine, kind: NoteType, description: &[u8]) {
        match kind {
            NT_PRSTATUS => {
                self.threads += 1;
                let offset = stack_register(machine).map(|index| REGISTERS + index * 8);
                self.stack_pointers.extend(offset.and_then(|offset| word(description, offset)));
            }
            NT_PRPSINFO => {
                self.pid = number(description, PROCESS).filter(|&pid| pid > 0);
                self.program = program(description);
            }
            NT_AUXV => self.add_vector(description),
            NT_FILE => {
                self.files = files(description).unwrap_or_default();
                self.files.sort_by_key(|file| file.start);
            }
            _ => {}
        }
    }

    fn add_vector(&mut self, vector: &[u8]) {
        for offset in (0..vector.len()).step_by(16) {
            match (word(vector, offset), word(vector, offset + 8)) {
                (Some(AT_PAGESZ), Some(size)) => self.page_size = Some(size),
                (Some(AT_RANDOM), address) => self.stack = address,
                (Some(AT_SYSINFO_EHDR), address) => self.vdso = address,
                _ => {}
            }
        }
    }

    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// The file that lay at this address.
    pub fn file_at(&self, address: u64) -> Option<&MappedFile> {
        let next = self.files.partition_point(|file| file.start <= address);
        self.files[..next].last().filter(|file| address < file.end)
    }

    /// Where a file's beginning lay.
    pub fn beginnings<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = u64> + 'a {
        let beginnings = self.files.iter().filter(|file| file.offset == 0);
        beginnings.filter(move |file| file.path == path).map(|file| file.start)
    }
}

/// Where the stack pointer is among the registers.
fn stack_register(machine: elf::Machine) -> Option<usize> {
    match machine {
        EM_X86_64 => Some(19),
        EM_AARCH64 => Some(31),
        EM_RISCV => Some(2),
        _ => None,
    }
}

/// As /proc shows it of a running process: by the command line, where the name did not fit.
fn program(description: &[u8]) -> String {
    let text = |offset: usize, size: usize| {
        let bytes = description.get(offset..offset + size).unwrap_or_default();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(size.min(bytes.len()));
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let (name, command) = (text(NAME, NAME_SIZE), text(COMMAND, COMMAND_SIZE));
    match command.split_once(' ').map_or(command.as_str(), |(first, _)| first) {
        cut if cut.len() >= COMMAND_SIZE - 1 => name,
        path => {
            let last = Path::new(path).file_name().map(OsStr::to_string_lossy);
            last.map_or(name, |last| last.trim_end_matches(':').to_owned())
        }
    }
}

/// Count and unit of offsets; start, end and offset of each; then their names.
fn files(description: &[u8]) -> Option<Vec<MappedFile>> {
    let (count, unit) = (word(description, 0)? as usize, word(description, 8)?);
    let names_begin = count.checked_mul(24)?.checked_add(16)?;
    let mut names = description.get(names_begin..)?.split(|&byte| byte == 0);
    let file = |index: usize| {
        let at = 16 + index * 24;
        Some(MappedFile {
            start: word(description, at)?,
            end: word(description, at + 8)?,
            offset: word(description, at + 16)?.checked_mul(unit)?,
            path: PathBuf::from(OsStr::from_bytes(names.next()?)),
        })
    };
    (0..count).map(file).collect()
}

fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    let word = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_ne_bytes(word.try_into().ok()?))
}

fn number(bytes: &[u8], offset: usize) -> Option<i32> {
    let number = bytes.get(offset..offset + 4)?;
    Some(i32::from_ne_bytes(number.try_into().ok()?))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    pub fn process(pid: i32, name: &str, command: &str) -> Vec<u8> {
        let mut description = vec![0; COMMAND + COMMAND_SIZE];
        description[PROCESS..PROCESS + 4].copy_from_slice(&pid.to_ne_bytes());
        description[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
        description[COMMAND..COMMAND + command.len()].copy_from_slice(command.as_bytes());
        description
    }

    /// A thread of x86 with this stack pointer.
    pub fn thread(stack_pointer: u64) -> Vec<u8> {
        let mut description = vec![0; REGISTERS];
        description.extend(words(&[0; 19]));
        description.extend(words(&[stack_pointer, 0, 0]));
        description
    }

    /// Start, end, offset in pages, name.
    pub fn mapped(files: &[(u64, u64, u64, &str)]) -> Vec<u8> {
        let mut description = words(&[files.len() as u64, 4096]);
        for &(start, end, offset, _) in files {
            description.extend(words(&[start, end, offset]));
        }
        for (.., name) in files {
            description.extend(name.as_bytes());
            description.push(0);
        }
        description
    }

    fn notes(all: &[(NoteType, Vec<u8>)]) -> CoreNotes {
        let mut notes = CoreNotes::default();
        all.iter().for_each(|(kind, description)| notes.add(EM_X86_64, *kind, description));
        notes
    }

    #[test]
    fn threads_and_files_are_found() {
        let found = notes(&[
            (NT_PRSTATUS, thread(0x7ffe_1000)),
            (NT_PRPSINFO, process(4711, "a-long-name-tha", "/bin/a-long-name-that-is-cut --all")),
            (NT_PRSTATUS, thread(0x7f00_2000)),
            (NT_AUXV, words(&[AT_PAGESZ, 4096, AT_RANDOM, 0x7ffe_2000, 0, 0])),
            (NT_FILE, mapped(&[(0x9000, 0xa000, 3, "/lib/b"), (0x1000, 0x3000, 0, "/bin/a")])),
        ]);
        assert_eq!((found.threads, found.pid), (2, Some(4711)));
        assert_eq!(found.stack_pointers, [0x7ffe_1000, 0x7f00_2000]);
        assert_eq!(found.program, "a-long-name-that-is-cut");
        assert_eq!((found.page_size, found.vdso), (Some(4096), None));
        assert_eq!(found.stack, Some(0x7ffe_2000));
        let file = found.file_at(0x9fff).unwrap();
        assert_eq!((file.offset_at(0x9fff), file.path.to_str()), (0x3fff, Some("/lib/b")));
        assert!([0xfff, 0x3000, 0xa000].iter().all(|&address| found.file_at(address).is_none()));
        assert_eq!(found.beginnings(Path::new("/bin/a")).collect::<Vec<_>>(), [0x1000]);
    }

    #[test]
    fn a_name_that_is_cut_is_not_taken_from_the_command() {
        let long = format!("/{}", "deep/".repeat(16));
        let found = notes(&[(NT_PRPSINFO, process(1, "served", &long[..79]))]);
        assert_eq!(found.program, "served");
        assert_eq!(notes(&[(NT_PRPSINFO, process(1, "served", ""))]).program, "served");
    }

    #[test]
    fn what_is_cut_off_says_nothing() {
        let whole = mapped(&[(0x1000, 0x3000, 0, "/bin/a")]);
        let many = words(&[u64::MAX, 4096]);
        for description in [&whole[..30], &whole[..8], &many, &[][..]] {
            assert!(notes(&[(NT_FILE, description.to_vec())]).file_at(0x1000).is_none());
        }
        let found = notes(&[(NT_PRSTATUS, vec![0; 9]), (NT_PRPSINFO, vec![1; 26])]);
        assert_eq!((found.threads, found.pid), (1, None));
        assert!(found.stack_pointers.is_empty() && found.program.is_empty());
    }
}
