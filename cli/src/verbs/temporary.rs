//! A directory for what a program writes for us, gone with the value.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::mkdtemp;

use super::process_files::NUMBER;

pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub fn new() -> Result<TemporaryDirectory> {
        let pattern = place()?.join("primalloc-XXXXXX");
        let made = mkdtemp(&pattern);
        made.map(TemporaryDirectory)
            .with_context(|| format!("{}: cannot be made", pattern.display()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The profiles in it.
    pub fn profiles(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(".pb.gz"));
        files.sort();
        files
    }
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
        let _ = fs::remove_dir_all(&self.0);
    }
}
