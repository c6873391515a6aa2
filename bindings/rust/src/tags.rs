//! Thread tags: memory attributed to a part of the program.
//!
//! ```
//! use primalloc::stats::{Form, report};
//!
//! let words: Vec<String> = {
//!     let _tag = primalloc::tag_scope("dictionary");
//!     (0..100).map(|number| format!("word {number}")).collect()
//! };
//! assert!(report(Form::Json).contains("dictionary"));
//! # drop(words);
//! ```

use core::ffi::CStr;
use core::marker::PhantomData;

use crate::ffi;

/// What the library keeps of a name, in bytes.
const NAME_MAX: usize = 47;

/// A tag in force until the end of the scope: see [`tag_scope`].
#[must_use = "the tag ends with this value: `let _ = ...` ends it at once, `let _tag = ...` does not"]
#[derive(Debug)]
pub struct TagScope {
    is_counted: bool,
    /// It ends in the thread that began it.
    of_this_thread: PhantomData<*const ()>,
}

/// Puts a tag in force until the value that it returns is dropped: what this thread allocates
/// meanwhile, by C libraries too if they have primalloc's malloc, is counted under the name, in
/// statistics and profiles. Who frees it, and when, makes no difference.
///
/// The same name is the same tag, in any thread. Of a name the first 47 bytes are kept, up to a zero
/// among them; the empty one is no tag, whatever is around. Scopes are nested: the last one that
/// began is the first to end, as values of a block are dropped. Each allocation under a tag takes a
/// lock of the tag's.
///
/// ```
/// let _request = primalloc::tag_scope("request");
/// {
///     let _parser = primalloc::tag_scope("parser");
///     assert_eq!(primalloc::current_tag(), Some(c"parser"));
/// }
/// assert_eq!(primalloc::current_tag(), Some(c"request"));
/// ```
///
/// It cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// let tag = primalloc::tag_scope("request");
/// std::thread::spawn(move || drop(tag));
/// ```
pub fn tag_scope(name: &str) -> TagScope {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut text = [0u8; NAME_MAX + 1];
    text[..end].copy_from_slice(&name.as_bytes()[..end]);
    let is_counted = unsafe { ffi::prim_tag_push(text.as_ptr().cast()) };
    TagScope { is_counted, of_this_thread: PhantomData }
}

/// The name of the tag in force in this thread, if there is one.
pub fn current_tag() -> Option<&'static CStr> {
    let name = unsafe { ffi::prim_tag_current() };
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

impl TagScope {
    /// Whether the tag is in force. Where it cannot be, as memory is out, there are 256 tags, or 32
    /// around it in the thread, the one before it stays.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }
}

impl Drop for TagScope {
    fn drop(&mut self) {
        unsafe { ffi::prim_tag_pop() }
    }
}
