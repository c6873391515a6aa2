//! What an ELF file says of the machine, the loader and the libraries that it needs.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use object::elf;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, FileKind};

use crate::handshake;

/// Machine and class: what must agree between a program and a library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    number: elf::Machine,
    is_64_bit: bool,
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match (self.number, self.is_64_bit) {
            (elf::EM_X86_64, true) => "64-bit x86",
            (elf::EM_X86_64, false) => "x32 (64-bit x86 with 32-bit pointers)",
            (elf::EM_386, _) => "32-bit x86",
            (elf::EM_AARCH64, _) => "64-bit ARM",
            (elf::EM_ARM, _) => "32-bit ARM",
            (elf::EM_RISCV, _) => "RISC-V",
            (elf::EM_PPC64, _) => "64-bit PowerPC",
            (elf::EM_S390, _) => "s390",
            (machine, _) => return write!(formatter, "another machine (ELF {})", machine.0),
        })
    }
}

#[derive(Debug)]
pub struct Image {
    pub machine: Machine,
    /// The dynamic loader that the file asks for; a static program has none.
    pub loader: Option<PathBuf>,
    /// The name a library is known by; only a library has one.
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub is_go: bool,
    /// What it allocates from, whatever is preloaded.
    pub malloc: Option<LinkedMalloc>,
    /// It says where primalloc's records are: the library does, and who has it linked in.
    pub has_note: bool,
    /// It tells primalloc's version, as every flavour of the library does.
    pub has_version: bool,
}

/// Whose malloc is linked into a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkedMalloc {
    /// That of an archive, the Rust crate or the single file, under malloc's names or others.
    Primalloc,
    /// One that libraries find in it.
    Other,
}

impl Image {
    pub fn read(path: &Path) -> Result<Image> {
        let file = File::open(path)?;
        // A cache reads the tables only: programs of a gigabyte are not rare.
        let data = ReadCache::new(file);
        let described = match FileKind::parse(&data) {
            Ok(FileKind::Elf64) => describe::<elf::FileHeader64<Endianness>, _>(&data),
            Ok(FileKind::Elf32) => describe::<elf::FileHeader32<Endianness>, _>(&data),
            _ => bail!("not an ELF file"),
        };
        described.map_err(|error| anyhow!("a damaged ELF file: {error}"))
    }

    /// Whether no loader brings a library in: but the loader itself, started by its name, does.
    pub fn is_static(&self) -> bool {
        self.loader.is_none() && self.soname.is_none()
    }
}

fn describe<'data, Header, Data>(data: Data) -> object::Result<Image>
where
    Header: FileHeader<Endian = Endianness>,
    Data: ReadRef<'data>,
{
    let file = ElfFile::<Header, Data>::parse(data)?;
    let header = file.elf_header();
    let endian = file.endian();
    let mut image = Image {
        machine: Machine { number: header.e_machine(endian), is_64_bit: header.is_class_64() },
        loader: None,
        soname: None,
        needed: Vec::new(),
        is_go: false,
        malloc: None,
        has_note: false,
        has_version: false,
    };
    for segment in file.elf_program_headers() {
        if let Some(loader) = segment.interpreter(endian, data)? {
            image.loader = Some(PathBuf::from(text(loader)));
        }
    }
    let dynamic = file.elf_dynamic_table()?;
    for entry in &dynamic {
        match entry.tag {
            elf::DT_SONAME => image.soname = Some(text(dynamic.string(entry)?)),
            elf::DT_NEEDED => image.needed.push(text(dynamic.string(entry)?)),
            _ => {}
        }
    }
    let sections = file.elf_section_table();
    image.is_go = sections.iter().any(|section| {
        matches!(sections.section_name(endian, section), Ok(b".go.buildinfo" | b".gopclntab"))
    });
    image.has_note = sections.section_by_name(endian, b".note.primalloc").is_some();
    let symbols = file.elf_dynamic_symbol_table();
    let defines = |wanted: &[u8]| {
        symbols.iter().any(|symbol| {
            let is_wanted = symbols.symbol_name(endian, symbol).is_ok_and(|name| name == wanted);
            is_wanted && !symbol.is_undefined(endian)
        })
    };
    image.has_version = defines(b"prim_version");
    let mark = handshake::VARIABLE.as_bytes();
    let is_ours = || {
        sections.section_by_name(endian, b".rodata").is_some_and(|(_, section)| {
            let texts = section.data(endian, data).unwrap_or_default();
            texts.windows(mark.len()).any(|window| window == mark)
        })
    };
    image.malloc = match defines(b"malloc") {
        true if is_ours() => Some(LinkedMalloc::Primalloc),
        true => Some(LinkedMalloc::Other),
        // A static program shows no names to libraries, and those of the crate are hidden.
        false => image.has_note.then_some(LinkedMalloc::Primalloc),
    };
    Ok(image)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
