//! What `primalloc faults` has found, and one file for each format that it is written in.
//!
//!   words.rs   names and figures that the formats share
//!   text.rs    for the terminal
//!   json.rs    for programs
//!   html.rs    one page with plots; chart.rs draws them

mod chart;
mod html;
mod json;
mod text;
mod words;

pub use html::html;
pub use json::json;
pub use text::text;
