//! Programs and libraries as they lie in memory, by the program headers in the first page of each.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{ELFMAG, FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64, ProgramType};
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use super::mappings::{kernels, path_of};
use super::memory::Memory;

/// Program headers of one file: none has as many.
const HEADERS_MAX: usize = 1000;

pub struct Image {
    endian: Endianness,
    headers: Vec<ProgramHeader64<Endianness>>,
    bias: u64,
}

impl Image {
    /// The ELF file whose first page is mapped at `start`, if it is one.
    pub fn at(memory: &dyn Memory, start: u64) -> io::Result<Option<Image>> {
        let bytes = memory.read_vec(start, size_of::<FileHeader64<Endianness>>())?;
        if !bytes.starts_with(&ELFMAG) {
            return Ok(None);
        }
        let Ok((header, _)) = pod::from_bytes::<FileHeader64<Endianness>>(&bytes) else {
            return Ok(None);
        };
        let Ok(endian) = header.endian() else { return Ok(None) };
        let count = usize::from(header.e_phnum(endian)).min(HEADERS_MAX);
        let table = memory.read_vec(
            start.wrapping_add(header.e_phoff(endian)),
            count * size_of::<ProgramHeader64<Endianness>>(),
        )?;
        let Ok((headers, _)) = pod::slice_from_bytes::<ProgramHeader64<Endianness>>(&table, count)
        else {
            return Ok(None);
        };
        let first = headers.iter().find(|segment| segment.p_type(endian) == PT_LOAD);
        let bias = start.wrapping_sub(first.map_or(0, |segment| segment.p_vaddr(endian)));
        Ok(Some(Image { endian, headers: headers.to_vec(), bias }))
    }

    /// What is added to the addresses that its file has.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Address and size of each segment of this type.
    pub fn segments(&self, kind: ProgramType) -> impl Iterator<Item = (u64, u64)> {
        let segments = self.headers.iter().filter(move |header| header.p_type(self.endian) == kind);
        segments.map(|segment| {
            let address = self.bias.wrapping_add(segment.p_vaddr(self.endian));
            (address, segment.p_memsz(self.endian))
        })
    }

    pub fn notes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.segments(PT_NOTE)
    }

    /// Where its variables end, those among them that have no room in the file.
    pub fn end(&self) -> Option<u64> {
        self.segments(PT_LOAD).filter_map(|(address, size)| address.checked_add(size)).max()
    }
}

/// The programs and libraries among what is mapped.
pub struct Images {
    /// Files that code is mapped of.
    files: HashSet<PathBuf>,
    /// Where the loader has begun to map one, and where its variables end, if that can be read.
    ends: BTreeMap<u64, Option<u64>>,
}

impl Images {
    pub fn find(maps: &[MemoryMap], memory: Option<&dyn Memory>) -> Images {
        let is_code = |map: &&MemoryMap| map.perms.contains(MMPermissions::EXECUTE);
        let files: HashSet<PathBuf> =
            maps.iter().filter(is_code).filter_map(path_of).cloned().collect();
        let end = |start: u64| {
            let memory = memory?;
            let end = Image::at(memory, start).ok()??.end()?;
            end.checked_next_multiple_of(memory.page_size())
        };
        let begins = |&(index, map): &(usize, &MemoryMap)| {
            let is_beginning = map.offset == 0 && path_of(map).is_some_and(|p| files.contains(p));
            is_beginning && is_loaded(&maps[index..])
        };
        let beginnings = maps.iter().enumerate().filter(begins).map(|(_, map)| map.address.0);
        Images { ends: beginnings.map(|start| (start, end(start))).collect(), files }
    }

    pub fn are_of(&self, file: &Path) -> bool {
        self.files.contains(file)
    }

    pub fn begin_at(&self, address: u64) -> bool {
        self.ends.contains_key(&address)
    }

    /// Where the one ends that begins at the address or before.
    pub fn end_for(&self, address: u64) -> Option<u64> {
        self.ends.range(..=address).next_back().and_then(|(_, end)| *end)
    }

    /// The kernel joins variables and what is mapped right above them: that is cut in two.
    pub fn cut(&self, maps: &mut Vec<MemoryMap>, memory: &dyn Memory) {
        for index in (0..maps.len()).rev() {
            let (start, end) = maps[index].address;
            let is_nameless = matches!(maps[index].pathname, MMapPath::Anonymous | MMapPath::Heap);
            let border = self.end_for(start).filter(|border| (start + 1..end).contains(border));
            if let Some(border) = border.filter(|_| is_nameless) {
                let above = cut(&mut maps[index], border, memory);
                maps.insert(index + 1, above);
            }
        }
    }
}

/// What of the mapping lies above the border. It keeps what nobody knows where it lies.
fn cut(map: &mut MemoryMap, border: u64, memory: &dyn Memory) -> MemoryMap {
    let mut above = map.clone();
    let resident = kernels(map, "Rss");
    let is_shared = kernels(map, "Shared_Clean") + kernels(map, "Shared_Dirty") > 0;
    let below = memory.resident_bytes(map.address.0, border, is_shared).unwrap_or(0).min(resident);
    map.extension.map.retain(|name, _| ["Shared_Clean", "Shared_Dirty"].contains(&name.as_str()));
    map.extension.map.insert("Rss".to_owned(), below);
    above.extension.map.insert("Rss".to_owned(), resident - below);
    (map.address.1, above.address.0) = (border, border);
    above
}

/// Whether the first one is the beginning of a file with code behind it: one that is mapped to be
/// read, as for the names in backtraces, has none.
pub fn is_loaded(maps: &[MemoryMap]) -> bool {
    let Some((first, behind)) = maps.split_first() else { return false };
    let behind = behind.iter().filter(|map| map.pathname == first.pathname);
    let mut whole = std::iter::once(first).chain(behind.take_while(|map| map.offset != 0));
    whole.any(|map| map.perms.contains(MMPermissions::EXECUTE))
}
