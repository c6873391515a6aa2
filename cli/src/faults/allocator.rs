//! Which allocator a process runs on: the one whose malloc it calls, where that is known, else by
//! what it has mapped.

use std::collections::HashMap;
use std::time::Duration;

use procfs::process::{MMapPath, MemoryMap};

use crate::allocators;
use crate::explain::{Server, Setting, Value, server};
use crate::processes::{ANONYMOUS_NAME, is_library};

/// The default, which settings leave out.
const PURGE_DELAY: Duration = Duration::from_millis(500);

/// The one whose malloc a process calls that has primalloc loaded, if that can be told. Without a
/// name it is the program's own.
pub fn called_allocator(pid: i32, maps: &[MemoryMap]) -> Option<Option<&'static str>> {
    let is_ours = |map: &MemoryMap| match &map.pathname {
        MMapPath::Path(path) => is_library(path),
        path => is_named_by_us(path),
    };
    // Of others nothing is read: what is read for the first time is mapped, and faults no more.
    if !maps.iter().any(is_ours) {
        return None;
    }
    Some(match server(pid, maps)? {
        Server::Primalloc => Some(allocators::PRIMALLOC),
        Server::Other(file) if allocators::is_glibc(&file) => Some(allocators::GLIBC),
        Server::Other(file) => allocators::name_of_library(file),
    })
}

/// By the libraries that are mapped, the first of which lies highest: what is preloaded is before
/// what the program is linked with. primalloc, linked in, is known by the names of its memory.
/// Where there is no other, malloc is the C library's.
pub fn mapped_allocator(maps: &[MemoryMap]) -> Option<&'static str> {
    let library = maps.iter().rev().find_map(|map| match &map.pathname {
        MMapPath::Path(path) => allocators::name_of_library(path),
        _ => None,
    });
    let has = |is_it: fn(&MMapPath) -> bool| maps.iter().any(|map| is_it(&map.pathname));
    let is_glibc = |path: &_| matches!(path, MMapPath::Path(path) if allocators::is_glibc(path));
    library
        .or_else(|| has(is_named_by_us).then_some(allocators::PRIMALLOC))
        .or_else(|| has(is_glibc).then_some(allocators::GLIBC))
}

fn is_named_by_us(path: &MMapPath) -> bool {
    matches!(path, MMapPath::Other(name) if name.starts_with(ANONYMOUS_NAME))
}

/// For how long primalloc keeps free memory that has these settings; without end, with `purge=0`.
pub fn keeps_for(settings: &[Setting]) -> Duration {
    let number = |name: &str| {
        settings.iter().find(|setting| setting.name == name).and_then(|found| match found.value {
            Value::Number(number) => Some(number),
            _ => None,
        })
    };
    match number("purge") {
        Some(0) => Duration::MAX,
        _ => number("purge_delay").map_or(PURGE_DELAY, Duration::from_millis),
    }
}

/// That of most faults. Where none was seen to fault, or several as often, it is that of the
/// process itself, whatever those that it started run on.
pub fn main_allocator(
    faults: &HashMap<&'static str, u64>,
    own: Option<&'static str>,
) -> Option<&'static str> {
    let most = faults.iter().max_by_key(|(name, count)| (**count, Some(**name) == own, **name));
    most.map(|(name, _)| *name).or(own)
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::super::process_tree::maps_of;
    use super::*;

    #[test]
    fn the_process_itself_decides_between_equals() {
        let faults = |counts: &[(&'static str, u64)]| counts.iter().copied().collect();
        let idle = HashMap::new();
        assert_eq!(main_allocator(&idle, Some("glibc")), Some("glibc"));
        assert_eq!(main_allocator(&idle, None), None);
        let equal = faults(&[("glibc", 5), ("primalloc", 5)]);
        assert_eq!(main_allocator(&equal, Some("glibc")), Some("glibc"));
        let unequal = faults(&[("glibc", 5), ("primalloc", 6)]);
        assert_eq!(main_allocator(&unequal, Some("glibc")), Some("primalloc"));
    }

    #[test]
    fn settings_tell_for_how_long_memory_is_kept() {
        let setting = |name: &str, number: u64| Setting {
            name: name.to_owned(),
            value: Value::Number(number),
            default: Value::Nothing,
            unit: None,
            source: None,
        };
        let delay = setting("purge_delay", 10_000);
        assert_eq!(keeps_for(&[]), PURGE_DELAY);
        assert_eq!(keeps_for(std::slice::from_ref(&delay)), Duration::from_secs(10));
        assert_eq!(keeps_for(&[delay, setting("purge", 0)]), Duration::MAX);
    }

    #[test]
    fn malloc_is_the_c_librarys_where_no_other_is_mapped() {
        let own = maps_of(Pid::this().as_raw());
        assert_eq!(mapped_allocator(&own), Some(allocators::GLIBC));
        assert_eq!(mapped_allocator(&[]), None);
    }

    #[test]
    fn of_two_allocators_the_one_that_was_mapped_first_serves() {
        let mut maps = maps_of(Pid::this().as_raw());
        maps.truncate(2);
        maps[0].pathname = MMapPath::Path("/usr/lib/libjemalloc.so.2".into());
        maps[1].pathname = MMapPath::Path("/usr/lib/libprimalloc.so.0".into());
        assert_eq!(mapped_allocator(&maps), Some(allocators::PRIMALLOC));
        maps.reverse();
        assert_eq!(mapped_allocator(&maps), Some("jemalloc"));
    }
}
