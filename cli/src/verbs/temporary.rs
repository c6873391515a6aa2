//! A directory for what a program writes for us, gone with the value.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::{geteuid, mkdtemp};

use super::process_files::NUMBER;

pub struct TemporaryDirectory {
    whole: PathBuf,
    /// Where the program writes.
    inner: PathBuf,
}

impl TemporaryDirectory {
    pub fn new() -> Result<TemporaryDirectory> {
        let whole = made_in(&place()?)?;
        let mut directory = TemporaryDirectory { inner: whole.clone(), whole };
        if geteuid().is_root() {
            directory.open()?;
        }
        Ok(directory)
    }

    /// A program that root starts may become another user before it writes. So everybody may write
    /// in a directory that nobody finds who was not told its name.
    fn open(&mut self) -> Result<()> {
        self.inner = made_in(&self.whole)?;
        for (path, mode) in [(&self.whole, 0o711), (&self.inner, 0o1733)] {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.inner
    }

    /// The profiles in it.
    pub fn profiles(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.inner).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(".pb.gz"));
        files.sort();
        files
    }
}

fn made_in(parent: &Path) -> Result<PathBuf> {
    let pattern = parent.join("primalloc-XXXXXX");
    mkdtemp(&pattern).with_context(|| format!("{}: cannot be made", pattern.display()))
}

/// Where programs find it wherever they go. In the library's settings a comma ends a name.
fn place() -> Result<PathBuf> {
    let wanted = std::env::temp_dir();
    if wanted.as_os_str().is_empty() {
        return Ok(PathBuf::from("/tmp"));
    }
    let absolute = std::path::absolute(&wanted);
    let wanted = absolute.with_context(|| format!("{}: cannot be found", wanted.display()))?;
    let text = wanted.to_string_lossy();
    let has_meaning = text.contains(',') || text.contains(NUMBER);
    Ok(if has_meaning { PathBuf::from("/tmp") } else { wanted })
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_sees_what_is_in_it() {
        let directory = TemporaryDirectory::new().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let is_root = geteuid().is_root();
        assert_eq!(mode(directory.path()), if is_root { 0o1733 } else { 0o700 });
        assert_eq!(mode(&directory.whole), if is_root { 0o711 } else { 0o700 });
        let whole = directory.whole.clone();
        fs::write(directory.path().join("one.pb.gz"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("two.pb.gz")).unwrap();
        assert_eq!(directory.profiles(), [directory.path().join("one.pb.gz")]);
        drop(directory);
        assert!(!whole.exists());
    }
}
