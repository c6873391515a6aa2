//! One file a verb: its options, its examples, and what it does.

pub mod allocators;
pub mod compare;
pub mod completions;
pub mod faults;
pub mod man;
pub mod probe_allocator;
pub mod ps;
mod report_files;
pub mod run;
