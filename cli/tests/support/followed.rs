//! The tool at work in a process, held at each point of that.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::plain_tool;

/// What changes the process, or looks at what has changed.
const POINTS: [i64; 2] = [libc::SYS_ptrace, libc::SYS_pwrite64];

/// The tool, and its child that asks: that is followed from point to point.
pub struct Followed {
    pub tool: Child,
    keeper: Pid,
}

impl Followed {
    pub fn start(words: &[&str]) -> Followed {
        let mut command = plain_tool();
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // SAFETY: one system call is made between fork and exec.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(io::Error::from)) };
        let tool = command.spawn().unwrap();
        let pid = Pid::from_raw(tool.id() as i32);
        assert_eq!(waitpid(pid, None).unwrap(), WaitStatus::Stopped(pid, Signal::SIGTRAP));
        let wanted = Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACESYSGOOD;
        ptrace::setoptions(pid, wanted | Options::PTRACE_O_EXITKILL).unwrap();
        ptrace::cont(pid, None).unwrap();
        let forked = WaitStatus::PtraceEvent(pid, Signal::SIGTRAP, libc::PTRACE_EVENT_FORK);
        assert_eq!(waitpid(pid, None).unwrap(), forked);
        let keeper = Pid::from_raw(ptrace::getevent(pid).unwrap() as i32);
        assert_eq!(wait_for(keeper), WaitStatus::Stopped(keeper, Signal::SIGSTOP));
        ptrace::detach(pid, None).unwrap();
        Followed { tool, keeper }
    }

    /// Up to the next point; whether there is one.
    pub fn advance(&self) -> bool {
        self.advance_to(|number, _| POINTS.contains(&number))
    }

    /// To its end; how often it has opened a file for nothing but to write to it.
    pub fn opens_to_write(&self) -> usize {
        let is_to_write = |flags: u64| flags as i32 & libc::O_ACCMODE == libc::O_WRONLY;
        let opens =
            |number, arguments: [u64; 6]| number == libc::SYS_openat && is_to_write(arguments[2]);
        std::iter::from_fn(|| self.advance_to(opens).then_some(())).count()
    }

    /// Up to the beginning of such a system call.
    fn advance_to(&self, is_it: impl Fn(i64, [u64; 6]) -> bool) -> bool {
        loop {
            ptrace::syscall(self.keeper, None).unwrap();
            match wait_for(self.keeper) {
                WaitStatus::PtraceSyscall(_) if self.is_at(&is_it) => return true,
                WaitStatus::PtraceSyscall(_) => {}
                WaitStatus::Exited(_, 0) => return false,
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_at(&self, is_it: impl Fn(i64, [u64; 6]) -> bool) -> bool {
        let info = ptrace::syscall_info(self.keeper).unwrap();
        // SAFETY: at the beginning of a call this is what the kernel has filled in.
        let entry = || unsafe { info.u.entry };
        info.op == libc::PTRACE_SYSCALL_INFO_ENTRY && is_it(entry().nr as i64, entry().args)
    }

    /// As from a terminal, or by who kills all that belongs together.
    pub fn end_tool_by(&self, signal: Signal) {
        killpg(Pid::from_raw(self.tool.id() as i32), signal).unwrap();
    }

    /// To its end.
    pub fn go_on(&self) {
        ptrace::cont(self.keeper, None).unwrap();
        assert_eq!(wait_for(self.keeper), WaitStatus::Exited(self.keeper, 0));
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.tool.wait();
    }
}

fn wait_for(pid: Pid) -> WaitStatus {
    waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap()
}
