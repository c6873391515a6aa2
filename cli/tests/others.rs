//! Profiles that other allocators write, read as their owners have them.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::prelude::*;
use predicates::str::{contains, is_match};
use support::*;

/// What the program leaves in a new directory under another allocator's profiler; None where the
/// allocator is not installed.
fn written_by(library: &str, variable: &str, setting: impl Fn(&Path) -> String) -> Option<PathBuf> {
    let directory = FILES.join(library);
    fs::create_dir_all(&directory).unwrap();
    let program = compile("holder.c", &format!("held-by-{variable}"), &["-O1", "-g"]);
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library).env(variable, setting(&directory));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    if String::from_utf8_lossy(&output.stderr).contains("cannot be preloaded") {
        eprintln!("skipped: there is no {library}");
        return None;
    }
    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    Some(files.filter(|path| path.extension().is_some_and(|end| end == "heap")).max().unwrap())
}

/// 100 blocks of 10,000 bytes through a wrapper; jemalloc rounds them up to 10,240.
fn holds(file: &Path, size: &str) {
    let row = format!(r"(?m)^ *{size} +[\d.]+ % +100 .* cache_entry > xmalloc +holder.c:\d+ ");
    let allocator = contains("(in libjemalloc").or(contains("(in libtcmalloc"));
    tool().arg("report").arg(file).assert().success().stdout(
        is_match(row).unwrap().and(contains("    xmalloc  holder.c:")).and(allocator.not()),
    );
}

#[test]
fn gperftools() {
    let setting = |directory: &Path| directory.join("heap").display().to_string();
    let Some(file) = written_by("libtcmalloc.so.4", "HEAPPROFILE", setting) else { return };
    holds(&file, "977 KiB");
}

#[test]
fn jemalloc() {
    let setting = |directory: &Path| {
        format!(
            "prof:true,prof_final:true,lg_prof_sample:0,prof_prefix:{}/heap",
            directory.display()
        )
    };
    let Some(file) = written_by("libjemalloc.so.2", "MALLOC_CONF", setting) else { return };
    holds(&file, "1000 KiB");
}
