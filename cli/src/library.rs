//! Finds libprimalloc.so.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::allocators::ld_cache;
use crate::program::Image;

pub const FILE_NAME: &str = "libprimalloc.so";
/// All that is there where only programs run and none is linked.
const SONAME: &str = "libprimalloc.so.0";

/// The library named by the user, else the first one found, as an absolute path.
pub fn find(path: Option<&Path>) -> Result<PathBuf> {
    match path {
        Some(path) => named(path).and_then(only_ours),
        None => installed_library().with_context(|| {
            let places: Vec<String> =
                directories().iter().map(|path| format!("  {}", path.display())).collect();
            format!(
                "{FILE_NAME} is nowhere to be found; name it with --library PATH or in the \
                 environment variable PRIMALLOC_LIBRARY. It was looked for, and {SONAME}, \
                 in:\n{}\n  the loader's cache",
                places.join("\n")
            )
        }),
    }
}

/// Of another one, one would wait in vain for the answer. What cannot be read is refused by whoever
/// is to load it.
fn only_ours(library: PathBuf) -> Result<PathBuf> {
    if Image::read(&library).is_ok_and(|image| !image.has_version) {
        bail!(
            "{}: not a library of primalloc; compare, advise and faults take others, as NAME=PATH",
            library.display()
        );
    }
    Ok(library)
}

/// Whatever library it is, as an absolute path.
pub fn named(path: &Path) -> Result<PathBuf> {
    if !path.exists() {
        bail!("{}: no such library", path.display());
    }
    if !path.is_file() {
        bail!("{}: not a library but a {}", path.display(), kind_of(path));
    }
    Ok(std::path::absolute(path)?)
}

fn kind_of(path: &Path) -> &'static str {
    if path.is_dir() { "directory" } else { "special file" }
}

pub fn installed_library() -> Option<PathBuf> {
    let in_cache = || {
        let cache = ld_cache::read();
        cache.find(SONAME).or_else(|| cache.find(FILE_NAME))
    };
    candidates().into_iter().find(|path| path.is_file()).or_else(in_cache)
}

fn candidates() -> Vec<PathBuf> {
    let both = |directory: PathBuf| [FILE_NAME, SONAME].map(|name| directory.join(name));
    directories().into_iter().flat_map(both).collect()
}

/// Those below the tool's own prefix come first.
fn directories() -> Vec<PathBuf> {
    let prefix = env::current_exe()
        .and_then(|tool| tool.canonicalize())
        .ok()
        .and_then(|tool| Some(tool.parent()?.parent()?.to_owned()));
    prefix.iter().flat_map(|prefix| below(prefix)).chain(library_directories()).collect()
}

/// Where libraries lie on a Linux system, the administrator's own first.
pub fn library_directories() -> Vec<PathBuf> {
    ["/usr/local", "/usr", "/"].iter().flat_map(|prefix| below(Path::new(prefix))).collect()
}

/// Where they lie below a prefix: on Debian, on Fedora, and everywhere else.
fn below(prefix: &Path) -> [PathBuf; 3] {
    let of_debian = format!("lib/{}-linux-gnu", env::consts::ARCH);
    [of_debian.as_str(), "lib64", "lib"].map(|directory| prefix.join(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_programs_load_is_looked_for_beside_the_one_to_link() {
        let found = candidates();
        for directory in library_directories() {
            let place = |name: &str| found.iter().position(|path| *path == directory.join(name));
            assert!(place(FILE_NAME).is_some() && place(FILE_NAME) < place(SONAME));
        }
    }
}
