//! `primalloc faults --pid`: how a running process is named, and what belongs to it.

mod support;

use predicates::prelude::*;
use predicates::str::contains;
use support::*;

#[test]
fn a_process_is_named_by_its_number() {
    let refused =
        |arguments: &[&str]| tool().arg("faults").args(arguments).assert().code(125).stdout("");
    for text in ["0", "-1", "99999999999"] {
        refused(&["--pid", text]).stderr(contains("no process has this number"));
    }
    for text in ["", "abc"] {
        refused(&["--pid", text]).stderr(contains("a process is named by its number"));
    }
}

#[test]
fn the_usage_shows_both_ways() {
    for verb in ["faults", "profile"] {
        let is_whole = || contains("-- <PROGRAM>").and(contains("--pid <PID>"));
        tool().arg(verb).assert().code(125).stderr(is_whole());
        let both = ["--duration", "1s", "--", "true"];
        tool().arg(verb).args(both).assert().code(125).stderr(contains("--pid"));
    }
}
