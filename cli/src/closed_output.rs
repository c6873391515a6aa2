//! Whether the tool was started without standard output, or without standard error.
//!
//! The runtime opens /dev/null in their place before `main` begins, and reports would vanish there
//! without a word.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static ERROR_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls what stands in this section before the runtime begins.
// SAFETY: the section holds pointers to functions of this kind.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    OUTPUT_WAS_CLOSED.store(is_closed(libc::STDOUT_FILENO), Ordering::Relaxed);
    ERROR_WAS_CLOSED.store(is_closed(libc::STDERR_FILENO), Ordering::Relaxed);
}

fn is_closed(descriptor: i32) -> bool {
    // SAFETY: asks only whether the number is in use.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) < 0 }
}

/// The error that writing to standard output would have given.
pub fn check() -> io::Result<()> {
    check_flag(&OUTPUT_WAS_CLOSED)
}

/// The same of standard error, where reports go that stand beside a program's output.
pub fn check_error() -> io::Result<()> {
    check_flag(&ERROR_WAS_CLOSED)
}

fn check_flag(was_closed: &AtomicBool) -> io::Result<()> {
    match was_closed.load(Ordering::Relaxed) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF)),
        false => Ok(()),
    }
}
