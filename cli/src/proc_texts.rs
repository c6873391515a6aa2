//! What /proc says with names in it, whose bytes need not be UTF-8: a file may be called anything,
//! and the kernel cuts the names of programs and threads after 15 bytes.

use std::io::Read;

use procfs::process::{MemoryMaps, Process, Status};
use procfs::{FromBufRead, ProcResult};

/// How the kernel names shared memory in mappings, before the eight digits of its key.
const SHARED_MEMORY: &str = " /SYSV";
const NOT_SHARED_MEMORY: &str = " /./SYSV";
const KEY_DIGITS: usize = 8;

pub fn status(process: &Process) -> ProcResult<Status> {
    Status::from_buf_read(text(process, "status")?.as_bytes())
}

pub fn maps(process: &Process) -> ProcResult<MemoryMaps> {
    MemoryMaps::from_buf_read(readable(&text(process, "maps")?).as_bytes())
}

pub fn smaps(process: &Process) -> ProcResult<MemoryMaps> {
    MemoryMaps::from_buf_read(readable(&text(process, "smaps")?).as_bytes())
}

/// What the reader of mappings takes for the key of shared memory must be one, or it panics: any
/// other file is written by another path, which leads to it as well.
fn readable(maps: &str) -> String {
    let mut parts = maps.split(SHARED_MEMORY);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let key = part.get(..KEY_DIGITS).unwrap_or_default();
        let is_key = key.len() == KEY_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        text += if is_key { SHARED_MEMORY } else { NOT_SHARED_MEMORY };
        text += part;
    }
    text
}

/// The words of the command line.
pub fn cmdline(process: &Process) -> ProcResult<Vec<String>> {
    let text = text(process, "cmdline")?;
    Ok(text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

fn text(process: &Process, name: &str) -> ProcResult<String> {
    let mut bytes = Vec::new();
    process.open_relative(name)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use procfs::process::MMapPath;

    use super::*;

    #[test]
    fn a_name_that_only_begins_as_that_of_shared_memory_is_a_path() {
        for (name, path) in [
            ("/SYSV00001f40 (deleted)", MMapPath::Vsys(0x1f40)),
            ("/SYSV", MMapPath::Path("/./SYSV".into())),
            ("/SYSV1", MMapPath::Path("/./SYSV1".into())),
            ("/SYSV+0001f40", MMapPath::Path("/./SYSV+0001f40".into())),
            ("/SYSV0001f4\u{fffd}", MMapPath::Path("/./SYSV0001f4\u{fffd}".into())),
            ("/lib/SYSV1", MMapPath::Path("/lib/SYSV1".into())),
        ] {
            let text = format!("7f0000000000-7f0000001000 rw-s 00000000 00:01 4   {name}\n");
            let maps = MemoryMaps::from_buf_read(readable(&text).as_bytes()).unwrap();
            assert_eq!(maps.iter().next().unwrap().pathname, path, "{name}");
        }
    }
}
