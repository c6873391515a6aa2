//! Hooks: the program sees the calls of malloc's family, or serves them itself.
//!
//! While none are set they cost nothing; while some are, each call takes the slow path. With the
//! feature `override` the calls of C libraries are among them.
//!
//! ```
//! use primalloc::hooks::{self, HookCall, Hooks};
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! #[global_allocator]
//! static ALLOCATOR: primalloc::Primalloc = primalloc::Primalloc;
//!
//! static LARGE: AtomicUsize = AtomicUsize::new(0);
//! struct CountLarge;
//!
//! unsafe impl Hooks for CountLarge {
//!     unsafe fn on_allocate(&self, call: &HookCall) -> *mut u8 {
//!         if call.size() >= 1 << 20 {
//!             LARGE.fetch_add(1, Ordering::Relaxed);
//!         }
//!         unsafe { hooks::allocate(call) }
//!     }
//! }
//!
//! let scope = hooks::scope(&CountLarge).unwrap();
//! let _held = vec![1u8; 1 << 20];
//! drop(scope);
//! assert_eq!(LARGE.load(Ordering::Relaxed), 1);
//! ```

use core::ffi::c_void;
use core::ptr;

use crate::{AllocError, ffi};

/// What the program asks for, or says of the block that it frees.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HookCall {
    size: usize,
    alignment: usize,
    stated_size: usize,
    caller: *const c_void,
}

impl HookCall {
    /// Of the new block; 0 where one is freed.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Asked for or stated, where it is.
    pub fn alignment(&self) -> Option<usize> {
        (self.alignment != 0).then_some(self.alignment)
    }

    /// By who frees with a size.
    pub fn stated_size(&self) -> Option<usize> {
        (self.stated_size != usize::MAX).then_some(self.stated_size)
    }

    /// Where the program's call returns to.
    pub fn caller(&self) -> *const c_void {
        self.caller
    }
}

/// What hears the calls, or serves them. Each method that is not written goes on to the allocator,
/// and so does what a method itself allocates and frees. Methods may run in several threads at a
/// time, and must return: a panic ends the process.
///
/// # Safety
/// What the methods return is what malloc, realloc and malloc_usable_size would, for blocks that
/// stay valid until they are freed. Whoever hands out memory of his own writes all four, and meets
/// blocks of the allocator's among his own.
pub unsafe trait Hooks: Sync + 'static {
    /// A new block, or null if there is no memory. What calloc asked for is cleared behind it.
    ///
    /// # Safety
    /// Is for the library to call.
    unsafe fn on_allocate(&self, call: &HookCall) -> *mut u8 {
        unsafe { allocate(call) }
    }

    /// The block with another size, a new one for null; null if there is no memory, or for size 0,
    /// which frees.
    ///
    /// # Safety
    /// Is for the library to call: the block is live or null.
    unsafe fn on_reallocate(&self, block: *mut u8, call: &HookCall) -> *mut u8 {
        unsafe { ffi::prim_realloc(block.cast(), call.size).cast() }
    }

    /// The block, which may be null, is free.
    ///
    /// # Safety
    /// Is for the library to call: the block is live or null.
    unsafe fn on_release(&self, block: *mut u8, _call: &HookCall) {
        unsafe { ffi::prim_free(block.cast()) }
    }

    /// How many bytes of the block may be used.
    ///
    /// # Safety
    /// Is for the library to call: the block is live or null.
    unsafe fn on_usable_size(&self, block: *const u8) -> usize {
        unsafe { ffi::prim_malloc_usable_size(block.cast_mut().cast()) }
    }
}

/// What [`Hooks::on_allocate`] does where it is not written: the block comes from the allocator.
///
/// # Safety
/// Is for hooks to call, with the call that they were given.
pub unsafe fn allocate(call: &HookCall) -> *mut u8 {
    let block = match call.alignment {
        0 => unsafe { ffi::prim_malloc(call.size) },
        alignment => unsafe { ffi::prim_aligned_alloc(alignment, call.size) },
    };
    block.cast()
}

/// Hooks in force until this value is dropped: see [`scope`].
#[must_use = "the hooks go with this value: `let _ = ...` takes them away at once"]
#[derive(Debug)]
pub struct HookScope {
    before: *const ffi::Hooks,
}

/// Puts hooks in force in the whole process, until the value that this returns is dropped: then
/// those that were before are in force again. Scopes end in the reverse order of their beginning.
/// Calls under way in other threads may still end in hooks that were taken away.
///
/// The calling thread's next call goes there, another's as soon as a list of its free blocks is used
/// up or full.
pub fn scope<H: Hooks>(hooks: &'static H) -> Result<HookScope, AllocError> {
    let own = ffi::Hooks {
        on_allocate: allocate_in::<H>,
        on_reallocate: reallocate_in::<H>,
        on_release: release_in::<H>,
        on_usable_size: usable_size_in::<H>,
        context: ptr::from_ref(hooks).cast_mut().cast(),
    };
    ffi::set_errno(0);
    let before = unsafe { ffi::prim_hooks_set(&own) };
    if ffi::errno() == ffi::ENOMEM { Err(AllocError) } else { Ok(HookScope { before }) }
}

impl Drop for HookScope {
    fn drop(&mut self) {
        // They were copied when they were set, for good: this takes no memory.
        unsafe { ffi::prim_hooks_set(self.before) };
    }
}

unsafe extern "C" fn allocate_in<H: Hooks>(
    call: *const HookCall,
    context: *mut c_void,
) -> *mut c_void {
    unsafe { (*context.cast::<H>()).on_allocate(&*call).cast() }
}

unsafe extern "C" fn reallocate_in<H: Hooks>(
    block: *mut c_void,
    call: *const HookCall,
    context: *mut c_void,
) -> *mut c_void {
    unsafe { (*context.cast::<H>()).on_reallocate(block.cast(), &*call).cast() }
}

unsafe extern "C" fn release_in<H: Hooks>(
    block: *mut c_void,
    call: *const HookCall,
    context: *mut c_void,
) {
    unsafe { (*context.cast::<H>()).on_release(block.cast(), &*call) }
}

unsafe extern "C" fn usable_size_in<H: Hooks>(block: *const c_void, context: *mut c_void) -> usize {
    unsafe { (*context.cast::<H>()).on_usable_size(block.cast()) }
}
