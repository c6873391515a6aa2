//! Memory that ran out, alone in its process: it is everybody's.

use primalloc::{Primalloc, options::HARD_LIMIT};
use std::alloc::{GlobalAlloc, Layout};

#[test]
fn blocks_shrink_without_memory_for_others() {
    let layout = |size| Layout::from_size_align(size, 64).unwrap();
    let sizes = [8 << 20, 3 << 20, 500_000];
    unsafe {
        let mut block = Primalloc.alloc(layout(sizes[0]));
        block.write_bytes(0x55, sizes[0]);
        HARD_LIMIT.set(1).unwrap();
        assert!(Primalloc.alloc(layout(sizes[2])).is_null());
        assert!(Primalloc.realloc(block, layout(sizes[0]), 2 * sizes[0]).is_null());
        for step in sizes.windows(2) {
            block = Primalloc.realloc(block, layout(step[0]), step[1]);
            assert!(!block.is_null() && block as usize % 64 == 0, "{}", step[1]);
        }
        HARD_LIMIT.set(0).unwrap();
        assert!(std::slice::from_raw_parts(block, sizes[2]).iter().all(|&byte| byte == 0x55));
        Primalloc.dealloc(block, layout(sizes[2]));
    }
}
