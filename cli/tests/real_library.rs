//! The tool and the library as they are built together; skipped where the library is not built.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use predicates::prelude::*;
use predicates::str::contains;
use support::*;

fn real_library() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/lib/libprimalloc.so");
    let library = path.canonicalize().ok();
    if library.is_none() {
        eprintln!("skipped: {} is not built", path.display());
    }
    library
}

#[test]
fn it_answers_serves_and_is_listed() {
    let Some(library) = real_library() else {
        return;
    };
    let mut run = tool();
    run.env("PRIMALLOC_LIBRARY", &library).args(["run", "--", "sh", "-c", "ls / | sort"]);
    run.assert().success().stderr("").stdout(contains("etc\n"));

    let mut list = tool();
    list.env("PRIMALLOC_LIBRARY", &library).arg("allocators");
    let version = env!("CARGO_PKG_VERSION");
    list.assert().success().stdout(contains(format!("primalloc  {version}    yes")));
}

/// The program is named without its directory; what faulted is the instruction itself.
#[test]
fn reports_of_guarded_sampling_get_names() {
    let Some(library) = real_library() else {
        return;
    };
    let mut program = Command::new(compile("stale.c", "stale", &["-O1", "-g", "-fno-builtin"]));
    program.env("LD_PRELOAD", &library);
    program.env("PRIMALLOC_OPTIONS", "guarded,guarded_bytes=1,guarded_rate=0");
    let report = program.output().unwrap().stderr;
    let source = include_str!("fixtures/stale.c");
    let line = |text| source.split(text).next().unwrap().lines().count();
    let [write, call] = ["block[3]", "write_stale();"].map(line);
    let says =
        format!("#0 write_stale stale.c:{write} (stale)\n    #1 main stale.c:{call} (stale)");
    let mut symbolize = tool();
    symbolize.arg("symbolize").current_dir(&*FILES).write_stdin(report);
    symbolize.assert().success().stdout(contains(says));
}

#[test]
fn all_options_are_listed() {
    let Some(library) = real_library() else {
        return;
    };
    let list = |words: &[&str], end: &[&str]| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).args(words).args(["-o", "help"]).args(end);
        tool.args(["--", "sleep", "0.2"]).assert().success()
    };
    let text = |assert: assert_cmd::assert::Assert| {
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    let told = text(list(&["run"], &[]).stdout(""));
    let sentences = |line: &str| line.find("what it does").or(line.find("what wrong frees"));
    let columns: Vec<usize> = told.lines().filter_map(sentences).collect();
    assert!(columns.len() == 2 && columns[0] == columns[1], "{told}");
    assert!(told.contains("  1 byte to 1 TiB  "), "{told}");
    // Whoever shows nothing of what the program writes, or does not run it on primalloc, as well.
    let one = ["-n", "1", "--warmup", "0"];
    for words in [
        &["compare", one[0], one[1], one[2], one[3]][..],
        &["compare", "--with", "glibc", one[0], one[1]],
        &["advise", "--with", "glibc,primalloc", one[0], one[1]],
        &["faults", "--no-perf"],
        &["faults", "--no-perf", "--allocator", "glibc"],
        &["faults", "--no-perf", "--allocator", "primalloc"],
        &["profile"],
        &["leaks"],
        &["watch"],
    ] {
        let listed = text(list(words, &[]));
        assert_eq!(listed.matches(&told).count(), 1, "{words:?}: {listed}");
        assert!(!listed.contains("heeds"), "{words:?}: {listed}");
    }
    let unheeded = text(list(&["faults", "--no-perf"], &["-o", "purge=0"]));
    assert!(unheeded.contains(&told) && unheeded.contains("only primalloc heeds --option"));
    let mut run = tool();
    run.env("PRIMALLOC_LIBRARY", &library).args(["run", "-o", "purgee=1", "--", "true"]);
    run.assert().success().stderr(contains("primalloc run -o help -- true"));
}

#[test]
fn a_program_with_the_archive_in_it_is_listed() {
    let Some(library) = real_library() else {
        return;
    };
    let archive = library.parent().unwrap().join("libprimalloc.a");
    let program =
        compile("explained.c", "linked", &["-static-pie", "-pthread", archive.to_str().unwrap()]);
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let row =
        predicates::str::is_match(format!("{} .*linked .*linked into the program", child.id()));
    tool().arg("ps").assert().success().stdout(row.unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn options_that_cannot_be_used_are_refused_before_the_first_run() {
    let Some(library) = real_library() else {
        return;
    };
    let measure = |verb: &str, options: &[&str]| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).env("PRIMALLOC_OPTIONS", "purgeee=1");
        tool.args([verb, "-n", "1", "--warmup", "0"]).args(options).args(["--", "true"]).assert()
    };
    let refused = "primalloc: nothing is measured with options that cannot be used";
    for verb in ["compare", "advise"] {
        measure(verb, &["-o", "purgee=1", "-o", "cache_count=x"])
            .code(125)
            .stdout("")
            .stderr(contains("primalloc: unknown option 'purgee': did you mean 'purge'?"))
            .stderr(contains("primalloc: ignoring value 'x' for option 'cache_count'"))
            .stderr(contains(refused));
        let with = "primalloc:purgee=1,primalloc:thp=x,primalloc,glibc";
        measure(verb, &["-o", "cache_count=x", "--with", with])
            .code(125)
            .stdout("")
            .stderr(contains("unknown option 'purgee': did you mean 'purge'?").count(1))
            .stderr(contains("ignoring value 'x' for option 'thp'").count(1))
            .stderr(contains("ignoring value 'x' for option 'cache_count'").count(1));
        // The environment's own are not what is compared.
        measure(verb, &["-o", "purge=0", "--with", "glibc,primalloc"])
            .success()
            .stderr(contains("unknown option 'purgeee'").and(contains(refused).not()));
        measure(verb, &["-o", "purge=0", "--with", "glibc"])
            .success()
            .stderr(contains("only primalloc heeds --option"));
    }
}

#[test]
fn faults_passes_on_what_the_library_says_of_options() {
    let Some(library) = real_library() else {
        return;
    };
    let faults = |preload: &Path, words: &[&str]| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).env("LD_PRELOAD", preload);
        tool.args(["faults", "--no-perf"]).args(words).args(["--", "true"]).assert().success()
    };
    let nobody = Path::new("");
    let unknown = "unknown option 'purgee': did you mean 'purge'?";
    let unheeded = "only primalloc heeds --option";
    faults(nobody, &["-o", "purgee=1"]).stderr(contains(unknown)).stderr(contains(unheeded));
    faults(nobody, &["-o", "purge=0"]).stderr(contains(unheeded)).stderr(contains(unknown).not());
    faults(nobody, &[]).stderr(contains("primalloc:").not());
    let on_glibc = ["--allocator", "glibc", "-o", "purgee=1"];
    faults(&library, &on_glibc).stderr(contains(unheeded)).stderr(contains(unknown).count(1));
    faults(nobody, &["--allocator", "primalloc", "-o", "purgee=1"])
        .stderr(contains(unknown).count(1).and(contains(unheeded).not()));
    faults(&library, &["-o", "purgee=1"])
        .stderr(contains(unknown).count(1))
        .stderr(contains(unheeded).not());
}

#[test]
fn only_exe_keeps_it_from_children() {
    let Some(library) = real_library() else {
        return;
    };
    let mut run = tool();
    run.env("PRIMALLOC_LIBRARY", &library);
    run.args(["run", "--only-exe", "--", "sh", "-c", "cat /proc/self/maps; exit 0"]);
    run.assert().success().stdout(contains("libprimalloc").not());
}

#[test]
fn what_faults_on_glibc_at_every_turn_does_not_on_primalloc() {
    let Some(library) = real_library() else {
        return;
    };
    let program = compile("faults.c", "faulting", &["-O1", "-g", "-pthread"]);
    let faults_on = |allocator: &str| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library);
        tool.args(["faults", "--json", "--allocator", allocator, "--"]).arg(&program);
        let assert = tool.args(["heap", "10"]).assert().code(3);
        serde_json::from_slice::<serde_json::Value>(&assert.get_output().stdout).unwrap()
    };
    let (glibc, ours) = (faults_on("glibc"), faults_on("primalloc"));
    assert_eq!((&glibc["allocator"], &ours["allocator"]), (&"glibc".into(), &"primalloc".into()));
    let count = |found: &serde_json::Value| found["minor_faults"].as_u64().unwrap();
    assert!(count(&ours) * 4 < count(&glibc), "{} and {}", count(&ours), count(&glibc));
    if ours["attributed"] == true {
        let heap = &ours["kinds"][0];
        assert_eq!(heap["kind"], "allocator");
        assert!(heap["repeated_share"].as_f64().unwrap() < 0.1, "{heap}");
        assert!(glibc["kinds"][0]["repeated_share"].as_f64().unwrap() > 0.7);
    }
}
