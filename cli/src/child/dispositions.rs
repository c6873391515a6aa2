//! What signals do to the tool itself, and to the programs that it starts.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Whether whoever started the tool ignores SIGXFSZ, which programs inherit.
static FILE_SIZE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Rust ignores SIGPIPE: with the default, `primalloc ps | head` ends without a message. A caller
/// that ignores SIGCHLD would have the kernel throw away how our children ended. And of a file that
/// may not become so large an error tells more than the end by SIGXFSZ.
pub fn take_own() {
    for number in [Signal::SIGPIPE, Signal::SIGCHLD] {
        // SAFETY: the default disposition runs no handler, so there is none to misbehave.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
    // SAFETY: nor does ignoring.
    let before = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    FILE_SIZE_WAS_IGNORED.store(matches!(before, Ok(SigHandler::SigIgn)), Ordering::Relaxed);
}

/// Runs in the child, between fork and exec: what the tool ignores for itself alone.
pub fn give_back() -> io::Result<()> {
    if !FILE_SIZE_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: the default disposition runs no handler, so there is none to misbehave.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigDfl) }?;
    }
    Ok(())
}
