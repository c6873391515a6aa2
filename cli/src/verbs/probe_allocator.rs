//! `primalloc probe-allocator`: says which allocator serves this very process.
//!
//! `allocators` starts the tool anew with a library preloaded and reads the answer: the library
//! has then been loaded, has served a real program, and is asked for its version by itself.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::ptr;

use anyhow::Result;

use crate::allocators::ProbeAnswer;

pub fn run() -> Result<ExitCode> {
    let answer = ProbeAnswer { malloc_from: file_that_defines(c"malloc"), version: version() };
    println!("{}", serde_json::to_string(&answer)?);
    Ok(ExitCode::SUCCESS)
}

/// The file whose definition of `symbol` the loader has bound this process to.
fn file_that_defines(symbol: &CStr) -> Option<String> {
    let address = find(symbol)?;
    let mut facts = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr fills the buffer whenever it returns other than 0, and the file's name
    // then points into the loader's own data, which stays.
    unsafe {
        if libc::dladdr(address, facts.as_mut_ptr()) == 0 {
            return None;
        }
        Some(CStr::from_ptr(facts.assume_init().dli_fname).to_string_lossy().into_owned())
    }
}

fn find(symbol: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn version() -> Option<String> {
    primalloc_version()
        .or_else(mimalloc_version)
        .or_else(jemalloc_version)
        .or_else(gperftools_version)
}

fn primalloc_version() -> Option<String> {
    let address = find(c"prim_version")?;
    // SAFETY: primalloc.h declares `const char *prim_version(void)`, a constant string.
    unsafe {
        let prim_version: extern "C" fn() -> *const c_char = std::mem::transmute(address);
        text(prim_version())
    }
}

fn mimalloc_version() -> Option<String> {
    let address = find(c"mi_version")?;
    // SAFETY: mimalloc documents `int mi_version(void)`.
    let number = unsafe {
        let mi_version: extern "C" fn() -> c_int = std::mem::transmute(address);
        mi_version()
    };
    Some(mimalloc_version_text(number))
}

/// 217 is 2.1.7; newer releases write 30403 for 3.4.3.
fn mimalloc_version_text(number: i32) -> String {
    let (major, minor, patch) = match number {
        0..=999 => (number / 100, number / 10 % 10, number % 10),
        _ => (number / 10_000, number / 100 % 100, number % 100),
    };
    format!("{major}.{minor}.{patch}")
}

fn jemalloc_version() -> Option<String> {
    let address = find(c"mallctl")?;
    let mut version: *const c_char = ptr::null();
    let mut length = size_of_val(&version);
    // SAFETY: jemalloc documents this signature, and "version" as a `const char *` to read.
    unsafe {
        let mallctl: extern "C" fn(
            *const c_char,
            *mut c_void,
            *mut usize,
            *mut c_void,
            usize,
        ) -> c_int = std::mem::transmute(address);
        let target = (&raw mut version).cast();
        let status = mallctl(c"version".as_ptr(), target, &mut length, ptr::null_mut(), 0);
        if status != 0 {
            return None;
        }
        text(version)
    }
    .map(|version| match version.split_once("-0-g") {
        Some((number, _commit)) => number.to_owned(),
        None => version,
    })
}

fn gperftools_version() -> Option<String> {
    let address = find(c"tc_version")?;
    let (mut major, mut minor) = (0, 0);
    let mut patch: *const c_char = ptr::null();
    // SAFETY: gperftools documents `const char *tc_version(int *, int *, const char **)`.
    unsafe {
        let tc_version: extern "C" fn(*mut c_int, *mut c_int, *mut *const c_char) -> *const c_char =
            std::mem::transmute(address);
        tc_version(&mut major, &mut minor, &mut patch);
    }
    // SAFETY: the patch level is a constant string, or null.
    let patch = unsafe { text(patch) }.unwrap_or_default();
    Some(format!("{major}.{minor}{patch}"))
}

/// # Safety
/// `string` is null or ends in a zero.
unsafe fn text(string: *const c_char) -> Option<String> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not null, so it ends in a zero, as the caller promises.
    let text = unsafe { CStr::from_ptr(string) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mimalloc_has_two_ways_to_write_its_version() {
        assert_eq!(mimalloc_version_text(209), "2.0.9");
        assert_eq!(mimalloc_version_text(30403), "3.4.3");
    }

    #[test]
    fn malloc_comes_from_some_file() {
        assert!(file_that_defines(c"malloc").is_some());
        assert_eq!(file_that_defines(c"no_such_function_anywhere"), None);
    }
}
