//! A program whose global allocator is primalloc.

use primalloc::{Primalloc, usable_size};
use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};

#[global_allocator]
static ALLOCATOR: Primalloc = Primalloc;

/// The sizes of libc's blocks, which are told as well, are 8 more than a multiple of 16.
fn is_ours<T>(pointer: *const T) -> bool {
    let size = unsafe { usable_size(pointer.cast()) };
    size == 8 || (size != 0 && size % 16 == 0)
}

#[test]
fn collections_come_from_it() {
    let vector: Vec<u32> = (0..100_000).collect();
    assert!(is_ours(vector.as_ptr()));
    assert!(vector.iter().enumerate().all(|(index, &value)| index as u32 == value));
    let map: BTreeMap<String, usize> = (0..1000).map(|i| (format!("{i:04}"), i)).collect();
    let hashed: HashMap<&str, usize> =
        map.iter().map(|(key, &value)| (key.as_str(), value)).collect();
    assert!(map.iter().all(|(key, value)| hashed[key.as_str()] == *value));
}

#[test]
fn threads_free_what_others_allocated() {
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        for byte in 0..4u8 {
            let sender = sender.clone();
            scope.spawn(move || {
                for size in 1..2000 {
                    sender.send(vec![byte; size]).unwrap();
                }
            });
        }
        drop(sender);
        let mut count = 0;
        for block in receiver {
            assert!(block.iter().all(|&byte| byte == block[0]));
            count += 1;
        }
        assert_eq!(count, 4 * 1999);
    });
}

/// Every size and alignment: aligned, zeroed after dirty blocks were freed, whole after realloc.
#[test]
fn layouts_are_kept() {
    let sizes = [1, 7, 8, 9, 16, 24, 100, 1000, 5000, 40_000, 300_000];
    for shift in [0, 3, 4, 5, 8, 12, 14] {
        for size in sizes {
            for new_size in sizes {
                unsafe { walk(Layout::from_size_align(size, 1 << shift).unwrap(), new_size) };
            }
        }
    }
}

unsafe fn walk(layout: Layout, new_size: usize) {
    unsafe {
        let dirty = ALLOCATOR.alloc(layout);
        dirty.write_bytes(0xaa, layout.size());
        ALLOCATOR.dealloc(dirty, layout);
        let block = ALLOCATOR.alloc_zeroed(layout);
        let bytes = std::slice::from_raw_parts(block, layout.size());
        assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?} is not zero");
        assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
        block.write_bytes(0x55, layout.size());
        let moved = ALLOCATOR.realloc(block, layout, new_size);
        assert_eq!(moved as usize % layout.align(), 0, "{layout:?} to {new_size}");
        assert!(usable_size(moved) >= new_size);
        let kept = std::slice::from_raw_parts(moved, layout.size().min(new_size));
        assert!(kept.iter().all(|&byte| byte == 0x55), "{layout:?} to {new_size}");
        ALLOCATOR.dealloc(moved, Layout::from_size_align(new_size, layout.align()).unwrap());
    }
}

/// Fresh pages are zero, whatever they are aligned to: nobody writes them.
#[test]
fn zeroed_memory_is_not_resident() {
    fn resident_pages() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    }
    for alignment in [16, 64, 4096, 2 << 20] {
        let layout = Layout::from_size_align(1 << 30, alignment).unwrap();
        let before = resident_pages();
        let block = unsafe { ALLOCATOR.alloc_zeroed(layout) };
        assert!(resident_pages() < before + (128 << 8), "{alignment}"); // other tests have theirs
        unsafe { ALLOCATOR.dealloc(block, layout) };
    }
}

#[test]
fn the_impossible_gives_null() {
    let layout = Layout::from_size_align(isize::MAX as usize & !4095, 4096).unwrap();
    unsafe {
        assert!(ALLOCATOR.alloc(layout).is_null());
        assert!(ALLOCATOR.alloc_zeroed(layout).is_null());
        let small = Layout::from_size_align(100, 4096).unwrap();
        let block = ALLOCATOR.alloc(small);
        block.write(7);
        assert!(ALLOCATOR.realloc(block, small, layout.size()).is_null());
        assert_eq!(block.read(), 7);
        ALLOCATOR.dealloc(block, small);
    }
    let mut vector = Vec::<u8>::new();
    assert!(vector.try_reserve(isize::MAX as usize).is_err());
}

unsafe extern "C" {
    fn malloc(size: usize) -> *mut u8;
    fn free(block: *mut u8);
}

#[test]
fn malloc_is_replaced_only_with_the_feature() {
    unsafe {
        let block = malloc(100);
        assert_eq!(is_ours(block), cfg!(feature = "override"));
        free(block);
    }
}

#[test]
fn trim_returns_what_is_free() {
    drop(vec![1u8; 64 << 20]);
    assert!(primalloc::trim(0));
}
