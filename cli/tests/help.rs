//! The help, the completions and the manual pages.

mod support;

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;
use support::*;

const VERBS: [&str; 17] = [
    "run",
    "compare",
    "advise",
    "explain",
    "watch",
    "faults",
    "profile",
    "report",
    "diff",
    "leaks",
    "symbolize",
    "allocators",
    "ps",
    "trim",
    "set",
    "completions",
    "man",
];

#[test]
fn the_version_is_that_of_the_project() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../VERSION");
    let version = fs::read_to_string(file).unwrap();
    tool().arg("--version").assert().success().stdout(format!("primalloc {}\n", version.trim()));
}

#[test]
fn every_verb_has_a_sentence_and_examples() {
    for verb in VERBS {
        let has_example = contains("Examples:\n").and(contains(format!("primalloc {verb}")));
        tool().args([verb, "--help"]).assert().success().stdout(has_example);
        tool().arg("--help").assert().success().stdout(contains(format!("  {verb} ")));
    }
    tool().arg("--help").assert().stdout(contains("probe").not());
}

#[test]
fn verbs_that_start_no_program_speak_of_none() {
    for verb in ["report", "diff"] {
        tool().args([verb, "--help"]).assert().stdout(contains("program's own").not());
    }
}

#[test]
fn no_help_line_is_too_wide() {
    for arguments in VERBS.map(|verb| vec![verb, "--help"]).into_iter().chain([vec!["--help"]]) {
        let assert = tool().args(arguments).assert();
        let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        // The path of the library in the test's environment is as long as it happens to be.
        let lines = text.lines().filter(|line| !line.contains("PRIMALLOC_LIBRARY="));
        let widest = lines.max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
    }
}

#[test]
fn completions_for_three_shells() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")] {
        let knows_the_verbs = contains(sign).and(contains("compare")).and(contains("html"));
        let and_no_others = knows_the_verbs.and(contains("probe-allocator").not());
        tool().args(["completions", shell]).assert().success().stdout(and_no_others);
    }
    // As those of run, compare, advise, watch, faults, profile and leaks: programs, not files.
    let programs = contains(":_cmdambivalent'").count(7);
    tool().args(["completions", "zsh"]).assert().success().stdout(programs);
    tool().args(["completions", "cmd.exe"]).assert().code(125).stderr(contains("bash"));
}

#[test]
fn a_full_disk_is_one_line() {
    for arguments in [&["--help"][..], &["--version"], &["completions", "bash"], &["man"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = plain_tool().args(arguments).stdout(full).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {text}");
        let says = "primalloc: standard output: cannot be written: No space";
        assert!(text.starts_with(says) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
    // Where it cannot be said it is a failure all the same, and no panic.
    for arguments in [&["faults", "--", "true"][..], &["faults", "--no-such-option"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = plain_tool().args(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(125), "{arguments:?}");
    }
}

#[test]
fn manual_pages_for_the_tool_and_each_verb() {
    tool().arg("man").assert().success().stdout(contains(".TH primalloc 1"));
    let directory = FILES.join("man");
    let _ = fs::remove_dir_all(&directory);
    tool().args(["man", "--dir"]).arg(&directory).assert().success().stdout("");
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut pages: Vec<String> = VERBS.map(|verb| format!("primalloc-{verb}.1")).into();
    pages.push("primalloc.1".to_owned());
    pages.sort();
    assert_eq!(names, pages);
    let page = fs::read_to_string(directory.join("primalloc-compare.1")).unwrap();
    let synopsis = page.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap();
    let shown = synopsis.replace("\\fB", "").replace("\\fR", "");
    assert_eq!(shown, "primalloc compare [OPTIONS] <PROGRAM>...");
}

#[test]
fn a_closed_output_is_a_failure_too() {
    let own = std::process::id().to_string();
    for arguments in
        [&["ps"][..], &["allocators", "--json"], &["explain", &own], &["--help"], &["man"]]
    {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "exec \"$@\" >&-", "sh"]).arg(plain_tool().get_program());
        let output =
            shell.env("PRIMALLOC_LIBRARY", &*FAKE_LIBRARY).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        let expected = "primalloc: standard output: cannot be written: Bad file descriptor";
        assert!(said.starts_with(expected) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
