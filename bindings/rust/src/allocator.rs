//! The trait `Allocator` of the crate allocator-api2, which nightly Rust has under the same name.

use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

use crate::{Heap, Primalloc};

// Blocks stay where they are when the reference moves, and all copies are of one heap.
unsafe impl Allocator for &Heap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Heap::allocate(self, layout).map_err(|_| AllocError)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Heap::allocate_zeroed(self, layout).map_err(|_| AllocError)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        unsafe { Heap::deallocate(self, block, layout) }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        unsafe { self.reallocate(block, old, new) }.map_err(|_| AllocError)
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        unsafe { self.reallocate(block, old, new) }.map_err(|_| AllocError)
    }
}

unsafe impl Allocator for Primalloc {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = NonNull::new(unsafe { self.alloc(layout) }).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = NonNull::new(unsafe { self.alloc_zeroed(layout) }).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        unsafe { self.dealloc(block.as_ptr(), layout) }
    }

    /// Large blocks move by their pages, as with `realloc`.
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        unsafe { resize(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        unsafe { resize(block, old, new) }
    }
}

unsafe fn resize(
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    let resized = unsafe {
        let not_freed = Layout::from_size_align_unchecked(new.size().max(1), new.align());
        Primalloc.resize(block.as_ptr(), old, not_freed)
    };
    let resized = NonNull::new(resized).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(resized, new.size()))
}
