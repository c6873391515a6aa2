//! `primalloc faults`: what is counted of programs that do not end as most do.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use support::*;

static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| compile("faults.c", "counted", &["-O1", "-g", "-pthread"]));

/// What a turn of the fixture touches.
const BLOCK_PAGES: u64 = (64 << 20) / 4096;

fn faults(arguments: &[&str]) -> Value {
    let assert = tool().args(["faults", "--json"]).args(arguments).assert();
    serde_json::from_slice(&assert.get_output().stdout).expect("a report")
}

fn of_program(arguments: &[&str], words: &[&str]) -> Value {
    let program = ["--", PROGRAM.to_str().unwrap()];
    faults(&[arguments, &program, words].concat())
}

/// The fixture, told to begin.
fn begun(words: &[&str]) -> Child {
    let mut command = Command::new(&*PROGRAM);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "go").unwrap();
    child
}

fn drawn(found: &Value) -> u64 {
    let points = found["timeline"]["points"].as_array().unwrap();
    points.iter().map(|point| point["minor_faults"].as_u64().unwrap()).sum()
}

#[test]
fn the_timeline_has_all_that_is_counted() {
    for arguments in [&[][..], &["--no-perf"]] {
        for what in ["heap", "fork-heap", "fork-unseen"] {
            let found = of_program(arguments, &[what, "6"]);
            assert_eq!(found["minor_faults"], drawn(&found), "{what} {arguments:?}");
        }
    }
}

#[test]
fn an_interval_longer_than_the_rest_loses_nothing_that_was_seen() {
    let mut child = begun(&["wait-heap", "40"]);
    let pid = child.id().to_string();
    let found = faults(&["--no-perf", "--interval", "1m", "--pid", &pid]);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(found["minor_faults"].as_u64().unwrap() >= BLOCK_PAGES, "{found}");
}
