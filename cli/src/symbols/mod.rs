//! From addresses to what people call them.
//!
//!   objects.rs      ELF files: functions, segments, what lies where
//!   debug_files.rs  where debug information lies apart from its file
//!   lines.rs        source lines and inlined calls
//!   names.rs        names as people write them, and short ones
//!   roles.rs        which functions belong to an allocator, and which only pass on

mod debug_files;
mod lines;
mod names;
mod objects;
mod roles;

pub use lines::CodeFrame;
pub use names::{readable, short};
pub use objects::{MappedCode, Object, Objects};
pub use roles::{Role, is_wrapper};
