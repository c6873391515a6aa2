//! Who holds memory, and one file for each format that it is written in.
//!
//!   words.rs      names and figures that the formats share
//!   text.rs       a profile for the terminal; changes.rs two of them; leaks.rs what is lost
//!   collapsed.rs  stacks as lines, for tools that draw them
//!   html.rs       one page; flame.rs, treemap.rs and charts.rs draw its pictures

mod changes;
mod collapsed;
mod leaks;
mod text;
mod words;

pub use changes::changes;
pub use collapsed::collapsed;
pub use leaks::leaks;
pub use text::{Layout, text};
