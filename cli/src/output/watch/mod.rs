//! What became of a process's memory, for the terminal, for programs, and as a page.

mod chart;
mod html;
mod json;
mod text;
mod words;

pub use html::html;
pub use json::json;
pub use text::text;
pub use words::progress;
