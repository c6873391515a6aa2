//! Whether a preloaded library can take effect in a program, told before it is started.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getgid, getuid};

use super::{CannotStart, Image, Program};

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
/// Without this bit, setgid marks a file for mandatory locking and gives no rights.
const GROUP_EXECUTE: u32 = 0o010;

const SANITIZERS: [&str; 4] = ["libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so"];

/// Says why `library` cannot take effect in `program`, if that is known.
pub fn check_preloadable(program: &Program, library: &Path) -> Result<(), CannotStart> {
    if let Some(privilege) = privilege_gained(&program.image) {
        return Err(CannotStart::Privileged { program: program.title(), privilege });
    }
    if File::open(&program.image).is_err() {
        // It may be executed though not read: the handshake will tell how that went.
        return Ok(());
    }
    let image = Image::read(&program.image).map_err(|error| CannotStart::Unreadable {
        program: program.title(),
        reason: error.to_string(),
    })?;
    let library_image = Image::read(library).map_err(|error| CannotStart::BadLibrary {
        library: library.display().to_string(),
        reason: error.to_string(),
    })?;
    check_machine(program, &image, library, &library_image)?;
    check_loader(program, &image, library)?;
    check_sanitizer(program, &image)
}

fn check_machine(
    program: &Program,
    image: &Image,
    library: &Path,
    library_image: &Image,
) -> Result<(), CannotStart> {
    if image.machine == library_image.machine {
        return Ok(());
    }
    Err(CannotStart::OtherMachine {
        program: program.title(),
        program_machine: image.machine.to_string(),
        library: library.display().to_string(),
        library_machine: library_image.machine.to_string(),
    })
}

fn check_loader(program: &Program, image: &Image, library: &Path) -> Result<(), CannotStart> {
    let title = program.title();
    let Some(loader) = &image.loader else {
        // The loader itself, started by name, is a file without a loader that honours preloads.
        let is_loader = image
            .soname
            .as_ref()
            .is_some_and(|name| name.starts_with("ld-") || name.starts_with("ld64.so"));
        return match (is_loader, image.is_go) {
            (true, _) => Ok(()),
            _ if image.has_note => Err(CannotStart::StaticWithUs { program: title }),
            (false, true) => Err(CannotStart::StaticGo { program: title }),
            (false, false) => Err(CannotStart::Static { program: title }),
        };
    };
    if loader.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl")) {
        return Err(CannotStart::Musl {
            program: title,
            loader: loader.display().to_string(),
            library: library.display().to_string(),
        });
    }
    if !loader.exists() {
        let interpreter = loader.display().to_string();
        return Err(CannotStart::NoInterpreter { program: title, interpreter });
    }
    Ok(())
}

fn check_sanitizer(program: &Program, image: &Image) -> Result<(), CannotStart> {
    let is_sanitizer = |name: &&String| SANITIZERS.iter().any(|prefix| name.starts_with(prefix));
    match image.needed.iter().find(is_sanitizer) {
        None => Ok(()),
        Some(runtime) => {
            Err(CannotStart::Sanitizer { program: program.title(), runtime: runtime.clone() })
        }
    }
}

/// What the program gains that its caller does not have: the loader is then in secure mode.
fn privilege_gained(image: &Path) -> Option<&'static str> {
    let facts = fs::metadata(image).ok()?;
    if statvfs(image).is_ok_and(|mount| mount.flags().contains(FsFlags::ST_NOSUID)) {
        return None;
    }
    if !getuid().is_root() && has_capabilities(image) {
        return Some("has file capabilities");
    }
    // Who has renounced new rights runs setuid programs with his own.
    if nix::sys::prctl::get_no_new_privs().unwrap_or(false) {
        return None;
    }
    let mode = facts.mode();
    if mode & SETUID != 0 && facts.uid() != getuid().as_raw() {
        return Some("is setuid");
    }
    if mode & SETGID != 0 && mode & GROUP_EXECUTE != 0 && facts.gid() != getgid().as_raw() {
        return Some("is setgid");
    }
    None
}

fn has_capabilities(image: &Path) -> bool {
    let Ok(path) = CString::new(image.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings end in a zero, and a null buffer of size 0 only asks for the length.
    let length = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    length > 0
}
