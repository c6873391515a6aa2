//! Owners of one block of a heap.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::{Heap, ffi};

/// A value in a block of a heap, as `Box` is one in a block of the global allocator. It borrows the
/// heap, and drops the value and frees the block when it goes.
pub struct HeapBox<'h, T: ?Sized> {
    place: NonNull<T>,
    owns: PhantomData<(&'h Heap, T)>,
}

// It is the only one that holds the value, as Box is, and blocks are freed from any thread.
unsafe impl<T: ?Sized + Send> Send for HeapBox<'_, T> {}
unsafe impl<T: ?Sized + Sync> Sync for HeapBox<'_, T> {}

impl<'h, T: ?Sized> HeapBox<'h, T> {
    /// Takes over a block with a value in it.
    ///
    /// # Safety
    /// The block is of a heap that lives for `'h`, and nobody else ends it or the value.
    pub unsafe fn from_raw(place: NonNull<T>) -> Self {
        HeapBox { place, owns: PhantomData }
    }

    /// Gives the block away, with the value in it.
    pub fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).place
    }

    /// The value for as long as the heap lives; it ends with the heap, and is not dropped.
    ///
    /// ```
    /// let heap = primalloc::Heap::new()?;
    /// let word: &mut str = heap.boxed_str("word")?.leak();
    /// word.make_ascii_uppercase();
    /// assert_eq!(word, "WORD");
    /// # Ok::<(), primalloc::AllocError>(())
    /// ```
    pub fn leak(self) -> &'h mut T {
        unsafe { self.into_raw().as_mut() }
    }
}

impl<T> HeapBox<'_, T> {
    /// The value; the block is freed.
    pub fn into_inner(self) -> T {
        let place = self.into_raw();
        unsafe {
            let value = place.read();
            ffi::prim_free(place.as_ptr().cast());
            value
        }
    }
}

impl<T: ?Sized> Drop for HeapBox<'_, T> {
    fn drop(&mut self) {
        struct Block(NonNull<u8>);
        impl Drop for Block {
            fn drop(&mut self) {
                unsafe { ffi::prim_free(self.0.as_ptr().cast()) }
            }
        }
        let _block = Block(self.place.cast()); // goes even if the value's drop panics
        unsafe { self.place.drop_in_place() }
    }
}

impl<T: ?Sized> Deref for HeapBox<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        unsafe { self.place.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for HeapBox<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        unsafe { self.place.as_mut() }
    }
}

impl<T: ?Sized> AsRef<T> for HeapBox<'_, T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for HeapBox<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for HeapBox<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}
