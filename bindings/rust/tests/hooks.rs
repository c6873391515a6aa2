//! Hooks, alone in their process: they are everybody's.

use primalloc::Primalloc;
use primalloc::hooks::{self, HookCall, Hooks};
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: Primalloc = Primalloc;

const SIZE: usize = 54_321;

/// Looks at blocks of one size, which nobody else asks for.
struct Watching {
    allocated: AtomicUsize,
    alignment: AtomicUsize,
    grown: AtomicUsize,
    released: AtomicUsize,
}

impl Watching {
    const fn new() -> Watching {
        Watching {
            allocated: AtomicUsize::new(0),
            alignment: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
        }
    }

    fn counts(&self) -> [usize; 3] {
        [&self.allocated, &self.grown, &self.released].map(|count| count.load(Relaxed))
    }
}

unsafe impl Hooks for Watching {
    unsafe fn on_allocate(&self, call: &HookCall) -> *mut u8 {
        let own = black_box(vec![0u8; SIZE]); // goes to the allocator
        if call.size() == SIZE {
            self.allocated.fetch_add(1, Relaxed);
            self.alignment.store(call.alignment().unwrap_or(0), Relaxed);
        }
        drop(own);
        unsafe { hooks::allocate(call) }
    }

    unsafe fn on_reallocate(&self, block: *mut u8, call: &HookCall) -> *mut u8 {
        if call.size() == 2 * SIZE {
            self.grown.fetch_add(1, Relaxed);
        }
        unsafe { Primalloc.realloc(block, Layout::from_size_align_unchecked(1, 1), call.size()) }
    }

    unsafe fn on_release(&self, block: *mut u8, call: &HookCall) {
        let usable = unsafe { primalloc::usable_size(block) };
        if (SIZE..3 * SIZE).contains(&usable) {
            assert!(!call.caller().is_null());
            self.released.fetch_add(1, Relaxed);
        }
        unsafe { Primalloc.dealloc(block, Layout::new::<u8>()) }
    }
}

static OUTER: Watching = Watching::new();
static INNER: Watching = Watching::new();

#[test]
fn scopes_hear_each_call_and_put_back_what_was_before() {
    let outer = hooks::scope(&OUTER).unwrap();
    let mut bytes = black_box(Vec::<u8>::with_capacity(SIZE));
    assert_eq!(OUTER.counts(), [1, 0, 0]);
    {
        let _inner = hooks::scope(&INNER).unwrap();
        bytes.reserve_exact(2 * SIZE);
        assert_eq!((INNER.counts(), OUTER.counts()), ([0, 1, 0], [1, 0, 0]));
    }
    drop(black_box(bytes));
    assert_eq!((INNER.counts(), OUTER.counts()), ([0, 1, 0], [1, 0, 1]));
    let layout = Layout::from_size_align(SIZE, 128).unwrap();
    unsafe { Primalloc.dealloc(black_box(Primalloc.alloc(layout)), layout) };
    assert_eq!((OUTER.counts(), OUTER.alignment.load(Relaxed)), ([2, 0, 2], 128));
    drop(outer);
    drop(black_box(vec![0u8; SIZE]));
    assert_eq!((INNER.counts(), OUTER.counts()), ([0, 1, 0], [2, 0, 2]));
}
