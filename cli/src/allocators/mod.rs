//! The allocators of this system: which there are, where they lie, whether they load.
//!
//!   candidates.rs  which of them to compare, each with settings of its own
//!   ld_cache.rs    the loader's list of libraries
//!   probe.rs       starts the tool anew under a library to see that it serves

mod candidates;
pub mod ld_cache;
mod probe;

use std::ffi::{CStr, OsStr};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::library;
use crate::program::Image;
pub use candidates::{Candidate, select};
use ld_cache::LdCache;
pub use probe::{ProbeAnswer, check_serves, option_complaints, option_list, probe};

pub const GLIBC: &str = "glibc";
pub const PRIMALLOC: &str = "primalloc";

/// An allocator by the names that its library goes by, the most specific first.
struct Known {
    name: &'static str,
    file_names: &'static [&'static str],
}

const KNOWN: [Known; 8] = [
    Known { name: "jemalloc", file_names: &["libjemalloc.so.2", "libjemalloc.so.1"] },
    Known {
        name: "mimalloc",
        file_names: &[
            "libmimalloc.so.3",
            "libmimalloc.so.2",
            "libmimalloc.so.2.0",
            "libmimalloc.so",
        ],
    },
    Known {
        name: "tcmalloc",
        file_names: &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"],
    },
    Known { name: "snmalloc", file_names: &["libsnmallocshim.so"] },
    Known { name: "rpmalloc", file_names: &["librpmallocwrap.so", "librpmalloc.so"] },
    Known { name: "hardened_malloc", file_names: &["libhardened_malloc.so"] },
    Known { name: "mesh", file_names: &["libmesh.so"] },
    Known { name: "hoard", file_names: &["libhoard.so"] },
];

/// A name for the tables, and the library to preload; glibc's own malloc needs none.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocator {
    pub name: String,
    pub library: Option<PathBuf>,
}

impl Allocator {
    fn glibc() -> Allocator {
        Allocator { name: GLIBC.to_owned(), library: None }
    }

    fn with_library(name: &str, library: PathBuf) -> Allocator {
        Allocator { name: name.to_owned(), library: Some(library) }
    }
}

/// What trying an allocator has shown.
pub struct Trial {
    pub version: Option<String>,
    /// Why it does not serve a program, if it does not.
    pub problem: Option<String>,
}

impl Allocator {
    /// The version is the one that it gives itself, else that in its library's name.
    pub fn try_out(&self) -> Trial {
        let Some(library) = &self.library else {
            return Trial { version: Some(glibc_version_number()), problem: None };
        };
        let (told, problem) = match probe(library) {
            Ok(answer) => (answer.version, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let of_name = || version_of_soname(&Image::read(library).ok()?.soname?);
        Trial { version: told.or_else(of_name), problem }
    }
}

/// "libtcmalloc.so.4" is some version 4.
fn version_of_soname(soname: &str) -> Option<String> {
    let (_, version) = soname.split_once(".so.")?;
    Some(format!("so.{version}"))
}

/// The name and version of the C library that this tool runs on.
pub fn glibc_version() -> String {
    format!("{GLIBC} {}", glibc_version_number())
}

fn glibc_version_number() -> String {
    // SAFETY: glibc returns a constant string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// Every allocator found here; glibc, which is always there, comes first.
pub fn find_all(primalloc: Option<&Path>) -> Result<Vec<Allocator>> {
    let cache = ld_cache::read();
    let mut found = vec![Allocator::glibc()];
    let ours = match primalloc {
        Some(path) => Some(library::named(path)?),
        None => library::installed_library(),
    };
    found.extend(ours.map(|library| Allocator::with_library(PRIMALLOC, library)));
    found.extend(KNOWN.iter().filter_map(|known| find_known(known, &cache)));
    Ok(found)
}

/// The allocators that a word names: glibc, jemalloc, NAME=PATH, ...; several where it is `all`.
fn named(word: &str, primalloc: Option<&Path>) -> Result<Vec<Allocator>> {
    if let Some((name, path)) = word.split_once('=') {
        if name.is_empty() || path.is_empty() {
            bail!("{word}: an allocator of your own is NAME=PATH");
        }
        return Ok(vec![Allocator::with_library(name, library::named(Path::new(path))?)]);
    }
    match word {
        "" => bail!("an allocator's name is missing"),
        "all" => find_all(primalloc),
        GLIBC => Ok(vec![Allocator::glibc()]),
        PRIMALLOC => Ok(vec![Allocator::with_library(PRIMALLOC, library::find(primalloc)?)]),
        name => match KNOWN.iter().find(|known| known.name == name) {
            Some(known) => {
                find_known(known, &ld_cache::read()).map(|found| vec![found]).ok_or_else(|| {
                    anyhow::anyhow!(
                        "{name} is not installed (no {}); if it lies elsewhere, name it: \
                         {name}=PATH",
                        known.file_names.join(", ")
                    )
                })
            }
            None => bail!(
                "{name}: no allocator known by this name. Known are glibc, primalloc, {} and all; \
                 any other is NAME=PATH",
                KNOWN.map(|known| known.name).join(", ")
            ),
        },
    }
}

fn find_known(known: &Known, cache: &LdCache) -> Option<Allocator> {
    let directories = library::library_directories();
    known.file_names.iter().find_map(|file_name| {
        let in_directories =
            || directories.iter().map(|place| place.join(file_name)).find(|path| path.is_file());
        let path = cache.find(file_name).or_else(in_directories)?;
        Some(Allocator::with_library(known.name, path))
    })
}

/// Whether this is the library of an allocator that we know, by its file's name.
pub fn is_allocator_library(path: &Path) -> bool {
    name_of_library(path).is_some()
}

/// The name of the allocator that this is the library of.
pub fn name_of_library(path: impl AsRef<Path>) -> Option<&'static str> {
    let file_name = path.as_ref().file_name().and_then(OsStr::to_str)?;
    if file_name.starts_with("libprimalloc") {
        return Some(PRIMALLOC);
    }
    let is_of = |known: &&Known| known.file_names.iter().any(|name| file_name.starts_with(name));
    KNOWN.iter().find(is_of).map(|known| known.name)
}

/// Whether this is the C library, by its file's name; before 2.34 that was "libc-2.31.so".
pub fn is_glibc(path: &Path) -> bool {
    let file_name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    file_name == "libc.so.6" || (file_name.starts_with("libc-2.") && file_name.ends_with(".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(word: &str) -> String {
        named(word, None).unwrap_err().to_string()
    }

    #[test]
    fn glibc_is_always_there_and_needs_no_library() {
        assert_eq!(named("glibc", None).unwrap(), [Allocator::glibc()]);
    }

    #[test]
    fn what_cannot_be_selected_is_explained() {
        assert!(message("nomalloc").contains("no allocator known by this name"));
        assert!(message("mine=/no/such.so").contains("/no/such.so: no such library"));
        assert!(message("=/lib/x.so").contains("NAME=PATH"));
        assert_eq!(message(""), "an allocator's name is missing");
    }

    #[test]
    fn allocators_are_known_by_their_files() {
        assert!(is_allocator_library(Path::new("/usr/lib/libjemalloc.so.2")));
        assert!(is_allocator_library(Path::new("build/lib/libprimalloc.so")));
        assert!(!is_allocator_library(Path::new("/usr/lib/libfaketime.so.1")));
        assert!(is_glibc(Path::new("/usr/lib/x86_64-linux-gnu/libc.so.6")));
        assert!(is_glibc(Path::new("/lib/x86_64-linux-gnu/libc-2.31.so")));
        assert!(!is_glibc(Path::new("/lib/libcap.so.2")));
        assert_eq!(name_of_library("/opt/lib/libmimalloc.so.2.0"), Some("mimalloc"));
    }
}
