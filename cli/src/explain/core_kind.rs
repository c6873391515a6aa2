//! Whether a file is a core file that can be read here; if not, what it is, and what would help.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use object::elf::{ET_CORE, FileHeader64};
use object::read::ReadCache;
use object::read::elf::FileHeader;
use object::{Endianness, FileKind};

use crate::output::shell_word;

/// What packed files begin with, and which program made them.
const PACKERS: [(&[u8], &str); 5] = [
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
];

pub fn open_file(path: &Path) -> Result<File> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            anyhow!("there is no such file; a process is named by its number: pidof tells it")
        }
        _ => anyhow!(error).context("cannot be read"),
    })?;
    if metadata.is_dir() {
        bail!("is a directory, not a core file");
    }
    if !metadata.is_file() {
        bail!(
            "is no plain file, as a core must be: what is needed of it lies here and there; write \
             it to a file, and name that"
        );
    }
    File::open(path).context("cannot be read")
}

/// Says what a file is that is no core which can be read here.
pub fn check_kind(file: &File, path: &Path) -> Result<()> {
    let mut beginning = [0; 8];
    let size = file.read_at(&mut beginning, 0).context("cannot be read")?;
    if size == 0 {
        bail!("is empty: there may have been no room for a core, or a limit, as by ulimit -c");
    }
    let packer = PACKERS.iter().find(|(magic, _)| beginning[..size].starts_with(magic));
    if let Some((_, packer)) = packer {
        let name = shell_word(path.as_os_str());
        let is_systemds = path.parent().is_some_and(|parent| parent.ends_with("systemd/coredump"));
        let other = if is_systemds { ", or: coredumpctl dump -o core" } else { "" };
        bail!("is packed; unpack it first: {packer} -dc {name} > core{other}");
    }
    let data = ReadCache::new(file);
    match FileKind::parse(&data) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => bail!("is a 32-bit ELF file; a core of a 64-bit process is needed"),
        _ => bail!("is no core file: it is not in ELF format"),
    }
    let header = FileHeader64::<Endianness>::parse(&data).map_err(is_damaged)?;
    let endian = header.endian().map_err(is_damaged)?;
    if endian != Endianness::default() {
        bail!("is of a machine with another order of bytes");
    }
    if header.e_type(endian) != ET_CORE {
        bail!("is a program or a library, not the core file of a process");
    }
    Ok(())
}

pub fn is_damaged(error: object::Error) -> anyhow::Error {
    anyhow!("is cut off or damaged: {error}")
}
