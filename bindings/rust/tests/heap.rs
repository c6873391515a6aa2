//! Heaps of one's own, in a program whose global allocator is libc's.

use primalloc::{AllocError, Heap, HeapBox, HeapId, LendError, usable_size};
use std::alloc::Layout;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

const fn is_for_threads<T: Send + Sync>() {}
const _: () = is_for_threads::<Heap>();
const _: () = is_for_threads::<HeapBox<'static, u8>>();

/// Says its name to the log when it is dropped.
struct Noisy<'l>(&'static str, &'l RefCell<Vec<&'static str>>);

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn values_are_dropped_once_and_before_their_heap() {
    let log = RefCell::new(Vec::new());
    {
        let heap = Heap::new().unwrap();
        let first = heap.boxed(Noisy("first", &log)).unwrap();
        let second = heap.boxed(Noisy("second", &log)).unwrap();
        heap.boxed(Noisy("third", &log)).unwrap().leak();
        assert_eq!(heap.counts().blocks, 3);
        drop(second);
        assert_eq!((heap.counts().blocks, &*log.borrow()), (2, &vec!["second"]));
        let value = first.into_inner();
        assert_eq!((heap.counts().blocks, log.borrow().len()), (1, 1));
        drop(value);
        let _last = heap.boxed(Noisy("last", &log)).unwrap();
    }
    assert_eq!(*log.borrow(), ["second", "first", "last"]);
}

#[test]
fn a_block_goes_even_if_the_drop_of_its_value_panics() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as it should");
        }
    }
    let heap = Heap::new().unwrap();
    let value = heap.boxed(Panics).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(value))).is_err());
    assert_eq!(heap.counts().blocks, 0);
}

#[test]
fn owners_are_known() {
    let (one, other) = (Heap::new().unwrap(), Heap::new().unwrap());
    let (number, text) = (one.boxed(7u64).unwrap(), other.boxed_str("text").unwrap());
    let ours = Box::new(1);
    assert!(one.contains(&*number) && !one.contains(&*text) && !one.contains(&*ours));
    assert_eq!(HeapId::of(&*text), Some(other.id()));
    assert_eq!((HeapId::of(&*ours), HeapId::of(&text)), (None, None));
    assert_ne!(one.id(), other.id());
    let numbers = one.boxed([0u64; 4]).unwrap();
    assert!(one.contains(&numbers[0]) && !one.contains(&numbers[2]), "in the middle of a block");
}

#[test]
fn every_type_finds_its_place() {
    #[derive(Clone, Copy)]
    #[repr(align(512))]
    struct Wide([u8; 512]);
    struct Nothing;
    let heap = Heap::new().unwrap();
    let wide = heap.boxed_slice(&[Wide([7; 512]); 3]).unwrap();
    assert_eq!(&raw const wide[0] as usize % 512, 0);
    assert!(wide.iter().all(|one| one.0.iter().all(|&byte| byte == 7)));
    let nothing = (heap.boxed(Nothing).unwrap(), heap.boxed_slice::<u64>(&[]).unwrap());
    assert_eq!((nothing.1.len(), heap.counts().blocks), (0, 3));
    let text = heap.boxed_str("größer").unwrap();
    assert_eq!((format!("{text}"), format!("{text:?}")), ("größer".into(), "\"größer\"".into()));
    let function: Box<dyn Fn() -> usize + '_> = Box::new(|| text.len());
    assert_eq!(function(), 8);
}

#[test]
fn a_limit_is_an_error_and_not_an_end() {
    let heap = Heap::with_limit(100_000).unwrap();
    assert_eq!(heap.boxed_slice(&[0u8; 200_000]).err(), Some(AllocError));
    let half = heap.boxed_slice(&[1u8; 60_000]).unwrap();
    assert!(heap.boxed_slice(&[1u8; 60_000]).is_err());
    drop(half);
    assert!(heap.boxed_slice(&[1u8; 60_000]).is_ok());
    let counts = heap.counts();
    assert_eq!((counts.limit, counts.bytes), (100_000, 0));
    assert!(counts.peak_bytes >= 60_000 && counts.peak_bytes <= 100_000);
    heap.set_limit(0);
    assert!(heap.boxed_slice(&[0u8; 200_000]).is_ok());
}

#[test]
fn layouts_are_kept_by_reallocate() {
    let heap = Heap::new().unwrap();
    for (size, new_size, shift) in
        [(1, 100, 0), (100, 0, 3), (0, 40, 4), (10, 9000, 12), (9000, 3, 8)]
    {
        let layout = Layout::from_size_align(size, 1 << shift).unwrap();
        let new = Layout::from_size_align(new_size, 1 << shift).unwrap();
        unsafe {
            let block = heap.allocate_zeroed(layout).unwrap();
            assert!(block.as_ref().iter().all(|&byte| byte == 0) && block.len() == size);
            block.cast::<u8>().write_bytes(0x55, size);
            let moved = heap.reallocate(block.cast(), layout, new).unwrap();
            assert_eq!(
                (moved.len(), moved.as_ptr().cast::<u8>() as usize % (1 << shift)),
                (new_size, 0)
            );
            assert!(moved.as_ref()[..size.min(new_size)].iter().all(|&byte| byte == 0x55));
            heap.deallocate(moved.cast(), new);
        }
    }
    assert_eq!(heap.counts().blocks, 0);
}

#[test]
fn reallocate_takes_a_block_out_of_another_heap() {
    for alignment in [8, 64] {
        let (heap, other) = (Heap::new().unwrap(), Heap::new().unwrap());
        let layout = Layout::from_size_align(1000, alignment).unwrap();
        unsafe {
            let block = other.allocate(layout).unwrap().cast::<u8>();
            block.write(7);
            let moved = heap.reallocate(block, layout, layout).unwrap().cast::<u8>();
            assert!(heap.contains(moved.as_ref()) && moved.read() == 7, "{alignment}");
        }
        assert_eq!(other.counts().blocks, 0);
    }
}

#[test]
fn leaked_blocks_outlive_a_deleted_heap_only() {
    let heap = Heap::new().unwrap();
    let kept = heap.boxed_str("kept").unwrap().into_raw();
    heap.delete();
    unsafe {
        assert_eq!((kept.as_ref(), HeapId::of(kept.as_ref())), ("kept", None));
        assert!(usable_size(kept.as_ptr().cast()) >= 4);
        primalloc_free(kept.cast());
    }
    let heap = Heap::new().unwrap();
    let ended = heap.boxed(7).unwrap().into_raw();
    drop(heap);
    assert_eq!(unsafe { usable_size(ended.as_ptr().cast()) }, 0);
}

unsafe fn primalloc_free(block: NonNull<u8>) {
    use std::alloc::GlobalAlloc;
    unsafe { primalloc::Primalloc.dealloc(block.as_ptr(), Layout::new::<u8>()) }
}

#[test]
fn threads_share_a_heap_and_free_each_others_blocks() {
    let heap = Heap::new().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for number in 0..4u32 {
            let (sender, heap) = (sender.clone(), &heap);
            scope.spawn(move || {
                for length in 0..1000 {
                    sender.send(heap.boxed_slice(&vec![number; length]).unwrap()).unwrap();
                }
            });
        }
        drop(sender);
        let mut count = 0;
        for numbers in receiver {
            assert!(numbers.iter().all(|&number| number == numbers[0]));
            count += 1;
        }
        assert_eq!(count, 4000);
    });
    assert_eq!(heap.counts().blocks, 0);
    std::thread::spawn(move || drop(heap)).join().unwrap();
}

#[test]
fn memory_is_lent_for_a_call() {
    static mut MEMORY: [MaybeUninit<u8>; 80 << 10] = [MaybeUninit::uninit(); 80 << 10];
    let memory: &mut [_] = unsafe { (&raw mut MEMORY).as_mut().unwrap() };
    let range = memory.as_ptr_range();
    for round in 0..3 {
        let place = unsafe {
            Heap::with_memory(memory, |heap| {
                assert!(heap.boxed_slice(&vec![0u8; 80 << 10]).is_err());
                let value = heap.boxed(round).unwrap();
                (&raw const *value).cast::<MaybeUninit<u8>>()
            })
        };
        assert!(range.contains(&place.unwrap()));
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| unsafe {
        Heap::with_memory(memory, |_| panic!("as it should"))
    }));
    assert!(panicked.is_err());
    unsafe {
        let heap = Heap::new_in(NonNull::from(&mut *memory)).unwrap(); // it came back all the same
        let again = Heap::new_in(NonNull::from(&mut *memory));
        assert_eq!(again.err(), Some(LendError::NotLendable));
        drop(heap);
        let small = Heap::with_memory(&mut memory[..1000], |_| ());
        assert_eq!(small, Err(LendError::NotLendable));
    }
}

#[test]
fn blocks_are_visited() {
    let heap = Heap::new().unwrap();
    let numbers: Vec<_> = (0..100u64).map(|number| heap.boxed(number).unwrap()).collect();
    let mut sum = 0;
    let is_whole = unsafe {
        heap.visit_blocks(|block, size| {
            assert!(size >= 8);
            sum += block.cast::<u64>().read();
            true
        })
    };
    assert!(is_whole && sum == numbers.iter().map(|number| **number).sum());
    let mut seen = 0;
    assert!(!unsafe {
        heap.visit_blocks(|_, _| {
            seen += 1;
            seen < 10
        })
    });
    assert_eq!(seen, 10);
}

#[test]
fn it_goes_to_c_and_back() {
    let heap = Heap::with_limit(4096).unwrap();
    let raw = heap.into_raw();
    let heap = unsafe { Heap::from_raw(NonNull::new(raw).unwrap()) };
    assert_eq!((heap.as_raw(), heap.counts().limit), (raw, 4096));
}

#[cfg(feature = "allocator-api2")]
mod collections {
    use allocator_api2::{alloc::Allocator, boxed, vec};
    use primalloc::{Heap, Primalloc, usable_size};
    use std::alloc::Layout;

    #[test]
    fn they_grow_in_their_heap() {
        let heap = Heap::new().unwrap();
        {
            let mut numbers = vec::Vec::new_in(&heap);
            numbers.extend(0..10_000u32);
            numbers.shrink_to_fit();
            assert!(heap.contains(&numbers[0]) && numbers[9_999] == 9_999);
            let copy = numbers.clone();
            let text = boxed::Box::new_in("text", &heap);
            assert!(heap.contains(&copy[0]) && heap.contains(&*text));
        }
        assert_eq!(heap.counts().blocks, 0);
        heap.set_limit(1000);
        assert!(vec::Vec::<u8, _>::new_in(&heap).try_reserve(2000).is_err());
    }

    /// There is no room for another block, but the old one is room enough.
    #[test]
    fn aligned_ones_shrink_in_a_full_heap() {
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[repr(align(64))]
        struct Wide(usize);
        let heap = Heap::with_limit(1 << 16).unwrap();
        let mut wide = vec::Vec::with_capacity_in(600, &heap);
        wide.extend((0..560).map(Wide));
        wide.shrink_to_fit();
        heap.set_limit(heap.counts().bytes);
        wide.truncate(100);
        wide.shrink_to_fit();
        assert!(heap.contains(&wide[0]) && wide.iter().copied().eq((0..100).map(Wide)));
        heap.set_limit(1 << 16);
        wide.truncate(50);
        wide.shrink_to_fit();
        assert!(heap.contains(&wide[0]) && wide.iter().copied().eq((0..50).map(Wide)));
        assert!(heap.counts().bytes < 100 * 64, "there was room for a smaller block");
    }

    #[test]
    fn the_default_heap_is_one_too() {
        let numbers: vec::Vec<u8, Primalloc> = vec::Vec::with_capacity_in(100, Primalloc);
        assert!(unsafe { usable_size(numbers.as_ptr()) } >= 100);
        let zeroed = Primalloc.allocate_zeroed(std::alloc::Layout::new::<[u64; 9]>()).unwrap();
        assert!(unsafe { zeroed.as_ref() }.iter().all(|&byte| byte == 0));
        unsafe { Primalloc.deallocate(zeroed.cast(), std::alloc::Layout::new::<[u64; 9]>()) };
    }

    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn large_blocks_of_the_default_heap_grow_without_a_copy() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let (size, larger) = (64 << 20, 256 << 20);
        unsafe {
            let block = Primalloc.allocate_zeroed(layout(size)).unwrap().cast::<u8>();
            block.add(size - 1).write(7);
            let before = resident();
            let grown = Primalloc.grow(block, layout(size), layout(larger)).unwrap();
            assert_eq!((grown.len(), grown.cast::<u8>().add(size - 1).read()), (larger, 7));
            assert!(resident() < before + size / 2, "what nobody touched was copied");
            let shrunk = Primalloc.shrink(grown.cast(), layout(larger), layout(0)).unwrap();
            assert_eq!(shrunk.len(), 0);
            Primalloc.deallocate(shrunk.cast(), layout(0));
        }
    }

    #[test]
    fn blocks_of_the_default_heap_keep_contents_and_alignment() {
        let alignments = [1, 8, 16, 64, 4096];
        for (old, new) in alignments.iter().flat_map(|a| alignments.iter().map(move |b| (*a, *b))) {
            for (size, other) in [(0, 24), (5, 9), (24, 100), (100, 5000), (5000, 300_000)] {
                let small = Layout::from_size_align(size, old).unwrap();
                let large = Layout::from_size_align(other, new).unwrap();
                unsafe {
                    let block = Primalloc.allocate(small).unwrap().cast::<u8>();
                    block.write_bytes(1, size);
                    let grown = Primalloc.grow(block, small, large).unwrap().cast::<u8>();
                    assert_eq!(grown.as_ptr() as usize % new, 0, "{old} {new} {size} {other}");
                    assert!((0..size).all(|i| grown.add(i).read() == 1));
                    grown.write_bytes(2, other);
                    let shrunk = Primalloc.shrink(grown, large, small).unwrap().cast::<u8>();
                    assert_eq!(shrunk.as_ptr() as usize % old, 0, "{old} {new} {size} {other}");
                    assert!((0..size).all(|i| shrunk.add(i).read() == 2));
                    Primalloc.deallocate(shrunk, small);
                }
            }
        }
    }
}
