//! Heap profiles: reading them, putting names to addresses, adding up who holds what.
//!
//!   model.rs      a profile in memory, whoever wrote it
//!   facts.rs      what a profile of ours tells beside its samples
//!   read.rs       opening a file of whatever kind
//!   pprof.rs      protocol buffers; legacy.rs the older text; collapsed.rs stacks as lines
//!   views.rs      live, peak, total, growth: which of the values is asked for
//!   symbolise.rs  functions and lines for the locations that have none
//!   stacks.rs     the same stacks with functions as numbers
//!   sites.rs      the table of who holds what
//!   common.rs     which functions of two profiles are the same
//!   comparison.rs two profiles side by side

mod collapsed;
mod common;
mod comparison;
mod facts;
mod legacy;
mod model;
mod pprof;
mod read;
mod sites;
mod stacks;
mod symbolise;
mod views;

pub use common::Common;
pub use comparison::{Change, Comparison};
pub use facts::{Bucket, Facts, Kind, Point};
#[cfg(test)]
pub use model::Labels;
pub use model::{Profile, Sample, base_name};
pub use pprof::encode;
pub use read::{parse, read};
pub use sites::{Row, Sites};
pub use stacks::{Function, Stacks};
pub use symbolise::symbolise;
pub use views::{Series, View, series};

#[cfg(test)]
pub mod sample;
