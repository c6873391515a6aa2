//! What primalloc.h declares, as far as the crate needs it.

use core::ffi::{c_char, c_int, c_void};

use crate::heap::HeapCounts;
use crate::hooks::HookCall;
use crate::stats::{ClassStats, Stats};

#[repr(C)]
pub struct Heap {
    _opaque: [u8; 0],
}

pub type BlockVisitor = unsafe extern "C" fn(*const Heap, *mut c_void, usize, *mut c_void) -> bool;
pub type Output = unsafe extern "C" fn(*const c_char, usize, *mut c_void);

#[repr(C)]
pub struct Hooks {
    pub on_allocate: unsafe extern "C" fn(*const HookCall, *mut c_void) -> *mut c_void,
    pub on_reallocate:
        unsafe extern "C" fn(*mut c_void, *const HookCall, *mut c_void) -> *mut c_void,
    pub on_release: unsafe extern "C" fn(*mut c_void, *const HookCall, *mut c_void),
    pub on_usable_size: unsafe extern "C" fn(*const c_void, *mut c_void) -> usize,
    pub context: *mut c_void,
}

pub const EPERM: c_int = 1;
pub const ENOENT: c_int = 2;
pub const ENOMEM: c_int = 12;
pub const EINVAL: c_int = 22;

/// What the last call that failed in this thread said.
pub fn errno() -> c_int {
    unsafe { *__errno_location() }
}

pub fn set_errno(value: c_int) {
    unsafe { *__errno_location() = value }
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;

    pub fn prim_malloc(size: usize) -> *mut c_void;
    pub fn prim_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn prim_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn prim_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn prim_calloc_aligned_at(
        count: usize,
        size: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;
    pub fn prim_free(block: *mut c_void);
    pub fn prim_malloc_usable_size(block: *mut c_void) -> usize;
    pub fn prim_malloc_trim(pad: usize) -> c_int;
    pub fn prim_version() -> *const c_char;

    pub fn prim_heap_new() -> *mut Heap;
    pub fn prim_heap_new_in(memory: *mut c_void, size: usize) -> *mut Heap;
    pub fn prim_heap_delete(heap: *mut Heap);
    pub fn prim_heap_destroy(heap: *mut Heap);
    pub fn prim_heap_set_limit(heap: *mut Heap, bytes: usize);
    pub fn prim_heap_malloc(heap: *mut Heap, size: usize) -> *mut c_void;
    pub fn prim_heap_calloc(heap: *mut Heap, count: usize, size: usize) -> *mut c_void;
    pub fn prim_heap_realloc(heap: *mut Heap, block: *mut c_void, size: usize) -> *mut c_void;
    pub fn prim_heap_aligned_alloc(heap: *mut Heap, alignment: usize, size: usize) -> *mut c_void;
    pub fn prim_heap_of(block: *const c_void) -> *mut Heap;
    pub fn prim_heap_counts(heap: *mut Heap, result: *mut HeapCounts);
    pub fn prim_heap_visit_blocks(
        heap: *mut Heap,
        visitor: BlockVisitor,
        argument: *mut c_void,
    ) -> bool;

    pub fn prim_option_get(name: *const c_char, value: *mut u64) -> c_int;
    pub fn prim_option_set(name: *const c_char, value: u64) -> c_int;
    pub fn prim_option_get_text(name: *const c_char, text: *mut c_char, size: usize) -> c_int;
    pub fn prim_option_set_text(name: *const c_char, text: *const c_char) -> c_int;

    pub fn prim_stats_get(stats: *mut Stats, size: usize) -> usize;
    pub fn prim_stats_classes(classes: *mut ClassStats, count: usize, size: usize) -> usize;
    pub fn prim_stats_write(form: c_int, output: Output, context: *mut c_void) -> c_int;

    pub fn prim_hooks_set(hooks: *const Hooks) -> *const Hooks;

    pub fn prim_tag_push(name: *const c_char) -> bool;
    pub fn prim_tag_pop();
    pub fn prim_tag_current() -> *const c_char;
}
