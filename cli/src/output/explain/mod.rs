//! What a process's memory consists of, for the terminal and for programs.

mod json;
mod text;
mod words;

pub use json::json;
pub use text::text;
