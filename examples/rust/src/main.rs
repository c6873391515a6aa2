//! Counts the words of its arguments on primalloc.

use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: primalloc::Primalloc = primalloc::Primalloc;

fn main() {
    let mut words = BTreeMap::<String, u32>::new();
    for word in std::env::args().skip(1) {
        *words.entry(word).or_default() += 1;
    }
    let probe = Box::new(0u64);
    let verb = match unsafe { primalloc::usable_size((&raw const *probe).cast()) } {
        0 => "does not serve",
        _ => "serves",
    };
    println!("primalloc {} {verb} Rust", primalloc::version());
    for (word, count) in words {
        println!("{count} {word}");
    }
}
