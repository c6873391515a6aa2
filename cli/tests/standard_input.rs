//! `-` is standard input to whatever verb reads a file.

mod support;

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Output, Stdio};

use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use support::explained::Running;
use support::*;

/// The tool with a file, not a pipe, to read from.
fn with_file(arguments: &[&str], text: &str) -> Output {
    let path = FILES.join(format!("{}-input", arguments[0]));
    fs::write(&path, text).unwrap();
    plain_tool().args(arguments).stdin(File::open(path).unwrap()).output().unwrap()
}

#[test]
fn a_profile() {
    let text = "main;work 1000\n";
    let path = FILES.join("a.txt");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let shown = tool().args(["report", "-"]).write_stdin(text).assert().success();
    shown.stdout(contains("standard input").and(contains("work")));
    for (before, after) in [("-", path), (path, "-")] {
        let compared = tool().args(["diff", before, after]).write_stdin(text).assert().success();
        compared.stdout(contains("standard input").and(contains("No function holds more")));
    }
    let twice = tool().args(["diff", "-", "-"]).write_stdin(text).assert().code(125).stdout("");
    twice.stderr(contains("standard input can be read only once: name a file for the other"));
    let nothing = tool().args(["report", "-"]).assert().code(125).stdout("");
    nothing.stderr("primalloc: standard input: is empty\n");
}

/// A pipe has nothing left by the time that the library would read it.
#[test]
fn suppressions() {
    let Some(library) = real_library() else { return };
    let loser = compile("loser.c", "loser", &["-O0", "-g"]);
    let leaks = |file: &str, rules: &str| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).args(["leaks", "--suppressions", file, "--"]);
        tool.arg(&loser).write_stdin(rules).assert()
    };
    for file in ["-", "/dev/stdin"] {
        leaks(file, "leak:make_list\n").success().stderr(contains("Nothing leaked"));
        leaks(file, "leak:other\n").code(23);
    }
    let wrong = leaks("-", "garbage\n").code(125);
    wrong.stderr(starts_with("primalloc: standard input:1: is no line \"leak:PATTERN\""));
}

#[test]
fn what_the_program_reads_and_cores_must_be_files() {
    let compare = ["compare", "--with=glibc", "-n2", "--input=-", "--", "grep", "-q", "again"];
    let output = with_file(&compare, "again\n");
    assert!(output.status.success(), "{output:?}");
    let of_pipe = tool().args(compare).write_stdin("again\n").assert().code(125);
    of_pipe.stderr(contains("/dev/stdin: can be read only once"));

    let output = with_file(&["explain", "-"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/stdin: is empty"), "{output:?}");
    let of_pipe = tool().args(["explain", "-"]).write_stdin("core").assert().code(125);
    of_pipe.stderr(contains("/dev/stdin: is no plain file, as a core must be"));
}

/// As of a program that draws one over the other; they are passed on before their end.
#[test]
fn a_line_without_an_end() {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 1000000; exec \"$0\" symbolize </dev/zero"]);
    limited.arg(plain_tool().get_program()).stdout(Stdio::piped());
    let mut running = Running(limited.spawn().unwrap());
    let mut passed_on = vec![1; 4 << 20];
    running.0.stdout.take().unwrap().read_exact(&mut passed_on).unwrap();
    assert!(passed_on.iter().all(|byte| *byte == 0));
}
