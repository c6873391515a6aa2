//! primalloc as the global allocator of a Rust program, and its heaps, options, statistics, tags and
//! hooks.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: primalloc::Primalloc = primalloc::Primalloc;
//!
//! fn main() {
//!     let text = String::from("from primalloc");
//!     assert!(unsafe { primalloc::usable_size(text.as_ptr()) } >= text.len());
//! }
//! ```
//!
//! The crate compiles the C source of the checkout that it lies in; a C compiler and binutils are
//! enough. `cargo add --path .../bindings/rust` adds it to a program.
//!
//! C libraries in the program keep libc's malloc, unless the feature `override` replaces that as well:
//!
//! ```toml
//! primalloc = { path = ".../bindings/rust", features = ["override"] }
//! ```
//!
//! Beside the global allocator, or without it, there are
//!
//! - [`Heap`]: blocks that are counted, limited and ended together;
//! - [`options`]: each option of the library with its type. They are environment variables, too, as
//!   for every program on primalloc;
//! - [`stats`]: where the memory is;
//! - [`tag_scope`]: whose memory it is, told by parts of the program;
//! - [`hooks`]: the program sees each call, or serves it itself.
//!
//! With the feature `allocator-api2`, `&Heap` and [`Primalloc`] are allocators for the collections of
//! the crate of that name, and of others that take it:
//!
//! ```
//! # #[cfg(feature = "allocator-api2")] {
//! use allocator_api2::vec::Vec;
//!
//! let heap = primalloc::Heap::new().unwrap();
//! let mut numbers = Vec::new_in(&heap);
//! numbers.extend(0..1000);
//! assert!(heap.contains(&numbers[0]));
//! # }
//! ```
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::CStr;

use ffi::{
    prim_aligned_alloc, prim_calloc, prim_calloc_aligned_at, prim_free, prim_malloc,
    prim_malloc_trim, prim_malloc_usable_size, prim_realloc, prim_version,
};

pub use heap::{Heap, HeapCounts, HeapId, LendError};
pub use heap_box::HeapBox;
pub use tags::{TagScope, current_tag, tag_scope};

#[cfg(feature = "allocator-api2")]
mod allocator;
mod ffi;
mod heap;
mod heap_box;
pub mod hooks;
pub mod options;
pub mod stats;
mod tags;

/// There is no memory, or no room in the heap's limit or in the memory that it was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl core::fmt::Display for AllocError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("out of memory")
    }
}

impl core::error::Error for AllocError {}

/// The allocator: a type without state, for `#[global_allocator]` and for direct calls.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
///
/// let layout = Layout::from_size_align(1000, 64).unwrap();
/// unsafe {
///     let block = primalloc::Primalloc.alloc_zeroed(layout);
///     assert_eq!((block as usize % 64, *block), (0, 0));
///     primalloc::Primalloc.dealloc(block, layout);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Primalloc;

/// Whether what malloc gives for a size is aligned so without being asked: blocks of 8 bytes at most
/// to 8, all others to 16.
const fn is_aligned_by_malloc(size: usize, alignment: usize) -> bool {
    alignment <= 8 || (alignment <= 16 && size > 8)
}

unsafe impl GlobalAlloc for Primalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            if is_aligned_by_malloc(layout.size(), layout.align()) {
                prim_malloc(layout.size()).cast()
            } else {
                prim_aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    /// Fresh pages of the system are not written again.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe {
            if is_aligned_by_malloc(layout.size(), layout.align()) {
                prim_calloc(1, layout.size()).cast()
            } else {
                prim_calloc_aligned_at(1, layout.size(), layout.align(), 0).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        unsafe { prim_free(block.cast()) }
    }

    /// Large blocks move by their pages, not by their bytes, unless an alignment above 16 is asked.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        unsafe {
            let new = Layout::from_size_align_unchecked(new_size, layout.align());
            self.resize(block, layout, new)
        }
    }
}

impl Primalloc {
    /// The alignments may differ; a size of 0 frees.
    #[inline]
    unsafe fn resize(&self, block: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        unsafe {
            if is_aligned_by_malloc(new.size(), new.align()) {
                return prim_realloc(block.cast(), new.size()).cast();
            }
            resize_aligned(block, old, new, true, || self.alloc(new))
        }
    }
}

/// For alignments that realloc does not keep: the block where it is, if it leaves less than half of
/// itself unused, else a copy in another one; null if there is none. A block that is large enough
/// stays then, for nobody expects that shrinking fails. `may_stay`: not if it has to leave its heap.
#[cold]
unsafe fn resize_aligned(
    block: *mut u8,
    old: Layout,
    new: Layout,
    may_stay: bool,
    allocate: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    unsafe {
        let usable = prim_malloc_usable_size(block.cast());
        let fits = may_stay && block as usize % new.align() == 0 && new.size() <= usable;
        if fits && new.size() >= usable / 2 {
            return block;
        }
        let target = allocate();
        if target.is_null() {
            return if fits { block } else { target };
        }
        target.copy_from_nonoverlapping(block, old.size().min(new.size()));
        prim_free(block.cast());
        target
    }
}

/// The bytes that may be used from the beginning of a block on: at least those asked for. A block of
/// glibc's own malloc, in a dynamic program, has what glibc says, as far as it is recognised; any
/// other, and null, have 0.
///
/// # Safety
/// `block` is the beginning of a live block, of any allocator, or null.
pub unsafe fn usable_size(block: *const u8) -> usize {
    unsafe { prim_malloc_usable_size(block.cast_mut().cast()) }
}

/// Gives free memory but `pad` bytes back to the system; whether any went.
pub fn trim(pad: usize) -> bool {
    unsafe { prim_malloc_trim(pad) != 0 }
}

/// The version of the library in use.
///
/// ```
/// assert_eq!(primalloc::version(), env!("CARGO_PKG_VERSION"));
/// ```
pub fn version() -> &'static str {
    unsafe { CStr::from_ptr(prim_version()) }.to_str().unwrap_or("")
}
