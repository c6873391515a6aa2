//! One file a verb: its options, its examples, and what it does.

pub mod advise;
pub mod allocators;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod explain;
pub mod faults;
pub mod leaks;
pub mod man;
mod meant;
mod measured;
pub mod probe_allocator;
mod process_files;
pub mod profile;
mod profile_options;
mod profile_running;
pub mod ps;
pub mod report;
mod report_files;
pub mod run;
pub mod set;
pub mod symbolize;
pub mod temporary;
mod times;
pub mod trim;
pub mod watch;
mod whole_file;

pub use report_files::{print_beside, tell};
