//! Signals reach the program as if the tool were not there, and its state reaches the caller.

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use procfs::process::Process;
use support::*;

/// Starts a shell on primalloc, in a process group of its own, and waits for its first line.
///
/// A test that runs in the background of a script inherits an ignored SIGINT, one below nohup an
/// ignored SIGHUP, which no shell can trap: the program begins with the default.
fn start(shell_script: &str) -> (Child, BufReader<ChildStdout>, String) {
    start_verb(&["run"], shell_script)
}

fn start_verb(words: &[&str], shell_script: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut command = plain_tool();
    command.args(words).args(["--", "sh", "-c", shell_script]);
    command.stdout(Stdio::piped()).process_group(0);
    // SAFETY: signal() is async-signal-safe, and all that happens between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for name in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
                signal(name, SigHandler::SigDfl)?;
            }
            Ok(())
        });
    }
    started(&mut command)
}

fn started(command: &mut Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut tool = command.spawn().unwrap();
    let mut output = BufReader::new(tool.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    (tool, output, line.trim().to_owned())
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

fn state_of(pid: i32) -> Option<char> {
    Some(Process::new(pid).ok()?.stat().ok()?.state)
}

/// The tool ignores it for itself alone.
#[test]
fn a_limit_of_files_is_the_programs_own() {
    for (trap, is_ignored) in [("", false), ("trap '' XFSZ; ", true)] {
        for verb in [&["run", "--quiet"][..], &["faults", "--no-perf"]] {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("{trap}exec \"$@\"")).arg("sh");
            shell.arg(plain_tool().get_program()).env("PRIMALLOC_LIBRARY", &*FAKE_LIBRARY);
            let output =
                shell.args(verb).args(["--", "cat", "/proc/self/status"]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
            let ignored = u64::from_str_radix(line, 16).unwrap();
            let bit = 1 << (Signal::SIGXFSZ as u64 - 1);
            assert_eq!(ignored & bit != 0, is_ignored, "{verb:?} {trap}: {line}");
        }
    }
}

#[test]
fn signals_are_forwarded() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGINT] {
        let name = signal.as_str().trim_start_matches("SIG");
        let wait = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.02; done");
        let (mut tool, _output, line) = start(&wait);
        assert_eq!(line, "ready");
        kill(pid_of(&tool), signal).unwrap();
        assert_eq!(tool.wait().unwrap().code(), Some(42), "{signal}");
    }
}

#[test]
fn the_tool_dies_of_the_signal_that_the_program_died_of() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGPIPE] {
        let script = format!("kill -{} $$", signal as i32);
        let status = plain_tool().args(["run", "--", "sh", "-c", &script]).status().unwrap();
        assert_eq!(status.signal(), Some(signal as i32));
    }
}

/// Those that nix has no names for, and those that mean something to some programs only.
#[test]
fn signals_of_all_kinds_are_forwarded() {
    let real_time = libc::SIGRTMIN() + 3;
    for signal in [libc::SIGTTIN, libc::SIGTTOU, libc::SIGALRM, libc::SIGIO, real_time] {
        // Not every shell takes numbers beyond those with names.
        let wait = format!("trap 'exit 42' {signal}; echo ready; while :; do sleep 0.02; done");
        let mut command = plain_tool();
        command.args(["run", "--", "bash", "-c", &wait]).stdout(Stdio::piped());
        let (mut tool, _output, line) = started(&mut command);
        assert_eq!(line, "ready");
        // SAFETY: nothing of this process is touched.
        assert_eq!(unsafe { libc::kill(tool.id() as i32, signal) }, 0);
        wait_until("the tool to end", || matches!(state_of(tool.id() as i32), None | Some('Z')));
        assert_eq!(tool.wait().unwrap().code(), Some(42), "{signal}");
    }
}

#[test]
fn a_real_time_signal_ends_the_tool_as_well() {
    let number = libc::SIGRTMIN() + 3;
    let script = format!("kill -{number} $$");
    let status = plain_tool().args(["run", "--", "bash", "-c", &script]).status().unwrap();
    assert_eq!(status.signal(), Some(number));
}

#[test]
fn the_tool_stops_and_continues_with_the_program() {
    let (mut tool, _output, program) = start("echo $$; read line < /dev/zero; sleep 60");
    let (tool_pid, program_pid) = (tool.id() as i32, program.parse().unwrap());
    kill(pid_of(&tool), Signal::SIGTSTP).unwrap();
    wait_until("both to stop", || {
        state_of(tool_pid) == Some('T') && state_of(program_pid) == Some('T')
    });
    kill(pid_of(&tool), Signal::SIGCONT).unwrap();
    wait_until("both to go on", || {
        state_of(tool_pid) != Some('T') && state_of(program_pid) != Some('T')
    });
    kill(pid_of(&tool), Signal::SIGTERM).unwrap();
    assert_eq!(tool.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}

/// As who has its number stops and continues it.
#[test]
fn a_program_that_is_stopped_alone_may_go_on_alone() {
    for (verb, signal) in
        [("run", Signal::SIGSTOP), ("run", Signal::SIGTSTP), ("compare", Signal::SIGSTOP)]
    {
        let words: &[&str] = match verb {
            "run" => &["run"],
            _ => &[
                "compare", "--with", "glibc", "--runs", "1", "--warmup", "0", "--output", "inherit",
            ],
        };
        let (mut tool, _output, line) = start_verb(words, "echo $$; while :; do sleep 0.02; done");
        let program: i32 = line.parse().unwrap();
        kill(Pid::from_raw(program), signal).unwrap();
        wait_until("it to stop", || state_of(program) == Some('T'));
        std::thread::sleep(Duration::from_millis(100)); // for the tool to learn of it
        for signal in [Signal::SIGCONT, Signal::SIGKILL] {
            kill(Pid::from_raw(program), signal).unwrap();
        }
        wait_until("the tool to end", || matches!(state_of(tool.id() as i32), None | Some('Z')));
        tool.wait().unwrap();
    }
}

#[test]
fn a_killed_tool_leaves_no_program_behind() {
    let (mut tool, _output, program) = start("echo $$; exec sleep 60");
    tool.kill().unwrap();
    tool.wait().unwrap();
    let program = program.parse().unwrap();
    wait_until("the program to end", || matches!(state_of(program), None | Some('Z')));
}

#[test]
fn what_is_measured_ends_with_the_tool_to_the_last_process() {
    let script = "sh -c 'sleep 60 & echo $!; wait'; true";
    for verb in ["compare", "advise"] {
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
            let words = [verb, "--with", "glibc", "--output", "inherit"];
            let (mut tool, _output, line) = start_verb(&words, script);
            kill(pid_of(&tool), signal).unwrap();
            assert_eq!(tool.wait().unwrap().signal(), Some(signal as i32), "{verb}");
            let started = line.parse().unwrap();
            wait_until("the last to end", || matches!(state_of(started), None | Some('Z')));
        }
    }
}

#[test]
fn what_does_not_end_when_asked_is_killed() {
    let script = "trap '' TERM; sh -c 'echo $$; while :; do sleep 0.02; done'; true";
    let words = ["compare", "--with", "glibc", "--output", "inherit"];
    let (mut tool, _output, line) = start_verb(&words, script);
    kill(pid_of(&tool), Signal::SIGTERM).unwrap();
    assert_eq!(tool.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    let started = line.parse().unwrap();
    wait_until("the last to end", || matches!(state_of(started), None | Some('Z')));
}

#[test]
fn what_a_program_starts_when_it_is_asked_to_end_is_killed_as_well() {
    let script = "trap 'sh -c \"echo \\$\\$; exec sleep 60\"' TERM; echo ready; \
                  while :; do sleep 0.02; done";
    let words = ["compare", "--with", "glibc", "--output", "inherit"];
    let (mut tool, mut output, line) = start_verb(&words, script);
    assert_eq!(line, "ready");
    kill(pid_of(&tool), Signal::SIGTERM).unwrap();
    let mut started = String::new();
    output.read_line(&mut started).unwrap();
    assert_eq!(tool.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    let started = started.trim().parse().unwrap();
    wait_until("the last to end", || matches!(state_of(started), None | Some('Z')));
}

/// As the first process of a container has.
#[test]
fn a_tool_that_has_orphans_to_wait_for_ends_by_the_signal_that_asks() {
    let last = "trap 'sleep 0.2; exit' TERM; echo ready; while :; do sleep 0.02; done";
    let mut command = plain_tool();
    command.args(["compare", "--with", "glibc", "--output", "inherit", "--", "sh", "-c"]);
    command.args(["sh -c \"$0\" & wait", last]).stdout(Stdio::piped());
    // SAFETY: one system call is made between fork and exec.
    unsafe { command.pre_exec(|| Ok(prctl::set_child_subreaper(true)?)) };
    let (mut tool, _output, line) = started(&mut command);
    assert_eq!(line, "ready");
    kill(pid_of(&tool), Signal::SIGTERM).unwrap();
    assert_eq!(tool.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn a_measurement_below_nohup_goes_on() {
    let script = "trap '' HUP; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin!("primalloc"))
        .args(["compare", "--with", "glibc", "-n", "1", "--", "sh", "-c", "kill -HUP $PPID"])
        .stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}

#[test]
fn ignored_signals_stay_ignored_in_the_program() {
    let script = "trap '' HUP; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin!("primalloc"))
        .args(["run", "--", "sh", "-c", "kill -HUP $$; exit 5"])
        .env("PRIMALLOC_LIBRARY", &*FAKE_LIBRARY);
    assert_eq!(command.status().unwrap().code(), Some(5));
}

/// While it waits for who is to read the report, say.
#[test]
fn after_the_programs_end_signals_are_the_tools_own() {
    let unread = FILES.join("unread");
    let _ = std::fs::remove_file(&unread); // an earlier run's
    mkfifo(&unread, Mode::S_IRWXU).unwrap();
    for verb in [&["watch"][..], &["faults", "--no-perf"]] {
        let mut command = plain_tool();
        command.args(verb).arg(format!("--json={}", unread.display())).args([
            "--",
            "sh",
            "-c",
            "echo $$; sleep 0.2",
        ]);
        let (mut tool, _output, line) = started(command.stdout(Stdio::piped()));
        wait_until("the program to end", || state_of(line.parse().unwrap()).is_none());
        wait_until("the tool to end", || {
            kill(pid_of(&tool), Signal::SIGTERM).unwrap();
            matches!(state_of(tool.id() as i32), None | Some('Z'))
        });
        assert_eq!(tool.wait().unwrap().signal(), Some(Signal::SIGTERM as i32), "{verb:?}");
    }
}
