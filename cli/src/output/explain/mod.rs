//! What a process's memory consists of, for the terminal, for programs, and as a page.

mod html;
mod json;
mod text;
mod words;

pub use html::html;
pub use json::json;
pub use text::text;
pub use words::name;
