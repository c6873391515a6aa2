//! The verbs about profiles where a file is missing, is no profile, holds nothing or cannot be
//! written: one line each that names it, before any program runs, and no file left behind.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use predicates::prelude::*;
use predicates::str::contains;
use support::*;

/// A file in the tests' directory.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FILES.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A profile of nothing, written once: tests run side by side.
fn nothing_recorded() -> String {
    static PATH: LazyLock<PathBuf> =
        LazyLock::new(|| file("none.heap", b"heap profile: 0: 0 [0: 0] @ heapprofile\n"));
    PATH.to_str().unwrap().to_owned()
}

fn name_of(directory: &Path) -> &str {
    directory.file_name().unwrap().to_str().unwrap()
}

/// The tool says one line with both parts and nothing else, and fails.
fn refuses(arguments: &[&str], parts: [&str; 2]) {
    let assert = tool().args(arguments).assert().code(125).stdout("");
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.starts_with("primalloc: ") && text.lines().count() == 1, "{arguments:?}: {text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{arguments:?}: {text}");
}

#[test]
fn either_file_of_a_comparison_is_named() {
    let good = nothing_recorded();
    let words = file("no-words", b"hello there\n");
    let words = words.to_str().unwrap();
    let empty = file("no-bytes", b"");
    let empty = empty.to_str().unwrap();
    let huge = file("no-memory", format!("main;f {0}\nmain;g {0}\n", i64::MAX).as_bytes());
    let huge = huge.to_str().unwrap();
    for (bad, what) in [
        ("/no/such/file", "cannot be read"),
        (words, "no profile"),
        (empty, "empty"),
        (huge, "its values of space come to 2^61"),
    ] {
        refuses(&["report", bad], [bad, what]);
        refuses(&["diff", bad, &good], [bad, what]);
        refuses(&["diff", &good, bad], [bad, what]);
    }
    refuses(&["diff", "--view", "peak", &good, &good], ["none.heap", "no such view"]);
}

#[test]
fn nothing_is_run_for_what_cannot_be_written_or_read() {
    let ran = FILES.join("ran");
    let good = nothing_recorded();
    let program = ["--", "touch", ran.to_str().unwrap()];
    for option in ["--html=/no/such/x", "--json=/no/such/x", "--keep=/no/such/x"] {
        let verbs = ["profile", "leaks", "faults", "compare", "advise"];
        for verb in &verbs[..if option.starts_with("--keep") { 2 } else { 5 }] {
            refuses(&[&[verb, option][..], &program].concat(), ["/no/such/x", "cannot be written"]);
        }
        if !option.starts_with("--keep") {
            refuses(&["report", option, &good], ["/no/such/x", "cannot be written"]);
            refuses(&["diff", option, &good, &good], ["/no/such/x", "cannot be written"]);
        }
    }
    for bad in ["/no/such/rules", "/tmp"] {
        let leaks = ["leaks", "--suppressions", bad];
        refuses(&[&leaks[..], &program].concat(), [bad, "cannot be read"]);
    }
    let rules = file("rules", b"# known\nleak:make_list\ngarbage\n");
    let leaks = ["leaks", "--suppressions", rules.to_str().unwrap()];
    refuses(&[&leaks[..], &program].concat(), ["rules:3: is no line \"leak:", "garbage"]);
    assert!(!ran.exists());
}

#[test]
fn what_a_verb_sets_itself_is_not_set_beside_it() {
    let rules = file("no-rules", b"# none\n");
    let suppressions = format!("--suppressions={}", rules.display());
    for (verb, option, instead) in [
        (&["profile"][..], "profile=x", "--keep, --rate or --budget is for it"),
        (&["leaks"], "leak_check=strict", "--level is for it"),
        (&["leaks"], "leak_report=x", "--keep is for it"),
        (&["leaks"], "leak_exit=7", "--exit-status is for it"),
        (&["leaks", &suppressions], "leak_suppress=x", "--suppressions is for it"),
        (&["run", "--only-exe"], "only_exe=0", "--only-exe is for it"),
    ] {
        let says = format!("--option {option}: this verb sets that itself; ");
        refuses(&[verb, &["-o", option, "--", "true"]].concat(), [&says, instead]);
    }
    tool().args(["run", "-o", "profile=x", "--", "true"]).assert().success();
}

/// What the environment says of that may be for other programs.
#[test]
fn what_a_verb_sets_in_place_of_the_environment_is_told() {
    let rules = file("no-more-rules", b"# none\n");
    let suppressions = format!("--suppressions={}", rules.display());
    for (verb, set, says) in [
        (&["profile"][..], "PRIMALLOC_PROFILE=x", "PRIMALLOC_PROFILE is not heeded: this verb "),
        (&["profile"], "PRIMALLOC_OPTIONS=thp=never,profile=x", "profile in PRIMALLOC_OPTIONS is"),
        (&["leaks"], "PRIMALLOC_LEAK_CHECK=strict", "sets that itself; --level is for it\n"),
        (&["leaks"], "PRIMALLOC_LEAK_EXIT=7", "sets that itself; --exit-status is for it\n"),
        (&["leaks"], "PRIMALLOC_OPTIONS=leak_report=x", "; --keep is for it\n"),
        (&["leaks", &suppressions], "PRIMALLOC_LEAK_SUPPRESS=x", "; --suppressions is for it\n"),
    ] {
        let (name, value) = set.split_once('=').unwrap();
        let with = |value: &str| tool().env(name, value).args(verb).args(["--", "true"]).assert();
        with(value).stderr(contains(says));
        with("").stderr(contains("is not heeded").not());
    }
    for verb in ["run", "leaks"] {
        let mut other = tool();
        other.env("PRIMALLOC_LEAK_SUPPRESS", "x").args([verb, "--", "true"]);
        other.assert().stderr(contains("is not heeded").not());
    }
}

#[test]
fn a_refusal_leaves_no_page_behind() {
    let page = FILES.join("page.html");
    let _ = fs::remove_file(&page); // an earlier run's
    let option = format!("--html={}", page.display());
    refuses(&["report", &option, "/no/such/file"], ["/no/such/file", "cannot be read"]);
    assert!(!page.exists());
    fs::write(&page, "another's").unwrap();
    refuses(&["report", &option, "/no/such/file"], ["/no/such/file", "cannot be read"]);
    assert_eq!(fs::read_to_string(&page).unwrap(), "another's");
}

#[test]
fn a_profile_is_not_written_over() {
    let text = b"heap profile: 0: 0 [0: 0] @ heapprofile\n";
    let (one, other) = (file("mine.heap", text), file("yours.heap", text));
    let aside = format!("{}/../{}/mine.heap", FILES.display(), name_of(&FILES));
    let (one, other) = (one.to_str().unwrap(), other.to_str().unwrap());
    for path in [one, &aside] {
        for option in ["--html", "--json", "--collapsed", "--pprof"] {
            let option = format!("{option}={path}");
            refuses(&["report", &option, one], [path, "the report is made from it"]);
            if !option.starts_with("--pprof") {
                refuses(&["diff", &option, other, one], [path, "the report is made from it"]);
            }
        }
    }
    assert_eq!(fs::read(one).unwrap(), text);
}

#[test]
fn profiles_without_samples_say_so() {
    let good = nothing_recorded();
    let page = FILES.join("empty.html");
    let option = format!("--html={}", page.display());
    tool().args(["report", &option, &good]).assert().success().stdout(contains("No samples: too"));
    assert!(fs::read_to_string(&page).unwrap().contains("Too little was allocated"));
    let same = contains("No function holds more or less");
    tool().args(["diff", &option, &good, &good]).assert().success().stdout(same);
    let Some(library) = real_library() else { return };
    for (verb, says) in [("profile", "No samples: too"), ("leaks", "Nothing leaked.")] {
        let mut run = tool();
        run.env("PRIMALLOC_LIBRARY", &library).args([verb, "--", "true"]);
        run.assert().success().stderr(contains(says));
    }
    let mut run = tool();
    run.env("PRIMALLOC_LIBRARY", &library).env("LC_ALL", "C");
    run.args(["profile", "--rate", "1", "--", "true"]);
    run.assert().success().stderr(contains("Nothing was allocated.\n"));
}

#[test]
fn a_full_disk_is_one_line() {
    let good = nothing_recorded();
    let verbs =
        [&["report"][..], &["report", "--json"], &["diff", &good], &["allocators"], &["symbolize"]];
    for verb in verbs {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut run = plain_tool();
        run.args(verb).stdout(full);
        match verb[0] {
            "allocators" => &mut run,
            "symbolize" => run.stdin(fs::File::open(&good).unwrap()),
            _ => run.arg(&good),
        };
        let output = run.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{verb:?}: {text}");
        assert!(
            text.starts_with("primalloc: standard output: cannot be written: No space"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn numbers_below_nothing_are_named() {
    for words in [["report", "--top"], ["leaks", "--top"], ["leaks", "--exit-status"]] {
        let said = tool().args(words).args(["-1", "true"]).assert().code(125);
        said.stderr(contains("invalid value '-1' for '--"));
    }
    let budget = tool().args(["profile", "--budget", "-1", "true"]).assert().code(125);
    budget.stderr(contains("'--budget <PERCENT>': a percentage from 0 to 100"));
}

#[test]
fn values_that_cannot_be_meant_are_told_in_plain_words() {
    let huge = "99999999999999999999999";
    for (words, says) in [
        (["report", "--top=-1", "x"], "'--top <N>': a whole number of rows is needed"),
        (["leaks", "--top=x", "true"], "'--top <N>': a whole number of rows is needed"),
        (["report", &format!("--top={huge}"), "x"], "'--top <N>': no table has so many rows"),
        (["compare", "--output=", "true"], "'--output <WHERE>': neither inherit, nor discard"),
        (["compare", "--input=", "true"], "'--input <FILE>': is no name of a file"),
        (["run", "-o=", "true"], "an option is NAME=VALUE, for example verbose=1"),
        (["explain", "--sysroot=/no/such", "core"], "'--sysroot <DIRECTORY>': is no directory"),
    ] {
        let said = tool().args(words).assert().code(125);
        said.stderr(contains(says));
    }
}
