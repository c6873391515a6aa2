//! Files that are written whole or not at all: beside what was there, whose place they take then.

use std::fs::{self, OpenOptions};
use std::io;
use std::iter::successors;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, SigmaskHow};

/// As many links the kernel follows; a ring of them has no end.
const LINKS_MAX: usize = 40;

/// `write` is told the place to write to. What could be written only in part is not left behind,
/// and what was there is kept.
pub fn write_whole(path: &Path, write: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
    let target = target_of(path);
    let draft = if is_of_descriptor(path) { None } else { Draft::beside(&target) };
    let written = match draft {
        None => write_in_place(path, write),
        Some(draft) => write(&draft.path).and_then(|()| match fs::rename(&draft.path, &target) {
            Ok(()) => Ok(()),
            // Nothing takes the place of a file that is mounted.
            Err(_) => write_in_place(path, write),
        }),
    };
    written.with_context(|| format!("{}: cannot be written", path.display()))
}

fn write_in_place(path: &Path, write: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_new = !path.exists();
    let written = write(path);
    if written.is_err() && is_new {
        remove_new(path);
    }
    written
}

/// A file that is to take another's place; gone with the value if it has not. Signals wait until
/// then, so that none leaves it behind.
struct Draft {
    path: PathBuf,
    signal_mask: SigSet,
}

impl Draft {
    /// None where what is there has to stay what it is: a device or a pipe, a file that has other
    /// names, or an owner whom ours would not have; or where no other file can be made.
    fn beside(target: &Path) -> Option<Draft> {
        let old = fs::metadata(target).ok();
        if let Some(old) = &old {
            if !old.is_file() || old.nlink() > 1 {
                return None;
            }
            // Who may not write to a file might still take its place.
            OpenOptions::new().append(true).open(target).ok()?;
        }
        let path = target.with_file_name(format!(".primalloc-{}", std::process::id()));
        let signal_mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()?;
        let Ok(file) = OpenOptions::new().write(true).create_new(true).open(&path) else {
            let _ = signal_mask.thread_set_mask();
            return None;
        };
        let draft = Draft { path, signal_mask };
        if let Some(old) = old {
            let new = file.metadata().ok()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                return None;
            }
            file.set_permissions(old.permissions()).ok()?;
        }
        Some(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.signal_mask.thread_set_mask();
    }
}

/// A file that was made through `path`. A link that led to nothing leads to nothing again.
pub fn remove_new(path: &Path) {
    let target = target_of(path);
    if fs::symlink_metadata(&target).is_ok_and(|found| found.is_file()) {
        let _ = fs::remove_file(target);
    }
}

/// Where links lead, even if nothing is there.
pub fn target_of(path: &Path) -> PathBuf {
    links(path).last().unwrap_or_else(|| path.to_owned())
}

/// The path, and what each link on the way leads to.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |link: &PathBuf| {
        let next = fs::read_link(link).ok()?;
        Some(link.parent().unwrap_or(Path::new("")).join(next))
    };
    successors(Some(path.to_owned()), next).take(LINKS_MAX + 1)
}

/// Whether the path, as /dev/stdout, leads through one of /proc to an open file: whoever has that
/// open looks for what is written in that one, not in another of its name.
fn is_of_descriptor(path: &Path) -> bool {
    let is_in_proc = |link: PathBuf| {
        link.parent()
            .and_then(|parent| parent.canonicalize().ok())
            .is_some_and(|directory| directory.starts_with("/proc"))
    };
    links(path).any(is_in_proc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::temporary::TemporaryDirectory;

    #[test]
    fn a_part_of_a_file_is_not_left_where_nothing_was() {
        let directory = TemporaryDirectory::new().unwrap();
        let path = directory.path().join("page.html");
        let fail = || {
            write_whole(&path, |place| {
                fs::write(place, "a part")?;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            })
        };
        let error = format!("{:#}", fail().unwrap_err());
        assert!(error.contains("page.html: cannot be written: no storage"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        fs::write(&path, "another's").unwrap();
        assert!(fail().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
