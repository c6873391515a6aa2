//! A report for which memory runs out midway. The allocator refuses blocks above a bound.

use primalloc::Primalloc;
use primalloc::stats::{Form, report};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::null_mut;

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

thread_local! {
    static BOUND: Cell<usize> = const { Cell::new(usize::MAX) };
}

unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > BOUND.get() {
            return null_mut();
        }
        unsafe { Primalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { Primalloc.dealloc(block, layout) }
    }
}

#[test]
fn a_report_is_whole_or_empty() {
    for form in [Form::Text, Form::Json, Form::Xml, Form::OpenMetrics] {
        let whole = report(form);
        for bound in [0, whole.len() / 4, whole.len() / 2, whole.len() - 1] {
            BOUND.set(bound);
            let cut = report(form);
            BOUND.set(usize::MAX);
            assert_eq!(cut, "", "{form:?} in {bound} bytes of {}", whole.len());
        }
    }
}
