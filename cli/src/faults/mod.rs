//! Watching a program's page faults: when, how many, where, from which code, and what would help.
//!
//!   events.rs      the kernel's page-fault counters: opening them, reading their rings
//!   records.rs     what the kernel writes there
//!   refusal.rs     what it means when the kernel does not let them be opened
//!   address_space.rs  what is mapped where in each process, and to which kind an address belongs
//!   spaces.rs      the same of all processes that are watched
//!   ground.rs      what the kernel calls a mapping
//!   ranges.rs      parts of ranges of addresses
//!   allocator.rs   which allocator a process runs on
//!   pages.rs       how often the same page faults again
//!   unwind.rs      from a copy of the stack to the frames that led to a fault
//!   sites.rs       the frame that a fault is laid to, and the table of them
//!   process_tree.rs  counts and sizes from /proc, which need no permission
//!   timeline.rs    the same over time
//!   recorder.rs    the thread that puts all of these together while the program runs
//!   findings.rs    what came out: the one source of every output format
//!   advice.rs      the rules that turn findings into plain words

mod address_space;
mod advice;
mod allocator;
mod events;
mod findings;
mod ground;
mod pages;
mod process_tree;
mod ranges;
mod recorder;
mod records;
mod refusal;
mod sites;
mod spaces;
mod timeline;
mod unwind;

pub use advice::{advice, minor_faults_text};
#[cfg(test)]
pub use findings::sample;
pub use findings::{Findings, KindRow, Subject};
pub use process_tree::is_running;
pub use recorder::{End, Plan, Recorder, Target};
pub use sites::SiteRow;
pub use timeline::{Point, Timeline};

use serde::Serialize;

/// What a faulting address is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The heap, and anonymous memory that malloc was seen in.
    Allocator,
    /// Stacks of threads.
    Stack,
    /// Files, programs and libraries among them, and what the program has written of them.
    File,
    /// Anonymous memory that the program has mapped itself; a part of `other` in the report.
    OwnMapping,
    /// Shared memory, the kernel's pages, what could not be told.
    Other,
}

pub const KINDS: [Kind; 5] =
    [Kind::Allocator, Kind::Stack, Kind::File, Kind::OwnMapping, Kind::Other];
