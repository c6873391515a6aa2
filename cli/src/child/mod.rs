//! Starting a program and seeing it through to its end.
//!
//!   spawn.rs         fork and exec, with what must be done between the two
//!   supervise.rs     signals to the program, its state back: as if the tool were not there
//!   dispositions.rs  what signals do to the tool, and not to the program
//!   outcome.rs       how a program ended, and how to end the same way

pub mod dispositions;
mod outcome;
mod spawn;
mod supervise;

pub use outcome::{End, Interrupted, Outcome};
pub use spawn::{LaunchStamp, start, start_stamped};
pub use supervise::Supervisor;
