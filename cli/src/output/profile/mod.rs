//! Who holds memory, and one file for each format that it is written in.
//!
//!   words.rs      names and figures that the formats share
//!   text.rs       a profile for the terminal; changes.rs two of them; leaks.rs what is lost
//!   columns.rs    tables that fit the terminal
//!   collapsed.rs  stacks as lines, for tools that draw them
//!   json.rs       for programs
//!   page/         one HTML page with pictures

mod changes;
mod collapsed;
mod columns;
mod json;
mod leaks;
mod page;
mod text;
mod words;

pub use changes::changes;
pub use collapsed::{changes_collapsed, collapsed};
pub use json::{changes as changes_json, profile as json};
pub use leaks::leaks;
pub use page::{Source, Sources, changes_html, html};
pub use text::{Layout, text};
pub use words::{few_samples, remark};
