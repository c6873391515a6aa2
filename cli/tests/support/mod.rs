//! What the integration tests share: the tool, a library that stands in for the real one, and
//! programs linked in every way that matters to it.
//!
//! Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod asked;
pub mod explained;
pub mod followed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;

/// A directory for what this test program makes, below the one that cargo keeps for tests.
pub static FILES: LazyLock<PathBuf> = LazyLock::new(|| {
    let own_name = std::env::current_exe().unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(own_name.file_name().unwrap());
    fs::create_dir_all(&directory).unwrap();
    directory.canonicalize().unwrap() // as the kernel names it
});

pub static FAKE_LIBRARY: LazyLock<PathBuf> =
    LazyLock::new(|| compile("fake_library.c", "libprimalloc.so", &["-shared", "-fPIC"]));

pub static SILENT_LIBRARY: LazyLock<PathBuf> =
    LazyLock::new(|| compile("fake_library.c", "libsilent.so", &["-shared", "-fPIC", "-DSILENT"]));

/// No allocator's.
pub static OTHER_LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = script("other_library.c", "int is_there = 1;\n");
    compile(source.to_str().unwrap(), "libother.so", &["-shared", "-fPIC"])
});

pub static STATIC_PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| compile("hello.c", "static-hello", &["-static"]));

/// Builds a fixture under a name of its own.
pub fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(source);
    let target = FILES.join(name);
    let status = Command::new("cc").arg(source).arg("-o").arg(&target).args(flags).status();
    assert!(status.expect("a C compiler is needed").success(), "{name} does not compile");
    target
}

/// The library itself, where it is built.
pub fn real_library() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/lib/libprimalloc.so");
    let library = path.canonicalize().ok();
    if library.is_none() {
        eprintln!("skipped: {} is not built", path.display());
    }
    library
}

/// An executable text file.
pub fn script(name: &str, text: &str) -> PathBuf {
    let path = FILES.join(name);
    let draft = FILES.join(format!("{name}.draft"));
    fs::write(&draft, text).unwrap();
    copy_program(&draft, &path);
    fs::remove_file(&draft).unwrap();
    set_mode(&path, 0o755);
    path
}

/// Copies a file that is to be run. It is not we who write it: what another test starts meanwhile
/// would inherit the open file, and the kernel runs nothing that somebody may write to.
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    assert!(Command::new("cp").arg(from.as_ref()).arg(to).status().unwrap().success());
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The tool with the stand-in library and nothing else of the caller's that matters.
pub fn tool() -> assert_cmd::Command {
    assert_cmd::Command::from_std(plain_tool())
}

/// The same for tests that have business with the running process.
pub fn plain_tool() -> Command {
    let mut command = Command::new(cargo_bin!("primalloc"));
    command
        .env("PRIMALLOC_LIBRARY", &*FAKE_LIBRARY)
        .env_remove("LD_PRELOAD")
        .env_remove("PRIMALLOC_OPTIONS")
        .stdin(Stdio::null());
    command
}

/// Waits until `is_so`, for as long as a loaded machine may take.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}
