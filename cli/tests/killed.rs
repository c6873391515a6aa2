//! The tool is killed at every point of what it does in a process: the process goes on unharmed,
//! and is not left stopped, traced or profiled.

mod support;

use std::fs;

use nix::sys::signal::Signal;
use support::asked::*;
use support::followed::Followed;
use support::*;

fn assert_left_alone(process: &Asked) {
    for task in fs::read_dir(format!("/proc/{}/task", process.id())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let is_alone = status.contains("\nTracerPid:\t0\n") && !status.contains("\nState:\tT");
        assert!(is_alone && !status.contains("\nState:\tt"), "{status}");
    }
}

/// At the points that `step` leaves, each time anew; how many there were.
fn end_tool_at_points(process: &Asked, words: &[&str], signal: Signal, step: usize) -> usize {
    for count in (1..).step_by(step) {
        let mut followed = Followed::start(words);
        if !(0..count).all(|_| followed.advance()) {
            assert_eq!(followed.tool.wait().unwrap().code(), Some(0));
            return count - 1;
        }
        followed.end_tool_by(signal);
        followed.go_on();
        assert_left_alone(process);
    }
    unreachable!()
}

#[test]
fn a_process_survives_the_tool_wherever_it_is_killed() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    let id = process.id();
    assert!(end_tool_at_points(&process, &["trim", &id], Signal::SIGKILL, 1) >= 10);
    let set = ["set", &id, "soft_limit=256M", "trim_threshold=8M"];
    assert!(end_tool_at_points(&process, &set, Signal::SIGKILL, 1) >= 30);
    process.assert_unharmed();
}

#[test]
fn a_process_survives_the_tool_whatever_ends_it() {
    let Some(process) = Asked::preloaded(&["x"]) else { return };
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        end_tool_at_points(&process, &["trim", &process.id()], signal, 3);
    }
    process.assert_unharmed();
}

#[test]
fn who_computes_survives_it_as_well() {
    let Some(process) = Asked::preloaded(&["b", "2"]) else { return };
    for count in (1..30).step_by(4) {
        // When no thread is fit, there are other points.
        let followed = Followed::start(&["trim", &process.id()]);
        if (0..count).all(|_| followed.advance()) {
            followed.end_tool_by(Signal::SIGKILL);
            followed.go_on();
        }
        assert_left_alone(&process);
    }
    process.assert_unharmed();
}

#[test]
fn nothing_is_begun_for_who_has_been_killed_before() {
    let Some(process) = Asked::preloaded(&[]) else { return };
    let mut followed = Followed::start(&["trim", &process.id()]);
    followed.tool.kill().unwrap();
    followed.tool.wait().unwrap();
    assert!(!followed.advance());
    process.assert_unharmed();
}

/// Most is the writing, one system call after another.
#[test]
fn a_profile_ends_with_the_tool() {
    for count in (1..40).step_by(3).chain([100]) {
        let file = FILES.join(format!("{count}.pb.gz"));
        let _ = fs::remove_file(&file); // an earlier run's
        let words = ["f", "1", file.to_str().unwrap()];
        let Some(process) = Asked::preloaded(&words) else { return };
        let id = process.id();
        let profile = ["profile", "--rate", "1K", "--duration", "1ms", "--pid", &id];
        let followed = Followed::start(&profile);
        if (0..count).all(|_| followed.advance()) {
            followed.end_tool_by(Signal::SIGKILL);
            followed.go_on();
        }
        assert_left_alone(&process);
        process.assert_unharmed();
        if file.exists() {
            let shown = tool().args(["report", "--top", "0"]).arg(&file).assert().success();
            let text = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
            assert!(!text.contains("allocates_late"), "{text}");
        }
    }
}
