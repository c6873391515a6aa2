//! `primalloc run`: the program runs as if it had been started directly, but on primalloc.

mod support;

use std::env::consts::ARCH;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use predicates::prelude::*;
use predicates::str::contains;
use support::*;

#[test]
fn output_arguments_and_exit_status_pass_through() {
    tool()
        .args(["run", "--", "sh", "-c", "echo \"$1\"; exit 7", "sh", "an argument"])
        .assert()
        .code(7)
        .stdout("an argument\n")
        .stderr("");
}

#[test]
fn standard_input_passes_through() {
    tool().args(["run", "--", "cat"]).write_stdin("a line\n").assert().success().stdout("a line\n");
}

#[test]
fn options_of_the_program_need_no_dashes_before_it() {
    tool().args(["run", "echo", "--library", "-n"]).assert().success().stdout("--library -n\n");
}

#[test]
fn the_library_comes_before_other_preloads() {
    let expected = format!("{}:{}\n", FAKE_LIBRARY.display(), SILENT_LIBRARY.display());
    tool()
        .env("LD_PRELOAD", &*SILENT_LIBRARY)
        .args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .assert()
        .success()
        .stdout(expected);
}

#[test]
fn the_library_is_found_below_the_prefix_of_the_tool() {
    for directory in [&format!("lib/{ARCH}-linux-gnu"), "lib64", "lib"] {
        let prefix = FILES.join("prefix-of").join(directory.replace('/', "-"));
        let (moved, library) =
            (prefix.join("bin/primalloc"), prefix.join(directory).join("libprimalloc.so.0"));
        for file in [&moved, &library] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        copy_program(plain_tool().get_program(), &moved);
        copy_program(&*FAKE_LIBRARY, &library);
        assert_cmd::Command::new(&moved)
            .env_remove("PRIMALLOC_LIBRARY")
            .env_remove("LD_PRELOAD")
            .args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
            .assert()
            .success()
            .stdout(format!("{}\n", library.display()));
    }
}

#[test]
fn options_are_added_to_those_of_the_environment() {
    tool()
        .env("PRIMALLOC_OPTIONS", "stats=full")
        .args(["run", "-o", "purge=0", "--option", "verbose=1", "--"])
        .args(["sh", "-c", "echo $PRIMALLOC_OPTIONS"])
        .assert()
        .stdout("stats=full,purge=0,verbose=1\n");
}

#[test]
fn an_option_wins_over_its_own_variable() {
    let show = "echo ${PRIMALLOC_PURGE_DELAY-unset} ${PRIMALLOC_PURGE-unset}";
    tool()
        .envs([("PRIMALLOC_PURGE_DELAY", "1s"), ("PRIMALLOC_PURGE", "1")])
        .args(["run", "-o", "purge_delay=0", "--", "sh", "-c", show])
        .assert()
        .stdout("unset 1\n");
}

#[test]
fn only_exe_is_passed_on_to_the_library() {
    let show = ["sh", "-c", "echo ${PRIMALLOC_ONLY_EXE-unset}"];
    tool().args(["run", "--"]).args(show).assert().stdout("unset\n");
    tool().args(["run", "--only-exe", "--"]).args(show).assert().stdout("1\n");
}

#[test]
fn nothing_of_the_handshake_is_left_in_the_program() {
    let show = "echo ${PRIMALLOC_HANDSHAKE-unset}; ls /proc/self/fd | wc -l";
    let bare = std::process::Command::new("sh").args(["-c", show]).output().unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    tool().args(["run", "--", "sh", "-c", show]).assert().stdout(bare);
}

#[test]
fn a_library_that_does_not_answer_is_reported() {
    let run = |extra: &[&str]| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &*SILENT_LIBRARY).arg("run").args(extra);
        tool.args(["--", "sh", "-c", "exit 3"]).assert().code(3)
    };
    run(&[]).stderr(contains("sh does not run on primalloc"));
    run(&["--quiet"]).stderr("");
}

#[test]
fn a_library_that_has_loaded_but_is_silent_is_recognised() {
    let flags = ["-shared", "-fPIC", "-DSILENT"];
    let silent = compile("fake_library.c", "libprimalloc_silent.so", &flags);
    let mut tool = tool();
    tool.env("PRIMALLOC_LIBRARY", silent).args(["run", "--", "sleep", "5"]);
    tool.assert().success().stderr(contains("is loaded but has not answered"));
}

/// The loader leaves it out, and the program goes on without it: not only its end tells.
#[test]
fn a_library_that_is_left_out_is_told_of_while_the_program_runs() {
    const SYSTEM_OFFSET: usize = 7;
    let library = FILES.join("libprimalloc_foreign.so");
    let mut bytes = std::fs::read(&*FAKE_LIBRARY).unwrap();
    bytes[SYSTEM_OFFSET] = 0xff;
    std::fs::write(&library, bytes).unwrap();
    let mut command = plain_tool();
    command.env("PRIMALLOC_LIBRARY", library).args(["run", "--", "sleep", "60"]);
    let mut running = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    let start = Instant::now();
    let line = said.into_iter().find(|line| line.starts_with("primalloc: ")).unwrap();
    assert!(line.contains("sleep does not run on primalloc: the loader has left"), "{line}");
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    kill(Pid::from_raw(running.id() as i32), Signal::SIGTERM).unwrap();
    running.wait().unwrap();
}

#[test]
fn a_library_of_somebody_else_is_refused() {
    let says = format!("{}: not a library of primalloc; compare", OTHER_LIBRARY.display());
    for verb in ["run", "watch", "profile", "leaks"] {
        let mut tool = tool();
        tool.arg(verb).arg("--library").arg(&*OTHER_LIBRARY).args(["--", "echo", "run"]);
        tool.assert().code(125).stdout("").stderr(contains(&says));
    }
}

#[test]
fn a_damaged_library_is_refused() {
    let whole = std::fs::read(&*FAKE_LIBRARY).unwrap();
    let damaged = FILES.join("damaged.so");
    std::fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let mut tool = tool();
    tool.env("PRIMALLOC_LIBRARY", damaged).args(["run", "--", "true"]);
    tool.assert().code(125).stderr(contains("damaged.so: not a library that can be loaded"));
}

#[test]
fn a_missing_library_is_reported_with_where_it_was_looked_for() {
    tool()
        .args(["run", "--library", "/no/such/lib.so", "--", "true"])
        .assert()
        .code(125)
        .stderr("primalloc: /no/such/lib.so: no such library\n");
    tool()
        .args(["run", "--library", "/tmp", "--", "true"])
        .assert()
        .code(125)
        .stderr(contains("/tmp: not a library but a directory"));
}

#[test]
fn a_library_that_ld_preload_cannot_name_is_refused() {
    let path = FILES.join("with space.so");
    std::fs::copy(&*FAKE_LIBRARY, &path).unwrap();
    let mut tool = tool();
    tool.arg("run").arg("--library").arg(path).args(["--", "true"]);
    tool.assert().code(125).stderr(contains("splits LD_PRELOAD at spaces and colons"));
}

#[test]
fn wrong_options_are_explained() {
    let complaint = |argument: &str| {
        let assert = tool().args(["run", "--option", argument, "--", "true"]).assert().code(125);
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    assert!(complaint("verbose").contains("an option is NAME=VALUE, for example verbose=1"));
    assert!(complaint("Verbose=1").contains("'Verbose' is no option name"));
    tool().args(["run", "--librari", "x", "true"]).assert().code(125);
    tool().arg("run").assert().code(125).stderr(contains("PROGRAM"));
}

#[test]
fn help_goes_to_standard_output() {
    tool()
        .args(["run", "--help"])
        .assert()
        .success()
        .stdout(contains("Examples:").and(contains("--only-exe")).and(contains("Exit status")));
}
