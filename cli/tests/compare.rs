//! `primalloc compare`: the measurements, and each way to write them down.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use serde::Deserialize;
use support::*;

/// The JSON report as docs/tool.md describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    tool: String,
    command: String,
    host: Host,
    runs: usize,
    warmup: usize,
    reference: String,
    allocators: Vec<Allocator>,
    outcomes_agree: bool,
    conclusions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    processor: String,
    processors: usize,
    kernel: String,
    libc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allocator {
    name: String,
    settings: BTreeMap<String, String>,
    library: Option<String>,
    version: Option<String>,
    outcomes: Vec<Outcome>,
    metrics: BTreeMap<String, Metric>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    exit_status: Option<i32>,
    signal: Option<i32>,
    runs: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    median: f64,
    spread: f64,
    min: f64,
    max: f64,
    count: usize,
    ratio: Option<f64>,
    values: Vec<f64>,
}

fn compare(arguments: &[&str]) -> assert_cmd::Command {
    let mut tool = tool();
    tool.arg("compare").args(arguments);
    tool
}

fn document(arguments: &[&str]) -> Document {
    let assert = compare(&["--json", "--warmup", "0"]).args(arguments).assert();
    serde_json::from_slice(&assert.get_output().stdout).expect("the report as documented")
}

#[test]
fn json_has_the_documented_form() {
    let report = document(&["--runs", "3", "--", "sh", "-c", ":"]);
    assert_eq!(report.format, 1);
    assert!(report.tool.starts_with("primalloc "));
    assert_eq!((report.command.as_str(), report.runs, report.warmup), ("sh -c :", 3, 0));
    assert_eq!((report.reference.as_str(), report.outcomes_agree), ("glibc", true));
    assert!(report.host.processors > 0 && report.host.libc.starts_with("glibc 2."));
    assert!(!report.host.processor.is_empty() && !report.host.kernel.is_empty());
    assert_eq!(report.conclusions.len(), 1);

    let names: Vec<&str> = report.allocators.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["glibc", "primalloc"]);
    let ours = &report.allocators[1];
    assert_eq!(ours.version.as_deref(), Some("9.9.9"));
    assert_eq!(ours.library.as_deref(), FAKE_LIBRARY.to_str());
    assert!(ours.settings.is_empty());
    let outcome = &ours.outcomes[0];
    assert_eq!((outcome.exit_status, outcome.signal, outcome.runs), (Some(0), None, 3));

    assert_eq!(ours.metrics.len(), 8);
    let wall = &ours.metrics["wall_seconds"];
    assert!(wall.min <= wall.median && wall.median <= wall.max && wall.spread >= 0.0);
    assert!(wall.min > 0.0 && wall.ratio.is_some());
    assert_eq!((wall.count, wall.values.len()), (3, 3));
}

#[test]
fn the_tools_own_memory_does_not_leak_into_the_peak() {
    let report = document(&["--with", "glibc", "--runs", "3", "--", "true"]);
    let peak = report.allocators[0].metrics["peak_resident_bytes"].median;
    assert!((512.0 * 1024.0..2.5 * 1048576.0).contains(&peak), "{peak} bytes for true");
}

#[test]
fn time_and_memory_of_the_programs_children_count() {
    let fill = "sh -c 'head -c 30000000 /dev/zero | tail -c 29999999 > /dev/null'";
    let report = document(&["--with", "glibc", "--runs", "1", "--", "sh", "-c", fill]);
    let metrics = &report.allocators[0].metrics;
    assert!(metrics["peak_resident_bytes"].median > 20e6);
    assert!(metrics["minor_faults"].median > 5000.0);
}

#[test]
fn sleeping_is_wall_time_only() {
    let report = document(&["--with", "glibc", "--runs", "1", "--", "sleep", "0.3"]);
    let metrics = &report.allocators[0].metrics;
    assert!((0.3..3.0).contains(&metrics["wall_seconds"].median));
    assert!(metrics["user_seconds"].median + metrics["system_seconds"].median < 0.1);
}

#[test]
fn the_table_names_allocators_metrics_and_a_conclusion() {
    compare(&["--runs", "2", "--", "true"]).assert().success().stderr("").stdout(
        starts_with("true\nmedian of 2 runs after one to warm up, in turns\n")
            .and(contains("glibc 2."))
            .and(contains("primalloc 9.9.9"))
            .and(contains("peak memory"))
            .and(contains("\nprimalloc: "))
            .and(contains("\u{1b}").not()),
    );
}

#[test]
fn allocators_are_compared_in_the_order_given() {
    let mine = format!("mine={}", SILENT_LIBRARY.display());
    let with = format!("primalloc,{mine},glibc");
    let report = document(&["--with", &with, "--runs", "1", "--", "true"]);
    let names: Vec<&str> = report.allocators.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(
        (names, report.reference.as_str()),
        (vec!["primalloc", "mine", "glibc"], "primalloc")
    );
}

#[test]
fn each_allocator_is_alone_in_the_program() {
    let out = FILES.join("preloads");
    let show = format!("echo \"$LD_PRELOAD;\" >> {}", out.display());
    let _ = fs::remove_file(&out);
    compare(&["--runs", "1", "--warmup", "0", "--", "sh", "-c", &show])
        .env("LD_PRELOAD", format!("{}:{}", FAKE_LIBRARY.display(), SILENT_LIBRARY.display()))
        .assert()
        .success();
    let (fake, other) = (FAKE_LIBRARY.display(), SILENT_LIBRARY.display());
    assert_eq!(fs::read_to_string(out).unwrap(), format!("{other};\n{fake}:{other};\n"));
}

#[test]
fn each_entry_has_its_own_settings_beside_those_of_all() {
    let out = FILES.join("settings");
    let show = format!("echo \"$PRIMALLOC_OPTIONS;$CONF;$PRIMALLOC_MOVES\" >> {}", out.display());
    let _ = fs::remove_file(&out);
    let with = "primalloc:purge_delay=0:moves=0,glibc:CONF=\"a:1,b:2\",glibc,glibc:CONF=x:B=";
    compare(&["--json", "--runs", "1", "--warmup", "0", "-o", "thp=never", "--with", with])
        .args(["--", "sh", "-c", &show])
        .envs([("CONF", "as it was"), ("PRIMALLOC_MOVES", "1")])
        .assert()
        .success()
        .stderr("");
    assert_eq!(
        fs::read_to_string(out).unwrap(),
        "thp=never,purge_delay=0,moves=0;as it was;\nthp=never;a:1,b:2;1\n\
         thp=never;as it was;1\nthp=never;x;1\n"
    );
}

#[test]
fn settings_are_in_every_report() {
    let with = "glibc,primalloc:purge_delay=0,glibc:MALLOC_ARENA_MAX=2";
    let report = document(&["--with", with, "--runs", "1", "--", "true"]);
    let names: Vec<&str> = report.allocators.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names.join(","), with);
    let settings = |index: usize| report.allocators[index].settings.iter().next();
    assert_eq!(settings(0), None);
    assert_eq!(settings(1), Some((&"purge_delay".to_owned(), &"0".to_owned())));
    assert_eq!(settings(2), Some((&"MALLOC_ARENA_MAX".to_owned(), &"2".to_owned())));
    assert!(report.conclusions[0].starts_with("primalloc:purge_delay=0: "));

    let page = FILES.join("settings.html").display().to_string();
    let says = contains("│ MALLOC_ARENA_MAX=2 ").and(contains("\nprimalloc:purge_delay=0: "));
    compare(&["--with", with, "--html", &page, "-n1", "--", "true"]).assert().stdout(says);
    assert!(fs::read_to_string(page).unwrap().contains("<br>purge_delay=0</th>"));
    let says = contains("| primalloc 9.9.9 purge_delay=0 |");
    compare(&["--with", with, "--markdown", "-n1", "--", "true"]).assert().stdout(says);
}

#[test]
fn reports_go_to_files_beside_the_table() {
    let path = |name: &str| FILES.join(name).display().to_string();
    let (json, markdown, html) = (path("r.json"), path("r.md"), path("r.html"));
    compare(&[&format!("--json={json}"), &format!("--markdown={markdown}")])
        .args(["--html", &html, "--runs", "2", "--", "true"])
        .assert()
        .success()
        .stdout(contains("wall time"));
    serde_json::from_slice::<Document>(&fs::read(json).unwrap()).unwrap();
    assert!(fs::read_to_string(markdown).unwrap().starts_with("`true`: median of 2 runs"));
    let page = fs::read_to_string(html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
}

#[test]
fn a_library_is_not_found_better_than_itself_by_a_run() {
    let (copy, library) = (FILES.join("libcopy.so"), FAKE_LIBRARY.display());
    fs::copy(&*FAKE_LIBRARY, &copy).unwrap();
    let with = format!("primalloc,same={},other={library}", copy.display());
    let report = document(&["--with", &with, "--runs", "1", "--", "sh", "-c", ":"]);
    let says = "no difference from primalloc can be stated: too few runs to tell";
    assert!(report.conclusions.iter().all(|text| text.contains(says)), "{:?}", report.conclusions);
}

#[test]
fn markdown_on_standard_output_is_alone_there() {
    let assert = compare(&["--markdown", "--runs", "1", "--", "true"]).assert().success();
    assert.stdout(starts_with("`true`: one run").and(contains("| wall time |")));
}

#[test]
fn a_failing_program_is_reported_with_what_it_said() {
    compare(&["--runs", "2", "--", "sh", "-c", "echo 'what went wrong' >&2; exit 3"])
        .assert()
        .success()
        .stdout(
            contains("The program failed in every run: exit status 3.")
                .and(contains("what went wrong")),
        );
}

#[test]
fn different_outcomes_are_reported_and_give_1() {
    let script = "case $LD_PRELOAD in *primalloc*) kill -SEGV $$;; esac";
    compare(&["--runs", "2", "--", "sh", "-c", script]).assert().code(1).stdout(contains(
        "The program did not always end the same way. glibc: exit status 0; \
         primalloc: killed by SIGSEGV.\n\
         primalloc: nothing can be concluded, for the program did not always end the same way.\n",
    ));
}

#[test]
fn input_and_output_of_the_program() {
    let (input, output) = (FILES.join("input"), FILES.join("output"));
    fs::write(&input, "b\na\n").unwrap();
    compare(&["--runs", "2", "--input"])
        .arg(&input)
        .arg("--output")
        .arg(&output)
        .args(["--", "sort"])
        .assert()
        .success();
    assert_eq!(fs::read_to_string(&output).unwrap(), "a\nb\n");
    compare(&["--runs", "1", "--warmup", "0", "--output", "inherit", "--", "echo", "said"])
        .assert()
        .stdout(starts_with("said\nsaid\necho said\n"));
}

#[test]
fn what_cannot_be_compared_is_refused_before_the_first_run() {
    let refused = |arguments: &[&str]| compare(arguments).assert().stdout("");
    refused(&["--with", "nomalloc", "--", "true"])
        .code(125)
        .stderr(contains("nomalloc: no allocator known by this name"));
    refused(&["--with", "mine=/etc/passwd", "--", "true"])
        .code(125)
        .stderr(contains("/etc/passwd: not a library that can be loaded: not an ELF file"));
    refused(&["--runs", "0", "--", "true"]).code(125).stderr(contains("at least one run"));
    for number in ["99999999999", "1000001", "-3", "2.5"] {
        for option in ["--runs", "--warmup"] {
            let says = contains("a whole number of at most 1000000").and(contains("tip").not());
            refused(&[option, number, "--", "true"]).code(125).stderr(says);
        }
    }
    for nameless in ["", ",", "glibc,,primalloc"] {
        let says = "primalloc: an allocator's name is missing\n";
        refused(&["--with", nameless, "--", "true"]).code(125).stderr(says);
    }
    for (entry, says) in [
        ("glibc:purge_delay=0", "'purge_delay' would be an option of primalloc, which glibc does"),
        ("glibc:MALLOC_ARENA_MAX", "'MALLOC_ARENA_MAX' is no setting, which is NAME=VALUE"),
        ("glibc:CONF=a:1", "a value with ':' or ',' stands in double quotes"),
        ("glibc:CONF=\"a", "a double quote is not closed"),
        ("primalloc:Thp=never", "'Thp' is no variable of the environment"),
        ("primalloc:thp=", "'' is no value for thp: not empty, without commas"),
        ("nomalloc:A=1", "nomalloc: no allocator known by this name"),
        ("mine=", "mine=: an allocator of your own is NAME=PATH"),
        ("glibc:A=1:A=1", "A is set twice"),
        ("glibc,glibc", "glibc: it is in the list twice"),
        ("all:A=1", "settings are for one allocator"),
    ] {
        refused(&["--with", entry, "--", "true"]).code(125).stderr(contains(says));
    }
    refused(&["--", "no-such-program"]).code(127);
    let program = STATIC_PROGRAM.to_str().unwrap();
    refused(&["--", program]).code(126).stderr(contains("is linked statically"));
    refused(&["--input", "/no/such", "--", "true"]).code(125).stderr(contains("/no/such"));
    refused(&["--input", "/", "--", "true"]).code(125).stderr(contains("/: is a directory"));
}

/// It would be glibc that is measured.
#[test]
fn a_library_that_is_no_allocator_is_refused_before_the_first_run() {
    let named = format!("mine={}", OTHER_LIBRARY.display());
    let with = format!("glibc,{named}");
    let says = format!("{}: it does not take the place of malloc\n", OTHER_LIBRARY.display());
    for words in [
        ["compare", "--with", &with],
        ["advise", "--with", &with],
        ["faults", "--allocator", &named],
    ] {
        let mut tool = tool();
        tool.args(words).args(["--", "echo", "run"]);
        tool.assert().code(125).stdout("").stderr(contains(&says));
    }
}

#[test]
fn no_file_takes_the_place_of_another() {
    let input = FILES.join("precious");
    fs::write(&input, "b\na\n").unwrap();
    let input = input.to_str().unwrap();
    let refused = |arguments: &[&str], says: &str| {
        compare(arguments)
            .args(["--", "sort"])
            .assert()
            .code(125)
            .stderr(contains(says))
            .stdout("");
    };
    refused(&["--input", input, "--output", input], "precious: cannot be written");
    refused(&["--input", input, "--html", input], "precious: cannot be written");
    assert_eq!(fs::read_to_string(input).unwrap(), "b\na\n");

    let [new, again] = ["new.out", "./new.out"].map(|name| FILES.join(name));
    let [new, again] = [&new, &again].map(|path| path.to_str().unwrap());
    refused(&["--output", new, &format!("--json={again}")], "new.out: cannot take more than one");
    refused(&["--html", new, &format!("--markdown={again}")], "new.out: cannot take more than one");
    assert!(!FILES.join("new.out").exists());
    let says = "standard output cannot take more than one";
    refused(&["--output", "inherit", "--json"], says);
    let devices = ["--runs", "1", "--output", "/dev/null", "--html", "/dev/null", "--", "true"];
    compare(&devices).assert().success();
}

#[test]
fn a_script_without_a_first_line_is_a_shell_s() {
    let script = script("plain-text", "exit 3\n").display().to_string();
    let report = document(&["--runs", "1", "--", &script]);
    assert!(report.allocators.iter().all(|entry| entry.outcomes[0].exit_status == Some(3)));
}

#[test]
fn each_run_reads_the_same_input() {
    let says = "/dev/stdin: can be read only once, by the first run: name a file\n";
    compare(&["--input", "/dev/stdin", "--", "sort"])
        .write_stdin("b\na\n")
        .assert()
        .code(125)
        .stderr(contains(says));
}

/// The settings of a list are read in one place.
#[test]
fn faults_takes_an_allocator_in_the_same_words() {
    let faults = |arguments: &[&str]| {
        let mut tool = tool();
        tool.arg("faults").args(arguments);
        tool
    };
    let set = ["-o", "thp=never", "--allocator", r#"primalloc:purge_delay=0:WORDS="a:b,c""#];
    faults(&["--no-perf"])
        .args(set)
        .args(["--", "sh", "-c", "echo $PRIMALLOC_OPTIONS $WORDS"])
        .assert()
        .success()
        .stdout("thp=never,purge_delay=0 a:b,c\n");
    for (allocator, says) in [
        ("glibc:purge_delay=0", "'purge_delay' would be an option of primalloc, which glibc does"),
        ("glibc,primalloc", "glibc,primalloc: the program can run on one allocator only"),
    ] {
        let refused = faults(&["--allocator", allocator, "--", "true"]).assert();
        refused.code(125).stderr(contains(says)).stdout("");
    }
}

#[test]
fn what_tries_an_allocator_is_not_counted_among_its_faults() {
    let of_true = |allocator: &str, what: &str| {
        let mut tool = tool();
        tool.args(["faults", "--no-perf", "--json", "--allocator", allocator, "--", "true"]);
        let found: serde_json::Value =
            serde_json::from_slice(&tool.assert().success().get_output().stdout).unwrap();
        found[what].as_u64().unwrap()
    };
    for (what, more) in [("minor_faults", 50), ("peak_resident_bytes", 1 << 20)] {
        assert!(of_true("primalloc", what) < of_true("glibc", what) + more, "{what}");
    }
}

#[test]
fn input_that_nobody_gets_is_told_of() {
    let told = "the program read nothing, for standard input is not passed on";
    let one = ["--with", "glibc", "-n", "1", "--warmup", "0"];
    let with = |more: &[&str]| compare(&[&one, more, &["--", "cat"]].concat());
    let slowly = ["--with", "glibc", "-n", "1", "--", "sleep", "0.3"];
    compare(&slowly).write_stdin("a\n").assert().success().stderr(contains(told));
    with(&[]).write_stdin("").assert().success().stderr(contains(told).not());
    let file = FILES.join("unread");
    fs::write(&file, "a\n").unwrap();
    // Not through a pipe, which might be written to too late.
    let mut of_file = plain_tool();
    of_file.arg("compare").args(one).args(["--", "cat"]).stdin(fs::File::open(&file).unwrap());
    let said = of_file.output().unwrap();
    assert!(said.status.success() && String::from_utf8_lossy(&said.stderr).contains(told));
    let input = ["--input", file.to_str().unwrap()];
    with(&input).write_stdin("a\n").assert().success().stderr(contains(told).not());
}

#[test]
fn endless_messages_take_no_endless_memory() {
    let script = "head -c 40000000 /dev/zero >&2; echo done; sleep 60";
    let mut command = plain_tool();
    command.args(["compare", "--with", "glibc", "--output"]).arg(FILES.join("said"));
    let mut tool = command.args(["--", "sh", "-c", script]).stderr(Stdio::null()).spawn().unwrap();
    let descriptors = format!("/proc/{}/fd", tool.id());
    let is_messages = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|file| file.to_string_lossy().contains("memfd:messages"))
    };
    let held = || {
        let mut paths = fs::read_dir(&descriptors).unwrap().flatten().map(|entry| entry.path());
        fs::metadata(paths.find(is_messages)?).ok()
    };
    let all_written = || held().is_some_and(|facts| facts.len() == 40_000_000);
    wait_until("all messages", all_written);
    wait_until("their beginning to go", || held().unwrap().blocks() * 512 < 2 << 20);
    kill(Pid::from_raw(tool.id() as i32), Signal::SIGTERM).unwrap();
    tool.wait().unwrap();
}
