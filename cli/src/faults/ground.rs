//! What the kernel knows a mapping as, by the names that it gives.

use procfs::process::{MMPermissions, MMapPath, MemoryMap};

/// What the names of allocators' ranges contain: "[anon:primalloc]", "[anon:glibc: malloc]".
const ALLOCATOR_WORDS: [&str; 2] = ["alloc", "heap"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ground {
    Heap,
    Anonymous,
    Stack,
    File,
    Other,
}

pub fn ground_of_name(name: &str, is_shared: bool) -> Ground {
    const SHARED: [&str; 4] = ["/dev/zero", "/SYSV", "/memfd:", "/dev/shm/"];
    match name {
        "[heap]" => Ground::Heap,
        "//anon" | "" if is_shared => Ground::Other,
        "//anon" | "" => Ground::Anonymous,
        "[stack]" => Ground::Stack,
        _ if SHARED.iter().any(|prefix| name.starts_with(prefix)) => Ground::Other,
        _ if name.starts_with('/') && !name.starts_with("//") => Ground::File,
        _ => Ground::Other,
    }
}

pub fn is_named_by_allocator(map: &MemoryMap) -> bool {
    let MMapPath::Other(name) = &map.pathname else { return false };
    name.starts_with("anon:") && ALLOCATOR_WORDS.iter().any(|word| name.contains(word))
}

pub fn ground_of_path(map: &MemoryMap) -> (Ground, String) {
    let is_shared = map.perms.contains(MMPermissions::SHARED);
    match &map.pathname {
        MMapPath::Heap => (Ground::Heap, String::new()),
        MMapPath::Stack | MMapPath::TStack(_) => (Ground::Stack, String::new()),
        MMapPath::Anonymous => (ground_of_name("", is_shared), String::new()),
        MMapPath::Path(path) => {
            let name = path.to_string_lossy().into_owned();
            (ground_of_name(&name, is_shared), name)
        }
        _ if is_named_by_allocator(map) => (Ground::Heap, String::new()),
        MMapPath::Other(name) if name.starts_with("anon:") => (Ground::Anonymous, String::new()),
        _ => (Ground::Other, String::new()),
    }
}
