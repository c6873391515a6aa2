//! `leaks` with programs in other languages than C, to the last line of what it says.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::prelude::*;
use predicates::str::is_match;
use support::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What `leaks` prints of a program, after its status and the program's output were right.
fn leaks(program: &Path) -> Option<String> {
    let library = real_library()?;
    let mut leaks = tool();
    leaks.env("PRIMALLOC_LIBRARY", library).args(["leaks", "--"]).arg(program);
    let assert = leaks.assert().code(23).stdout("done\n");
    Some(String::from_utf8(assert.get_output().stderr.clone()).unwrap())
}

#[test]
fn a_program_in_cxx() {
    let program = FILES.join("cxx-loser");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++11", "-O1", "-g"]).arg(fixture("loser.cc")).arg("-o").arg(&program);
    assert!(compiler.status().unwrap().success());
    let Some(text) = leaks(&program) else { return };
    // Three orders of 40 bytes, each with a string of 101; one leads to all the others.
    assert!(text.contains("423 B in 6 blocks leaked: 40 B in 1 directly, 383 B in 5 through them"));
    assert!(text.contains("40 B in 1 block, which hold 383 B in 5 more, allocated at"), "{text}");
    let frames = "    shop::add<…>  loser.cc:17\n    shop::lose_orders  loser.cc:23\n";
    assert!(text.contains(frames), "{text}");
    assert_eq!(text.matches("allocated at").count(), 1, "{text}");
}

#[test]
fn a_program_in_rust() {
    let program = FILES.join("rust-loser");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition=2024", "-O", "-g"]).arg(fixture("loser.rs"));
    assert!(compiler.arg("-o").arg(&program).status().unwrap().success());
    let Some(text) = leaks(&program) else { return };
    // Three boxes of 24 bytes, each with 100 numbers.
    assert!(
        text.contains("2.41 KiB in 6 blocks leaked: 72 B in 3 directly, 2.34 KiB in 3"),
        "{text}"
    );
    assert!(
        text.contains("72 B in 3 blocks, which hold 2.34 KiB in 3 more, allocated at"),
        "{text}"
    );
    let frames =
        r"    alloc::boxed::\S+  \S+\n    loser::lose_order  loser.rs:11\n    loser::main  ";
    assert!(is_match(frames).unwrap().eval(&text), "{text}");
    assert_eq!(text.matches("allocated at").count(), 1, "{text}");
}

#[test]
fn a_program_of_roots_that_becomes_another_user() {
    let Some(library) = real_library().filter(|_| nix::unistd::geteuid().is_root()) else { return };
    let program = compile("loser.c", "stripped-of-rights", &["-O0", "-g"]);
    for (words, status) in [(&["leaks"][..], 23), (&["profile", "--rate", "1"], 0)] {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).args(words).arg("--").arg(&program).arg("65534");
        tool.assert().code(status).stderr(predicate::str::contains("make_list  loser.c:"));
    }
}
