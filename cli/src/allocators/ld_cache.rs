//! The loader's list of libraries, /etc/ld.so.cache, in glibc's format 1.1.
//!
//! A header of 48 bytes (magic, number of entries, length of the strings, ...), then entries of
//! 24 bytes (flags, offset of the name, offset of the path, ...); offsets count from the header.
//! In caches of old systems an older table comes first, so the header is searched for.

use std::fs;
use std::path::PathBuf;

const PATH: &str = "/etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;

/// The flags' high byte says for which machine a library is.
#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0x0300;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0x0a00;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("primalloc is for x86-64 and aarch64");

#[derive(Default)]
pub struct LdCache {
    libraries: Vec<(String, PathBuf)>,
}

impl LdCache {
    pub fn find(&self, file_name: &str) -> Option<PathBuf> {
        self.libraries
            .iter()
            .find(|(name, path)| name == file_name && path.is_file())
            .map(|(_, path)| path.clone())
    }
}

/// The cache of this system; empty where there is none.
pub fn read() -> LdCache {
    let libraries = fs::read(PATH).ok().and_then(|data| parse(&data)).unwrap_or_default();
    LdCache { libraries }
}

fn parse(data: &[u8]) -> Option<Vec<(String, PathBuf)>> {
    let start = data.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let data = &data[start..];
    let count = number_at(data, MAGIC.len())? as usize;
    let entries = data.get(HEADER_BYTES..HEADER_BYTES.checked_add(count * ENTRY_BYTES)?)?;
    let libraries = entries.chunks_exact(ENTRY_BYTES).filter_map(|entry| {
        let is_ours = number_at(entry, 0)? & 0xff00 == MACHINE;
        let name = text_at(data, number_at(entry, 4)? as usize)?;
        let path = text_at(data, number_at(entry, 8)? as usize)?;
        is_ours.then(|| (name, PathBuf::from(path)))
    });
    Some(libraries.collect())
}

fn number_at(data: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(offset..offset + 4)?.try_into().ok()?))
}

fn text_at(data: &[u8], offset: usize) -> Option<String> {
    let text = data.get(offset..)?.split(|&byte| byte == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(flags: u32) -> Vec<u8> {
        let strings = HEADER_BYTES + ENTRY_BYTES;
        let mut data = b"older table".to_vec();
        data.extend(MAGIC);
        data.extend(1u32.to_ne_bytes());
        data.extend([0; HEADER_BYTES - 24]);
        for number in [flags, strings as u32, strings as u32 + 7, 0, 0, 0] {
            data.extend(number.to_ne_bytes());
        }
        data.extend(b"liba.so\0"[1..].iter());
        data.extend(b"/lib/liba.so\0");
        data
    }

    #[test]
    fn entries_of_this_machine_are_read() {
        let libraries = parse(&cache(MACHINE | 3)).unwrap();
        assert_eq!(libraries, [("iba.so".to_owned(), PathBuf::from("/lib/liba.so"))]);
        assert!(parse(&cache(3)).unwrap().is_empty());
    }

    #[test]
    fn damaged_caches_are_no_danger() {
        let whole = cache(MACHINE | 3);
        for length in 0..whole.len() {
            let _ = parse(&whole[..length]);
        }
        assert!(parse(b"something else").is_none());
    }
}
