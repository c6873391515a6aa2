//! A terminal's signals reach the program, wherever the kernel sends them.

mod support;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::setsid;
use support::explained::Running;
use support::*;

/// The leader of a terminal's session, as a terminal emulator starts it: mostly the tool.
struct OnTerminal {
    leader: Running,
    terminal: Option<PtyMaster>,
}

impl OnTerminal {
    /// Once the program has written a line.
    fn start(words: &[&str]) -> OnTerminal {
        let mut command = plain_tool();
        command.args(words);
        OnTerminal::led_by(command)
    }

    fn led_by(mut command: Command) -> OnTerminal {
        // Nobody else may hold it, or closing it would end nothing.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let terminal = posix_openpt(flags).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        command.stdin(end_of(&terminal)).stdout(Stdio::piped());
        // SAFETY: system calls only are made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                for name in [Signal::SIGHUP, Signal::SIGINT] {
                    signal(name, SigHandler::SigDfl)?;
                }
                setsid()?;
                match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let mut leader = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(leader.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        OnTerminal { leader, terminal: Some(terminal) }
    }

    fn status(mut self) -> ExitStatus {
        let state = format!("/proc/{}/stat", self.leader.0.id());
        wait_until("the tool to end", || std::fs::read_to_string(&state).unwrap().contains(") Z"));
        self.leader.0.wait().unwrap()
    }
}

fn end_of(terminal: &PtyMaster) -> File {
    let name = ptsname_r(terminal).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).unwrap()
}

#[test]
fn a_terminal_that_closes_ends_the_program() {
    let script = "trap 'exit 42' HUP; echo ready; while :; do sleep 0.02; done";
    let mut tool = OnTerminal::start(&["run", "--", "sh", "-c", script]);
    drop(tool.terminal.take());
    assert_eq!(tool.status().code(), Some(42));
}

#[test]
fn ctrl_c_reaches_a_program_in_a_group_of_its_own() {
    let words = ["run", "--", "timeout", "60", "sh", "-c", "echo ready; exec sleep 60"];
    let mut tool = OnTerminal::start(&words);
    tool.terminal.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(tool.status().signal(), Some(libc::SIGINT));
}

/// So that the shell learns of it.
#[test]
fn the_tool_stops_with_a_program_that_reads_the_terminal_from_the_background() {
    let script = "set -m; \"$0\" run -- sh -c 'read line < /dev/tty' & echo ready; wait; exit 42";
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).arg(plain_tool().get_program()).stderr(Stdio::null());
    shell.env("PRIMALLOC_LIBRARY", &*FAKE_LIBRARY);
    assert_eq!(OnTerminal::led_by(shell).status().code(), Some(42));
}
