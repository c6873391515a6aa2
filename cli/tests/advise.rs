//! `primalloc advise`: what it tries, what it says of it, and each way to write that down.

mod support;

use std::fs;

use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use serde_json::Value;
use support::*;

/// What programs do that are fast or slow, small or large.
const FAST: &str = "sleep 0.02";
const SLOW: &str = "sleep 0.25";
/// A busy machine may take that long for what is fast: then it is to be slower still.
const SLOWER: [&str; 3] = [SLOW, "sleep 1", "sleep 4"];
const SMALL: &str = ":";
const LARGE: &str = "dd bs=30M count=1 if=/dev/zero of=/dev/null 2> /dev/null";

fn advise(arguments: &[&str]) -> assert_cmd::Command {
    let mut tool = tool();
    tool.arg("advise").args(["--warmup", "0"]).args(arguments);
    tool
}

/// A program that does the one or the other as the variable MODE says.
fn program(name: &str, modes: &[(&str, &str)]) -> String {
    let cases: Vec<String> = modes.iter().map(|(mode, does)| format!("{mode}) {does};;")).collect();
    let text = format!("#!/bin/sh\ncase \"$MODE\" in {} esac\n", cases.join(" "));
    script(name, &text).display().to_string()
}

fn document(arguments: &[&str]) -> Value {
    let assert = advise(&["--json"]).args(arguments).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

/// What is said as soon as what is slow is slow enough.
fn said(of: impl Fn(&str) -> assert_cmd::Command, is_enough: impl Fn(&str) -> bool) -> String {
    let tell = |slow| {
        let told = of(slow).assert().success().stderr("");
        let text = String::from_utf8(told.get_output().stdout.clone()).unwrap();
        println!("{text}");
        text
    };
    SLOWER.into_iter().map(tell).find(|text| is_enough(text)).expect("what was to be said")
}

#[test]
fn the_best_is_named_with_what_to_type_for_it() {
    let page = FILES.join("advice.html").display().to_string();
    let of = |slow: &str| {
        let (both, neither) = (format!("{FAST}; {SMALL}"), format!("{slow}; {LARGE}"));
        let program = program("best", &[("good", &both), ("*", &neither)]);
        let with = "glibc,glibc:A=1,primalloc:MODE=good";
        advise(&["--with", with, "--html", &page, "--", &program])
    };
    let program = FILES.join("best").display().to_string();
    let says = "The fastest and the smallest is primalloc:MODE=good: ";
    let set = format!("LD_PRELOAD={} MODE=good {program}\n", FAKE_LIBRARY.display());
    let is_said = starts_with(format!("{program}\nmedian of 5 runs, in turns\nglibc 2."))
        .and(contains(", primalloc 9.9.9\n"))
        .and(contains("\n*  primalloc:MODE=good "))
        .and(contains("\n   glibc "))
        .and(contains("left out after 2 runs, far behind in time and memory: glibc:A=1\n"))
        .and(contains(says))
        .and(contains(format!("To take primalloc:MODE=good, run: {set}")));
    said(of, |text| is_said.eval(text));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>Time and peak memory, in parts of glibc&#39;s</h2>"));
    assert!(page.contains("primalloc advise</title>") && page.contains(says));
}

#[test]
fn json_has_the_advice_in_the_form_of_a_comparison() {
    let of = |slow: &str| {
        let (small, rest) = (format!("{slow}; {slow}; {slow}"), format!("{slow}; {slow}; {LARGE}"));
        let program = program("apart", &[("fast", LARGE), ("small", &small), ("*", &rest)]);
        let with = "glibc,glibc:MODE=fast,glibc:MODE=small";
        advise(&["--json", "-n", "4", "--with", with, "--", &program])
    };
    let text = said(of, |text| text.contains("The fastest is glibc:MODE=fast"));
    let program = FILES.join("apart").display().to_string();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["format"], &report["runs"]), (&1.into(), &4.into()));
    assert_eq!(report["allocators"][2]["name"], "glibc:MODE=small");
    assert_eq!(report["allocators"][2]["settings"]["MODE"], "small");
    let advice = &report["advice"];
    assert_eq!(advice["fastest"]["name"], "glibc:MODE=fast");
    assert_eq!(advice["smallest"]["command"], format!("MODE=small {program}"));
    assert_eq!(advice["smallest"]["level_with"], Value::Array(Vec::new()));
    assert_eq!(advice["unbeaten"], serde_json::json!(["glibc:MODE=fast", "glibc:MODE=small"]));
    assert_eq!(advice["left_out"], Value::Array(Vec::new()));
    assert!(report["conclusions"][0].as_str().unwrap().starts_with("The fastest is glibc:MODE=f"));
}

#[test]
fn markdown_has_a_row_for_each_candidate() {
    let assert = advise(&["--markdown", "--with", "glibc,glibc:A=x|y", "--", "true"]).assert();
    assert.success().stdout(
        starts_with("`true`: median of 5 runs, in turns; glibc 2.")
            .and(contains("| candidate | time | ratio | spread | peak memory |"))
            .and(contains("glibc:A=x\\|y"))
            .and(contains("- \\* nothing else is better")),
    );
}

/// Of what is the same, all five runs of one may be better by chance: once in 252 times for each
/// candidate and figure, but not each time.
#[test]
fn what_is_the_same_program_is_no_advice() {
    let says = "Nothing is faster or smaller than glibc beyond chance: keep glibc.\n";
    let is_said = contains(says).and(contains("run: ").not());
    let tell = |_| {
        let mut tool = advise(&["--with", "glibc,glibc:A=1,glibc:B=1", "--", "sleep", "0.05"]);
        let text = String::from_utf8(tool.assert().success().get_output().stdout.clone()).unwrap();
        println!("{text}");
        text
    };
    assert!((0..5).map(tell).any(|text| is_said.eval(&text)));
}

#[test]
fn few_runs_and_one_candidate_are_no_ground() {
    let says = "Too few runs to advise anything: 4 at least are needed.\n";
    advise(&["--with", "glibc,primalloc", "-n", "3", "--", "true"])
        .assert()
        .success()
        .stdout(contains(says).and(contains("\n* ").not()));
    let says = "There is nothing to choose from: glibc is the only candidate.\n";
    advise(&["--with", "glibc", "--", "true"]).assert().success().stdout(contains(says));
}

#[test]
fn the_usual_candidates_are_tried() {
    let report = document(&["-n", "1", "--", "true"]);
    let names: Vec<&str> = report["allocators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..2], ["glibc", "primalloc"]);
    let settings: Vec<&str> = names.iter().filter(|name| name.contains(':')).copied().collect();
    assert_eq!(settings.len(), 6);
    assert_eq!(names[names.len() - 6..], settings, "after the allocators");
}

#[test]
fn who_crashes_is_not_advised() {
    let program = program("crashing", &[("crash", "kill -SEGV $$"), ("*", SLOW)]);
    advise(&["--with", "glibc,glibc:MODE=crash", "--", &program]).assert().code(1).stdout(
        contains("glibc: exit status 0; glibc:MODE=crash: killed by SIGSEGV.")
            .and(contains("keep glibc.")),
    );
    let failing = ["sh", "-c", "echo 'what went wrong' >&2; exit 3"];
    advise(&["--with", "glibc,primalloc", "--"]).args(failing).assert().success().stdout(
        contains("The program failed in every run: exit status 3.")
            .and(contains("what went wrong")),
    );
}

#[test]
fn what_cannot_be_tried_is_refused_before_the_first_run() {
    let refused = |arguments: &[&str]| advise(arguments).assert().stdout("");
    refused(&["--with", "glibc:purge_delay=0", "--", "true"])
        .code(125)
        .stderr(contains("'purge_delay' would be an option of primalloc"));
    refused(&["--with", "", "--", "true"]).code(125).stderr(contains("name is missing"));
    refused(&["--runs", "0", "--", "true"]).code(125).stderr(contains("at least one run"));
    refused(&["--html", "/no/such/x", "--", "true"]).code(125).stderr(contains("/no/such/x"));
    refused(&["--json", "--markdown", "--", "true"]).code(125).stderr(contains("more than one"));
    refused(&["--", "no-such-program"]).code(127);
    let program = STATIC_PROGRAM.to_str().unwrap();
    refused(&["--", program]).code(126).stderr(contains("is linked statically"));
}
