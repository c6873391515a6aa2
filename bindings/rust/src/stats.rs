//! Statistics: where the memory is. They cost allocations nothing, stop no thread and add up.
//!
//! ```
//! use primalloc::stats::{ClassStats, Form, Stats, report};
//!
//! let stats = Stats::now();
//! let parts = stats.live_bytes + stats.large_bytes + stats.heap_bytes + stats.heap_free_bytes
//!     + stats.cached_bytes + stats.partial_bytes + stats.uncarved_bytes + stats.asleep_bytes
//!     + stats.dirty_bytes + stats.clean_bytes;
//! assert_eq!(parts, stats.mapped_bytes);
//! assert!(ClassStats::all().len() > 80);
//! assert!(report(Form::Json).contains("\"primalloc-stats-2\""));
//! ```
//!
//! `docs/statistics.md` tells of each figure what it means.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_void};

use crate::ffi;

include!(concat!(env!("OUT_DIR"), "/stats.rs"));

impl Stats {
    /// All of the process, now.
    pub fn now() -> Stats {
        let mut stats = Stats::default();
        unsafe { ffi::prim_stats_get(&mut stats, size_of::<Stats>()) };
        stats
    }
}

impl ClassStats {
    /// Each size class; the last is that of the large blocks, with `block_bytes` 0. Empty without
    /// memory.
    pub fn all() -> Vec<ClassStats> {
        let size = size_of::<ClassStats>();
        let count = unsafe { ffi::prim_stats_classes(core::ptr::null_mut(), 0, size) };
        let mut classes = Vec::new();
        if classes.try_reserve_exact(count).is_err() {
            return classes;
        }
        classes.resize(count, ClassStats::default());
        let count = unsafe { ffi::prim_stats_classes(classes.as_mut_ptr(), count, size) };
        classes.truncate(count);
        classes
    }
}

/// How statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// `primalloc-stats-2`, described in `docs/statistics.md`.
    Json,
    /// As glibc's `malloc_info` writes it.
    Xml,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// The statistics as text; empty without memory.
pub fn report(form: Form) -> String {
    unsafe extern "C" fn append(text: *const c_char, length: usize, written: *mut c_void) {
        let piece = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) };
        let written = unsafe { &mut *written.cast::<Option<Vec<u8>>>() };
        let has_room = written.as_mut().is_some_and(|bytes| bytes.try_reserve(length).is_ok());
        match written {
            Some(bytes) if has_room => bytes.extend_from_slice(piece),
            _ => *written = None, // a report that lacks a piece is none
        }
    }
    let mut written = Some(Vec::<u8>::new());
    unsafe { ffi::prim_stats_write(form as i32, append, (&raw mut written).cast()) };
    written.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
