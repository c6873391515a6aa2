//! `primalloc faults --pid`: how a running process is named, and what belongs to it.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use nix::unistd::gettid;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
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
fn who_has_a_threads_number_asks_for_its_process() {
    let verbs: [&[&str]; 3] = [
        &["explain", "--json"],
        &["watch", "--duration", "50ms", "--json"],
        &["faults", "--no-perf", "--duration", "50ms", "--json", "--pid"],
    ];
    let ask = move || {
        let (thread, own) = (gettid().to_string(), std::process::id());
        let told = format!("primalloc: {thread} is a thread of process {own}; this is about");
        for verb in verbs {
            let assert = tool().args(verb).arg(&thread).assert().success();
            let assert = assert.stderr(contains(&told));
            let found: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
            let about = if verb[0] == "watch" { &found["first"] } else { &found };
            assert_eq!(about["pid"], own, "{verb:?}");
        }
    };
    std::thread::spawn(ask).join().unwrap();
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

/// What a shell's child takes, which was there before anybody watched.
fn of_a_child(arguments: &[&str]) -> Value {
    let program = compile("faults.c", "faulting", &["-O1", "-g", "-pthread"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" wait-heap 6; sleep 0.3; exit 7"]).arg(program);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");

    let mut tool = plain_tool();
    tool.args(["faults", "--json", "--pid", &shell.id().to_string()]).args(arguments);
    let tool = tool.stdout(Stdio::piped()).spawn().unwrap();
    let tasks = format!("/proc/{}/task", tool.id());
    wait_until("the tool to watch", || fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() > 1));
    writeln!(shell.stdin.take().unwrap(), "go").unwrap();
    assert_eq!(shell.wait().unwrap().code(), Some(7));
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_it_had_started_before_is_watched_as_well() {
    const BLOCK_PAGES: u64 = (64 << 20) / 4096;
    for arguments in [&[][..], &["--no-perf"]] {
        let found = of_a_child(arguments);
        assert!(found["minor_faults"].as_u64().unwrap() >= 6 * BLOCK_PAGES, "{found}");
        assert!(found["processes"].as_u64().unwrap() >= 2);
        if found["attributed"] == true {
            let kinds = found["kinds"].as_array().unwrap();
            let heap = kinds.iter().find(|row| row["kind"] == "allocator").unwrap();
            assert!(heap["share"].as_f64().unwrap() > 0.9, "{found}");
        }
    }
}
