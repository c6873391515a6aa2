//! Heaps of one's own: see [`Heap`].

use core::alloc::Layout;
use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};

use crate::{AllocError, ffi, heap_box::HeapBox, is_aligned_by_malloc, resize_aligned};

/// A heap: blocks that belong together, that are counted and limited together, and that all end with
/// it, however many they are.
///
/// What safe code gets from a heap borrows it, so nothing outlives it:
///
/// ```
/// use primalloc::Heap;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let heap = Heap::new()?;
/// let mut numbers = heap.boxed([1, 2, 3])?;
/// numbers[0] = 7;
/// let name = heap.boxed_str("a request")?;
/// assert_eq!((numbers[0], &*name), (7, "a request"));
/// assert!(heap.contains(&*numbers));
/// assert_eq!(heap.counts().blocks, 2);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0505
/// let heap = primalloc::Heap::new().unwrap();
/// let number = heap.boxed(7).unwrap();
/// drop(heap); // error: it is borrowed by `number`
/// assert_eq!(*number, 7);
/// ```
///
/// Any thread may use a heap through `&Heap`; each heap has one lock. Dropping it ends all its blocks
/// without a look at them; [`Heap::delete`] leaves those that were leaked to the default heap.
#[derive(Debug)]
pub struct Heap {
    raw: NonNull<ffi::Heap>,
}

// Each call takes the heap's lock, and no thread has anything of its own in a heap.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

/// Which heap it is, without access to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeapId(NonNull<ffi::Heap>);

unsafe impl Send for HeapId {}
unsafe impl Sync for HeapId {}

/// What a heap holds.
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapCounts {
    /// In blocks, sizes rounded up.
    pub bytes: usize,
    /// How many blocks there are.
    pub blocks: usize,
    /// The most that `bytes` ever was.
    pub peak_bytes: usize,
    /// Memory that the heap has for blocks.
    pub area_bytes: usize,
    /// Of `bytes`; 0: none.
    pub limit: usize,
}

/// Why memory could not be lent to a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendError {
    /// It holds no whole unit of 16 KiB, or is lent already.
    NotLendable,
    /// There is no memory for what describes it.
    OutOfMemory,
}

impl core::fmt::Display for LendError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(match self {
            LendError::NotLendable => "no whole unit of 16 KiB to lend, or lent already",
            LendError::OutOfMemory => "out of memory",
        })
    }
}

impl core::error::Error for LendError {}

impl Heap {
    /// A new heap; it takes 704 bytes.
    pub fn new() -> Result<Heap, AllocError> {
        NonNull::new(unsafe { ffi::prim_heap_new() }).map(|raw| Heap { raw }).ok_or(AllocError)
    }

    /// A new heap whose blocks together hold at most so many bytes; 0: no limit.
    ///
    /// ```
    /// let heap = primalloc::Heap::with_limit(1 << 20)?;
    /// assert!(heap.boxed([0u8; 1000]).is_ok());
    /// assert!(heap.boxed_slice(&vec![0u8; 2 << 20]).is_err());
    /// # Ok::<(), primalloc::AllocError>(())
    /// ```
    pub fn with_limit(bytes: usize) -> Result<Heap, AllocError> {
        let heap = Heap::new()?;
        heap.set_limit(bytes);
        Ok(heap)
    }

    /// Calls `body` with a heap that lives in the memory, and only there: in its whole units of
    /// 16 KiB, a sixteenth of them for itself, for blocks of up to 256 KiB, or of up to 240 KiB
    /// where they are aligned to more than 16, to 4096 at most. The heap ends when `body` returns or
    /// panics.
    ///
    /// ```
    /// # use std::mem::MaybeUninit;
    /// let mut memory = [MaybeUninit::<u8>::uninit(); 64 * 1024]; // on the stack
    /// let sum = unsafe {
    ///     primalloc::Heap::with_memory(&mut memory, |heap| {
    ///         let numbers = heap.boxed([1u32, 2, 3])?;
    ///         Ok::<u32, primalloc::AllocError>(numbers.iter().sum())
    ///     })
    /// };
    /// assert_eq!(sum, Ok(Ok(6)));
    /// ```
    ///
    /// # Safety
    /// The memory is no part of a block of primalloc, as a `Vec` is when primalloc is the global
    /// allocator: it is on the stack, in a `static`, or mapped.
    pub unsafe fn with_memory<R>(
        memory: &mut [MaybeUninit<u8>],
        body: impl FnOnce(&Heap) -> R,
    ) -> Result<R, LendError> {
        let heap = unsafe { Heap::new_in(NonNull::from(memory)) }?;
        Ok(body(&heap))
    }

    /// A heap that lives in the memory: see [`Heap::with_memory`].
    ///
    /// # Safety
    /// The memory is no part of a block of primalloc, nobody else uses it, and it stays until the heap
    /// is dropped, or deleted and its last block freed; a heap that is forgotten uses it forever.
    pub unsafe fn new_in(memory: NonNull<[MaybeUninit<u8>]>) -> Result<Heap, LendError> {
        let raw = unsafe { ffi::prim_heap_new_in(memory.as_ptr().cast(), memory.len()) };
        NonNull::new(raw).map(|raw| Heap { raw }).ok_or_else(|| match ffi::errno() {
            ffi::EINVAL => LendError::NotLendable,
            _ => LendError::OutOfMemory,
        })
    }

    /// Which heap this is.
    pub fn id(&self) -> HeapId {
        HeapId(self.raw)
    }

    /// The heap for functions of C; it stays this value's.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.as_ptr().cast()
    }

    /// From now on all blocks together hold at most so many bytes, each rounded up; 0: no limit.
    pub fn set_limit(&self, bytes: usize) {
        unsafe { ffi::prim_heap_set_limit(self.raw.as_ptr(), bytes) }
    }

    /// What the heap holds now; exact.
    pub fn counts(&self) -> HeapCounts {
        let mut counts = HeapCounts::default();
        unsafe { ffi::prim_heap_counts(self.raw.as_ptr(), &mut counts) }
        counts
    }

    /// Whether a block of this heap begins at the value.
    pub fn contains<T: ?Sized>(&self, value: &T) -> bool {
        HeapId::of(value) == Some(self.id())
    }

    /// The value in a block of the heap. The value is dropped if there is no room.
    pub fn boxed<T>(&self, value: T) -> Result<HeapBox<'_, T>, AllocError> {
        let place = self.allocate(Layout::new::<T>())?.cast::<T>();
        unsafe {
            place.write(value);
            Ok(HeapBox::from_raw(place))
        }
    }

    /// A copy of the slice in a block of the heap.
    pub fn boxed_slice<T: Copy>(&self, values: &[T]) -> Result<HeapBox<'_, [T]>, AllocError> {
        let place = self.allocate(Layout::for_value(values))?.cast::<T>();
        unsafe {
            place.copy_from_nonoverlapping(NonNull::from(values).cast(), values.len());
            Ok(HeapBox::from_raw(NonNull::slice_from_raw_parts(place, values.len())))
        }
    }

    /// A copy of the text in a block of the heap.
    pub fn boxed_str(&self, text: &str) -> Result<HeapBox<'_, str>, AllocError> {
        let bytes = self.boxed_slice(text.as_bytes())?.into_raw();
        Ok(unsafe { HeapBox::from_raw(NonNull::new_unchecked(bytes.as_ptr() as *mut str)) })
    }

    /// A block for the layout; of as many bytes as the slice says.
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let (heap, size) = (self.raw.as_ptr(), layout.size());
        let block = unsafe {
            if is_aligned_by_malloc(size, layout.align()) {
                ffi::prim_heap_malloc(heap, size)
            } else {
                ffi::prim_heap_aligned_alloc(heap, layout.align(), size)
            }
        };
        slice(block, size)
    }

    /// The same, and zero.
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if is_aligned_by_malloc(layout.size(), layout.align()) {
            let heap = self.raw.as_ptr();
            let block = unsafe { ffi::prim_heap_calloc(heap, 1, layout.size()) };
            return slice(block, layout.size());
        }
        let block = self.allocate(layout)?;
        unsafe { block.cast::<u8>().write_bytes(0, layout.size()) };
        Ok(block)
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block came from this heap (or another, or [`crate::Primalloc`]) for this layout, and is not
    /// used again.
    pub unsafe fn deallocate(&self, block: NonNull<u8>, _layout: Layout) {
        unsafe { ffi::prim_free(block.as_ptr().cast()) }
    }

    /// A block of another size with the same contents, up to the smaller size. On failure the old
    /// block is as it was.
    ///
    /// # Safety
    /// As for [`Heap::deallocate`]; the old block is not used again after success.
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        unsafe {
            if is_aligned_by_malloc(new.size(), new.align()) {
                let size = new.size().max(1); // of 0 it would free
                let moved = ffi::prim_heap_realloc(self.raw.as_ptr(), block.as_ptr().cast(), size);
                return slice(moved, new.size());
            }
            let is_here = ffi::prim_heap_of(block.as_ptr().cast()) == self.raw.as_ptr();
            let resized = resize_aligned(block.as_ptr(), old, new, is_here, || {
                self.allocate(new).map_or(ptr::null_mut(), |target| target.as_ptr().cast())
            });
            slice(resized.cast(), new.size())
        }
    }

    /// Shows each block in use with its usable size, in no order, until `visit` returns false; the
    /// result is what it returned last, or true.
    ///
    /// # Safety
    /// Nobody uses the heap meanwhile, except that `visit` may free the block that it is shown.
    pub unsafe fn visit_blocks(&self, visit: impl FnMut(NonNull<u8>, usize) -> bool) -> bool {
        let mut visit = visit;
        unsafe extern "C" fn show<V: FnMut(NonNull<u8>, usize) -> bool>(
            _heap: *const ffi::Heap,
            block: *mut c_void,
            size: usize,
            visit: *mut c_void,
        ) -> bool {
            unsafe { (*visit.cast::<V>())(NonNull::new_unchecked(block.cast()), size) }
        }
        fn shown_by<V: FnMut(NonNull<u8>, usize) -> bool>(_: &V) -> ffi::BlockVisitor {
            show::<V>
        }
        let shows = shown_by(&visit);
        unsafe { ffi::prim_heap_visit_blocks(self.raw.as_ptr(), shows, (&raw mut visit).cast()) }
    }

    /// Ends the heap but not its blocks, those that were leaked or handed to C: they belong to the
    /// default heap from now on, and `free` takes them.
    pub fn delete(self) {
        unsafe { ffi::prim_heap_delete(ManuallyDrop::new(self).raw.as_ptr()) }
    }

    /// Gives the heap away, to [`Heap::from_raw`] or to C.
    pub fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).as_raw()
    }

    /// Takes over a heap.
    ///
    /// # Safety
    /// `raw` is a `prim_heap_t *` that nobody else ends.
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Heap {
        Heap { raw: raw.cast() }
    }
}

impl Drop for Heap {
    /// Ends all blocks, without a look at them.
    fn drop(&mut self) {
        unsafe { ffi::prim_heap_destroy(self.raw.as_ptr()) }
    }
}

impl HeapId {
    /// The heap that a block belongs to that begins at the value; `None`: the default heap, or it is
    /// not at the beginning of a block of primalloc.
    pub fn of<T: ?Sized>(value: &T) -> Option<HeapId> {
        NonNull::new(unsafe { ffi::prim_heap_of(ptr::from_ref(value).cast()) }).map(HeapId)
    }
}

fn slice(block: *mut c_void, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    let block = NonNull::new(block.cast::<u8>()).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, size))
}
