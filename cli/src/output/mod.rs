//! The report of a comparison, and one file for each format that it is written in.
//!
//!   report.rs      what all formats show: figures, ratios, the best, the conclusion
//!   quantity.rs    numbers in units that people read
//!   table.rs       for the terminal
//!   json.rs        for programs
//!   markdown.rs    for issues and documents
//!   html.rs        one page with plots; plot.rs draws them
//!   explain/       what a process's memory consists of
//!   faults/        the same for `primalloc faults`
//!   profile/       the same for heap profiles and leaks

pub mod explain;
pub mod faults;
mod html;
mod json;
mod markdown;
mod plot;
pub mod profile;
mod quantity;
mod report;
mod table;

#[cfg(test)]
mod sample;

pub use html::html;
pub use json::json;
pub use markdown::markdown;
pub use quantity::{bytes_text, with_thousands};
pub use report::{Entry, Host, Report};
pub use table::{listing, table};
