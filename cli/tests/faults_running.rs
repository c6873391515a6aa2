//! `primalloc faults --pid`: how a running process is named, and what belongs to it.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use nix::unistd::gettid;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use support::explained::Running;
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

const NAMED: &str = "
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void NAME(volatile char *memory) {
    for (long i = 0; i < 4 << 20; i += 4096) memory[i] = 1;
}
int main(void) {
    for (puts(\"ready\"), fflush(stdout);; usleep(1000)) {
        char *memory = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        NAME(memory);
        munmap(memory, 4 << 20);
    }
}
";

/// As in a container: another file has its name here.
#[test]
fn functions_are_named_by_the_files_that_the_process_sees() {
    let source = script("named.c", NAMED);
    let built = |name: &str| {
        compile(source.to_str().unwrap(), name, &["-O1", &format!("-DNAME={name}_function")])
    };
    let (inside, outside) = (built("inside"), built("outside"));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" \"$1\" && exec \"$1\""]);
    command.args([&inside, &outside]).stdout(Stdio::piped());
    let mut process = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "ready\n" {
        eprintln!("skipped: only root may mount");
        return;
    }
    let id = process.0.id().to_string();
    let assert = tool().args(["faults", "--json", "--duration", "300ms", "--pid", &id]).assert();
    let found: Value = serde_json::from_slice(&assert.success().get_output().stdout).unwrap();
    if found["attributed"] == true {
        let site = &found["call_sites"][0];
        assert_eq!(site["function"], "inside_function", "{found}");
        assert_eq!(site["object"], outside.to_str().unwrap());
    }
}
