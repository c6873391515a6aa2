//! `primalloc trim`, `set` and `profile --pid`: real processes that are asked, and go on unharmed.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{gettid, getuid};
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use serde_json::Value;
use support::asked::*;
use support::explained::{MIB, preloaded};
use support::*;

#[test]
fn who_waits_is_asked_and_waits_on() {
    for kinds in ["", "f", "p", "P", "r", "e", "s", "nx", "fpPresnx"] {
        let Some(process) = Asked::preloaded(&[kinds]) else { return };
        process.trim().success().stdout(starts_with("asked (").and(contains("less than before")));
        process.set(&["soft_limit=256M"]).success().stdout(contains("is 256 MiB, was "));
        process.profile(&["--duration", "1ms"]).success().stdout(contains("what was allocated"));
        process.assert_unharmed();
    }
}

#[test]
fn what_is_free_goes() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    let trimmed = tool().args(["trim", "--json", &process.id()]).assert().success();
    let trimmed: Value = serde_json::from_slice(&trimmed.get_output().stdout).unwrap();
    let bytes = |name: &str| trimmed[name].as_u64().unwrap();
    assert!(bytes("resident_before_bytes") > bytes("resident_after_bytes") + 40 * MIB, "{trimmed}");
    assert_eq!((&trimmed["has_returned"], &trimmed["program"]), (&true.into(), &"asked".into()));
    process.assert_unharmed();
}

#[test]
fn options_are_set_or_it_is_said_why_not() {
    let Some(process) = Asked::preloaded(&[]) else { return };
    let wrong = ["--json", "nonsense=1", "purge_delay=x", "thp=always", "trim_threshold=8M"];
    let done = process.set(&wrong).code(125).stderr(
        contains("nonsense: there is no such option; primalloc run -o help -- true tells")
            .and(contains(
                "purge_delay: 'x' is no value for it; primalloc run -o help -- true tells",
            ))
            .and(contains("thp: it cannot be changed any more")),
    );
    let done: Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert_eq!(done["options"][0]["before"], Value::Null);
    assert_eq!(done["options"][1]["before"], "500 ms");
    assert_eq!(done["options"][3]["after"], "8 MiB");
    let explained = tool().args(["explain", &process.id()]).assert().success();
    explained.stdout(contains("trim_threshold  8 MiB  auto     prim_option_set"));
    process.assert_unharmed();
}

#[test]
fn who_computes_is_asked_outside_of_malloc() {
    let Some(process) = Asked::preloaded(&["b", "3"]) else { return };
    for _ in 0..5 {
        // All of its threads may be inside malloc whenever one looks: then that is said.
        let asked = process.trim();
        if !asked.get_output().status.success() {
            asked.code(125).stderr(contains("no thread could be asked: each was inside malloc"));
        }
    }
    process.assert_unharmed();
}

#[test]
fn a_profile_tells_who_allocates_from_now_on() {
    let Some(process) = Asked::preloaded(&["fn", "1"]) else { return };
    let kept = FILES.join("now.pb.gz");
    let shown =
        process.profile_at_work(plain_tool(), &["--json", "--keep", kept.to_str().unwrap()]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["functions"][0]["function"], "allocates", "{shown}");
    assert!(shown["remarks"].to_string().contains("was running"), "{shown}");
    assert_eq!(shown["pid"].to_string(), process.id());
    tool().arg("report").arg(&kept).assert().success().stdout(contains("allocates"));
    process.profile(&["--duration", "1ms"]).success().stdout(contains("asked, process "));
    process.assert_unharmed();
}

/// As after an upgrade: the process goes on with what it was started from.
#[test]
fn a_program_that_was_replaced_since_has_its_names_all_the_same() {
    let Some(library) = preloaded() else { return };
    let program = FILES.join("asked-replaced");
    std::fs::copy(&*ASKED, &program).unwrap();
    let process = Asked::started(program.clone(), &["fn", "1"], &[("LD_PRELOAD", &library)]);
    for replacement in [Some("/bin/true"), None] {
        std::fs::remove_file(&program).unwrap();
        replacement.map(|other| std::fs::copy(other, &program).unwrap());
        let shown = process.profile_at_work(plain_tool(), &[]);
        assert!(shown.contains("allocates") && !shown.contains("no names"), "{shown}");
    }
    process.assert_unharmed();
}

/// Nothing is opened in the process, so that its rights do not matter, nor a filter.
#[test]
fn who_may_open_no_file_has_a_profile_all_the_same() {
    let Some(process) = Asked::preloaded(&["k", "1"]) else { return };
    assert!(process.profile_at_work(plain_tool(), &[]).contains("allocates"));
    process.assert_unharmed();
}

#[test]
fn a_kernel_as_old_as_can_be_is_enough() {
    let Some(process) = Asked::preloaded(&["f", "1"]) else { return };
    let old_kernel =
        compile("../../../tests/support/old_kernel.c", "old-kernel", &["-D_GNU_SOURCE"]);
    let mut tool = Command::new(old_kernel);
    tool.arg(plain_tool().get_program());
    assert!(process.profile_at_work(tool, &[]).contains("allocates"));
    process.assert_unharmed();
}

#[test]
fn who_is_watched_from_the_start_is_not_profiled_anew() {
    let Some(library) = preloaded() else { return };
    let file = FILES.join("from-the-start.pb.gz");
    let environment =
        [("LD_PRELOAD", library.as_str()), ("PRIMALLOC_PROFILE", file.to_str().unwrap())];
    let process = Asked::started(ASKED.clone(), &[], &environment);
    process.profile(&[]).code(125).stderr(contains("it is profiled since its start"));
    process.assert_unharmed();
}

/// The first would report what the second has seen.
#[test]
fn one_profile_at_a_time() {
    let Some(process) = Asked::preloaded(&["f", "1"]) else { return };
    let mut command = plain_tool();
    command.args(["profile", "--pid", &process.id(), "--duration", "1h"]).stderr(Stdio::piped());
    let mut first = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(first.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("is profiled for"), "{line}");
    let second = || process.profile(&["--duration", "1ms"]);
    let refusal = || contains("another primalloc profile --pid profiles it now");
    second().code(125).stderr(refusal());
    let by_thread = ["profile", "--duration", "1ms", "--pid", &process.other_thread()];
    tool().args(by_thread).assert().code(125).stderr(refusal());
    first.kill().unwrap();
    first.wait().unwrap();
    second().success();
    process.assert_unharmed();
}

#[test]
fn a_process_that_ends_takes_its_profile_with_it() {
    let Some(process) = Asked::preloaded(&[]) else { return };
    let mut command = plain_tool();
    command.args(["profile", "--pid", &process.id()]).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut errors = BufReader::new(running.stderr.take().unwrap());
    errors.read_line(&mut String::new()).unwrap();
    drop(process);
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(said.contains("the process has ended, and its profile with it"), "{said}");
    assert_eq!(running.wait().unwrap().code(), Some(125));
}

#[test]
fn a_stopped_process_is_left_alone() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    kill(process.pid(), Signal::SIGSTOP).unwrap();
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    wait_until("the stop", || stat().contains(") T "));
    process.trim().code(125).stderr(contains("the process is stopped, and does nothing before"));
    assert!(stat().contains(") T "));
    kill(process.pid(), Signal::SIGCONT).unwrap();
    process.trim().success();
    process.assert_unharmed();
}

#[test]
fn one_tracer_at_a_time() {
    let Some(process) = Asked::preloaded(&[]) else { return };
    ptrace::seize(process.pid(), ptrace::Options::empty()).unwrap();
    let who = format!("a debugger has this process already, process {}", gettid());
    process.trim().code(125).stderr(contains(who));
    process.assert_unharmed();
}

#[test]
fn who_has_no_right_is_told() {
    let Some(process) = Asked::preloaded(&[]) else { return };
    let mut command = plain_tool();
    command.args(["trim", &process.id()]);
    if getuid().is_root() {
        command.uid(65534).gid(65534);
    } else {
        command = plain_tool();
        command.args(["trim", "1"]);
    }
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("the kernel does not let you look into this process"), "{said}");
            assert_eq!(output.status.code(), Some(125));
        }
        Err(error) => eprintln!("skipped: others may not start the tool here: {error}"),
    }
    process.assert_unharmed();
}

#[test]
fn the_minimal_library_can_all_but_profile() {
    let Some(library) = real_library() else { return };
    let minimal = library.parent().unwrap().join("libprimalloc-minimal.so");
    let environment = [("LD_PRELOAD", minimal.to_str().unwrap())];
    let process = Asked::started(ASKED.clone(), &["f"], &environment);
    process.trim().success().stdout(contains("less than before"));
    process.set(&["soft_limit=1G"]).success();
    process.profile(&[]).code(125).stderr(contains("the minimal library has no profiler"));
    process.assert_unharmed();
}

#[test]
fn of_what_is_linked_in_the_programs_file_tells() {
    let Some(library) = real_library() else { return };
    let archive = library.parent().unwrap().join("libprimalloc.a");
    let archive = archive.to_str().unwrap();
    let wanted = ["-Wl,--undefined=prim_malloc_trim", archive];
    for (name, flags) in [("asked-static", "-static"), ("asked-pie", "-static-pie")] {
        let program = asked(name, &["-fPIE", flags, wanted[0], wanted[1]]);
        let process = Asked::started(program.clone(), &["p", "1"], &[]);
        process.trim().success().stdout(contains("less than before"));
        process.assert_unharmed();
        let process = Asked::started(program.clone(), &["b"], &[]);
        process
            .trim()
            .code(125)
            .stderr(contains("computing, perhaps inside malloc, which is part"));
        process.assert_unharmed();
        assert!(Command::new("strip").arg(&program).status().unwrap().success());
        let process = Asked::started(program, &[], &[]);
        process.trim().code(125).stderr(contains("names of functions were stripped from it"));
        process.assert_unharmed();
    }
}

#[test]
fn others_cannot_be_asked() {
    let process = Asked::started(ASKED.clone(), &[], &[]);
    process.trim().code(125).stderr(contains("the process does not run on primalloc"));
    process.assert_unharmed();
    let trim = |pid: &str| tool().args(["trim", pid]).assert().code(125);
    trim("2147483647").stderr(contains("there is no such process"));
    trim("0").stderr(contains("invalid value '0'"));
    let both = ["profile", "--pid", "1", "--", "true"];
    tool().args(both).assert().code(125).stderr(contains("cannot be used with"));
}
