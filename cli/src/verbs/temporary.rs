//! A directory for what a program writes for us, gone with the value.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::mkdtemp;

pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub fn new() -> Result<TemporaryDirectory> {
        let pattern = std::env::temp_dir().join("primalloc-XXXXXX");
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

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
