//! The tool and the library as they are built together; skipped where the library is not built.

mod support;

use std::path::{Path, PathBuf};

use predicates::prelude::*;
use predicates::str::contains;
use support::*;

fn real_library() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/lib/libprimalloc.so");
    let library = path.canonicalize().ok();
    if library.is_none() {
        eprintln!("skipped: {} is not built", path.display());
    }
    library
}

#[test]
fn it_answers_serves_and_is_listed() {
    let Some(library) = real_library() else {
        return;
    };
    let mut run = tool();
    run.env("PRIMALLOC_LIBRARY", &library).args(["run", "--", "sh", "-c", "ls / | sort"]);
    run.assert().success().stderr("").stdout(contains("etc\n"));

    let mut list = tool();
    list.env("PRIMALLOC_LIBRARY", &library).arg("allocators");
    let version = env!("CARGO_PKG_VERSION");
    list.assert().success().stdout(contains(format!("primalloc  {version}    yes")));
}

#[test]
fn only_exe_keeps_it_from_children() {
    let Some(library) = real_library() else {
        return;
    };
    let mut run = tool();
    run.env("PRIMALLOC_LIBRARY", &library);
    run.args(["run", "--only-exe", "--", "sh", "-c", "cat /proc/self/maps; exit 0"]);
    run.assert().success().stdout(contains("libprimalloc").not());
}
