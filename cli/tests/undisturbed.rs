//! What a process may count on holds while it is asked: its signals, what ends its waits, what it
//! has forbidden itself.

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use nix::sys::signal::{Signal, kill};
use predicates::prelude::*;
use predicates::str::contains;
use support::asked::*;
use support::explained::preloaded;
use support::followed::Followed;
use support::*;

static DISTURBED: LazyLock<PathBuf> = LazyLock::new(|| {
    compile("disturbed.c", "disturbed", &["-O1", "-g", "-fno-builtin", "-pthread", "-ldl"])
});

fn disturbed(words: &[&str]) -> Option<Asked> {
    let mut command = Command::new(DISTURBED.as_path());
    command.args(words).env("PRIMALLOC_PURGE", "0").env("LD_PRELOAD", preloaded()?);
    Asked::try_started(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
}

/// A program may look only then whether a handler has run, as Python does.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_handler_ends_a_wait_that_it_would_have_ended() {
    for count in (1..12).step_by(2) {
        let Some(process) = disturbed(&["handled"]) else { return };
        let followed = Followed::start(&["trim", &process.id()]);
        assert!((0..count).all(|_| followed.advance()));
        kill(process.pid(), Signal::SIGUSR1).unwrap();
        followed.go_on();
        process.assert_unharmed();
    }
}

/// Calls of which nothing is lost, but that no stop may end.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_stop_ends_a_wait_for_a_semaphore() {
    let Some(process) = disturbed(&["semaphore"]) else { return };
    for _ in 0..150 {
        process.trim().success();
    }
    process.assert_unharmed();
}

/// As collectors of garbage stop threads: anywhere, also between two steps of malloc.
#[test]
fn who_waits_in_the_middle_of_malloc_is_not_asked_there() {
    let Some(process) = disturbed(&["interrupted"]) else { return };
    process.trim().code(125).stderr(contains("no thread could be asked: each was inside malloc"));
    process.assert_unharmed();
}

/// On its stack lies what was called before `main`, and nothing else has been called since.
#[test]
fn who_computes_in_main_is_not_said_to_be_inside_malloc() {
    let Some(process) = disturbed(&["computes"]) else { return };
    process.trim().stderr(contains("inside malloc or free").not());
    process.assert_unharmed();
}

#[test]
fn blocked_signals_wait_on() {
    let signals =
        [Signal::SIGTRAP, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGSYS, Signal::SIGUSR1];
    let numbers = signals.map(|signal| (signal as i32).to_string());
    let words: Vec<&str> = ["pending"].into_iter().chain(numbers.iter().map(|n| &**n)).collect();
    let Some(process) = disturbed(&words) else { return };
    process.trim().success().stdout(contains("less than before"));
    process.set(&["soft_limit=256M"]).success();
    process.assert_unharmed();
}

#[test]
fn who_has_the_end_of_a_call_pending_is_left_alone() {
    let number = (Signal::SIGSEGV as i32).to_string();
    let Some(process) = disturbed(&["pending", &number]) else { return };
    process.trim().code(125).stderr(contains("a SIGSEGV waits for it to be unblocked"));
    process.assert_unharmed();
}

#[test]
fn who_may_only_read_and_write_is_left_alone() {
    let Some(process) = disturbed(&["strict"]) else { return };
    process.trim().code(125).stderr(contains("seccomp's strict mode"));
    process.assert_unharmed();
}

/// Which the kernel allows root alone, as a rule.
#[test]
fn who_has_memory_at_address_0_is_left_alone() {
    let Some(process) = disturbed(&["zero"]) else { return };
    process.trim().code(125).stderr(contains("it has memory at address 0"));
    process.assert_unharmed();
}

/// What it writes goes to the memory of who is held, whatever the number means later.
#[test]
fn the_memory_of_who_is_asked_is_opened_once() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    let set = ["set", &process.id(), "soft_limit=256M", "trim_threshold=8M"];
    assert_eq!(Followed::start(&set).opens_to_write(), 1);
    process.assert_unharmed();
}
