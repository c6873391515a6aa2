//! `primalloc watch`, on processes that grow by known blocks, or not at all.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use support::explained::*;
use support::*;

fn growing(name: &str, steps: &str, preload: Option<&str>) -> Running {
    let program = compile("growing.c", name, &["-O1", "-fno-builtin"]);
    let mut command = Command::new(program);
    command.arg(steps).envs(preload.map(|library| ("LD_PRELOAD", library)));
    Running::started(&mut command)
}

fn watch(process: &Running, words: &[&str]) -> assert_cmd::assert::Assert {
    tool().arg("watch").args(words).arg(process.0.id().to_string()).assert()
}

/// What is told of a process that grows. A busy machine gets to few looks in two seconds: then
/// another one is watched for longer.
fn told(grows: impl Fn() -> Running, words: &[&str], is_enough: impl Fn(&str) -> bool) -> String {
    let tell = |duration| {
        let words = [&["--every", "20ms", "--duration", duration], words].concat();
        let told = watch(&grows(), &words).success().stderr("");
        let text = String::from_utf8(told.get_output().stdout.clone()).unwrap();
        println!("{text}");
        text
    };
    ["2s", "8s", "32s"].into_iter().map(tell).find(|text| is_enough(text)).expect("looks enough")
}

fn looks(found: &Value) -> &Vec<Value> {
    found["moments"].as_array().unwrap()
}

#[test]
fn what_grows_is_told_with_its_size() {
    let Some(library) = preloaded() else { return };
    let grows = || growing("growing", "10000", Some(&library));
    let page = FILES.join("watched.html");
    let words = ["--json", "--html", page.to_str().unwrap()];
    let has_looks = |text: &str| looks(&serde_json::from_str(text).unwrap()).len() > 8;
    let found: Value = serde_json::from_str(&told(grows, &words, has_looks)).unwrap();
    assert_eq!(found["end"]["because"], "time_is_up");
    let trends = found["trends"].as_array().unwrap();
    let blocks = trends.iter().find(|trend| trend["use"] == "blocks").unwrap();
    assert_eq!(blocks["has_grown"], true, "{blocks}");
    assert_eq!(found["sizes"][0]["block_bytes"], 1024);
    looks(&found).iter().for_each(assert_adds_up);
    assert_eq!(found["first"]["pid"], found["last"]["pid"]);
    let conclusions = found["conclusions"].to_string();
    assert!(conclusions.contains("not freed, most of 1,024 bytes"), "{conclusions}");
    assert!(conclusions.contains("primalloc profile -- growing ..."), "{conclusions}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Blocks in use by size") && page.contains("<polygon"));
}

#[test]
fn who_does_nothing_has_not_grown() {
    let Some(library) = preloaded() else { return };
    let process = growing("resting", "0", Some(&library));
    watch(&process, &["--every", "20ms", "--duration", "200ms"]).success().stderr("").stdout(
        contains("resident, as ")
            .and(contains("COURSE"))
            .and(contains("It has not grown in"))
            .and(contains("BLOCKS FIRST").not()),
    );
}

#[test]
fn of_others_the_kernel_tells_what_grows() {
    let grows = || growing("growing-libc", "10000", None);
    let text = told(grows, &[], |text| text.contains("primalloc run -- growing-libc ..."));
    assert!(text.contains("not on primalloc"));
}

/// The tool, once it has looked and waits.
fn watching(process: &Running, words: &[&str]) -> Child {
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("primalloc"));
    tool.arg("watch").args(words).arg(process.0.id().to_string());
    let tool = tool.stdout(Stdio::piped()).spawn().unwrap();
    let waits = || procfs::process::Process::new(tool.id() as i32)?.status();
    while waits().unwrap().voluntary_ctxt_switches < Some(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    tool
}

#[test]
fn it_ends_with_the_process() {
    let mut process = growing("ending", "0", None);
    let tool = watching(&process, &["--json"]);
    drop(process.0.stdin.take());
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["end"]["because"], "process_ended");
}

/// By a signal that is not ignored in the background of a script, as Ctrl-C's is.
#[test]
fn a_request_ends_it_with_the_report() {
    let process = growing("interrupted", "0", None);
    let tool = watching(&process, &[]);
    kill(Pid::from_raw(tool.id() as i32), Signal::SIGTERM).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("It has not grown in"));
}

/// As by Ctrl-Z and fg.
#[test]
fn it_stops_and_goes_on_as_it_is_asked() {
    let process = growing("stopped", "0", None);
    let tool = watching(&process, &[]);
    let pid = Pid::from_raw(tool.id() as i32);
    let state = || procfs::process::Process::new(pid.as_raw())?.stat();
    kill(pid, Signal::SIGTSTP).unwrap();
    wait_until("it to stop", || state().unwrap().state == 'T');
    kill(pid, Signal::SIGCONT).unwrap();
    wait_until("it to go on", || state().unwrap().state != 'T');
    kill(pid, Signal::SIGTERM).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
}

/// The tool with a program that it starts on the library itself, if that is built.
fn watch_program(words: &[&str], program: &[&str]) -> Option<assert_cmd::assert::Assert> {
    let mut tool = tool();
    tool.env("PRIMALLOC_LIBRARY", real_library()?);
    Some(tool.arg("watch").args(words).arg("--").args(program).assert())
}

#[test]
fn a_program_is_watched_from_its_start() {
    let path = compile("growing.c", "growing-started", &["-O1", "-fno-builtin"]);
    let program = [path.to_str().unwrap(), "200"];
    let page = FILES.join("started.json");
    let json = format!("--json={}", page.display());
    let Some(told) = watch_program(&[&json], &program) else { return };
    told.success().stdout("ready\n").stderr(contains("until the process ended"));
    let found: Value = serde_json::from_slice(&std::fs::read(page).unwrap()).unwrap();
    assert_eq!(found["end"]["because"], "process_ended");
    assert_eq!(found["last"]["is_ours"], true);

    let both = watch_program(&["--every", "20ms", "--json"], &program).unwrap().success();
    both.stdout(predicates::str::starts_with("{")).stderr("ready\n");
    // Its report is beside what the program writes, and its end is the tool's.
    let shell = ["sh", "-c", "echo out; sleep 1; exit 7"];
    let told = watch_program(&["--every", "20ms"], &shell).unwrap().code(7);
    told.stdout("out\n").stderr(contains("COURSE").and(contains("until the process ended")));
}

/// What a shell has that becomes the program is not where that one began.
#[test]
fn another_program_in_the_process_begins_anew() {
    let path = compile("growing.c", "growing-next", &["-O1", "-fno-builtin"]);
    let script = format!("sleep 1; exec {} 200", path.display());
    let words = ["--every", "20ms", "--json"];
    let Some(told) = watch_program(&words, &["sh", "-c", &script]) else { return };
    let found: Value = serde_json::from_slice(&told.success().get_output().stdout).unwrap();
    assert_eq!(found["first"]["program"], "growing-next");
    assert_eq!(found["last"]["program"], "growing-next");
    assert!(found["seconds"].as_f64().unwrap() > 0.1, "{found}");
    let conclusions = found["conclusions"].to_string();
    assert!(conclusions.contains("It began as sh, and has become"), "{conclusions}");
}

/// It has all of it and is gone before it is looked at again.
#[test]
fn of_a_program_that_is_soon_over_the_kernels_peak_is_told() {
    let path = compile("growing.c", "growing-soon", &["-O1", "-fno-builtin", "-DSTEP_US=0"]);
    let path = path.to_str().unwrap();
    let Some(told) = watch_program(&["--every", "1m"], &[path, "200"]) else { return };
    told.success().stdout("ready\n").stderr(
        contains("resident at the only look\n")
            .and(contains("over after one look, which tells nothing; --every 20ms looks more"))
            .and(contains("The kernel counted "))
            .and(contains("as 0 before").not())
            .and(contains("not on primalloc").not()),
    );
}

#[test]
fn a_program_outlives_the_time_that_it_is_watched() {
    let shell = ["sh", "-c", "sleep 0.5; echo done; kill -TERM $$"];
    let words = ["--every", "20ms", "--duration", "50ms"];
    let Some(told) = watch_program(&words, &shell) else { return };
    let told = told.stdout("done\n").stderr(contains("COURSE").and(contains("ended").not()));
    let status = told.get_output().status;
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{status}");
}

#[test]
fn a_program_that_ends_at_once_is_no_riddle() {
    let said = tool().args(["watch", "--", "sh", "-c", "exit 3"]).assert().code(3).stdout("");
    said.stderr(contains("COURSE").or(contains("has ended before it could be looked at")));
    let program = STATIC_PROGRAM.to_str().unwrap();
    let said = tool().args(["watch", "--", program]).assert().code(126);
    said.stderr(contains("is linked statically"));
    tool().args(["watch", "--", "/no/such/program"]).assert().code(127);
}

#[test]
fn what_cannot_be_watched_is_named() {
    let refused = |words: &[&str]| tool().arg("watch").args(words).assert().code(125).stdout("");
    refused(&["2147483647"]).stderr("primalloc: 2147483647: there is no such process\n");
    refused(&["0"]).stderr(contains("invalid value '0' for '[PID]': a process has a number"));
    refused(&["service"]).stderr(contains("a program stands behind --"));
    for short in ["0s", "19ms"] {
        let says = contains("a time from 20ms to 168 hours is needed");
        refused(&["--every", short, "1"]).stderr(says);
    }
    refused(&["--every", "5", "1"]).stderr(contains("a unit is missing: 5ms, 5s"));
    refused(&["--html", "/no/such/page", "1"]).stderr(contains("/no/such/page: cannot be written"));
    refused(&[]).stderr(contains("<PID>"));
    refused(&["1", "--", "true"]).stderr(contains("'[PID]' cannot be used with"));
    refused(&["--option", "purge_delay=0", "1"]).stderr(contains("cannot be used with"));
}
