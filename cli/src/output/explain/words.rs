//! Names of what memory is used for, and what they mean.

use crate::explain::{Part, Use};
use crate::output::quantity::with_thousands;

pub fn name(used_for: Use) -> &'static str {
    match used_for {
        Use::Blocks => "blocks in use",
        Use::LargeBlocks => "large blocks",
        Use::Heaps => "own heaps",
        Use::Caches => "threads' caches",
        Use::FreeBlocks => "free blocks",
        Use::FreePages => "free pages",
        Use::Records => "records",
        Use::Brk => "heap by brk",
        Use::Anonymous => "other anonymous",
        Use::Stacks => "stacks",
        Use::Programs => "program",
        Use::Files => "mapped files",
        Use::Shared => "shared memory",
    }
}

pub fn meaning(part: &Part, knows_heap: bool) -> String {
    let counted = |one: &str, many: &str| match part.count {
        Some(1) => format!("1 {one}"),
        Some(count) => format!("{} {many}", with_thousands(count)),
        None => many.to_owned(),
    };
    match part.used_for {
        Use::Blocks if part.count.is_none() => "in use or free: it is hardened".to_owned(),
        Use::Blocks => counted("block up to 256 KiB", "blocks up to 256 KiB"),
        Use::LargeBlocks => counted("block above 256 KiB", "blocks above 256 KiB"),
        Use::Heaps => "first-class, by prim_heap_new".to_owned(),
        Use::Caches => format!("free, at hand for {}", counted("thread", "threads")),
        Use::FreeBlocks => "free, between blocks in use".to_owned(),
        Use::FreePages => "free, go back when unwanted".to_owned(),
        Use::Records => "primalloc's, of all that".to_owned(),
        Use::Brk if knows_heap => "not from primalloc".to_owned(),
        Use::Brk => "malloc's, or whoever calls brk".to_owned(),
        Use::Anonymous if knows_heap => "mapped past primalloc".to_owned(),
        Use::Anonymous => "malloc's, and mapped past it".to_owned(),
        Use::Stacks => counted("thread", "threads"),
        Use::Programs => "code and variables, libraries' too".to_owned(),
        Use::Files => "files that it maps".to_owned(),
        Use::Shared => "with other processes".to_owned(),
    }
}
