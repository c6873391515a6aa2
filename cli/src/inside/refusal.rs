//! Why a process cannot be asked, and what may help.

use anyhow::{Result, anyhow, bail};
use nix::errno::Errno;
use nix::unistd::getuid;
use procfs::process::{ProcState, Process, Task};

const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

pub fn stopped(pid: i32) -> String {
    format!("{pid}: the process is stopped, and does nothing before kill -CONT {pid}")
}

/// What of a thread's state speaks against asking any of its process.
pub fn check(process: &Process, task: &Task) -> Result<()> {
    let pid = process.pid;
    match task.stat().map(|stat| stat.state()) {
        Ok(Ok(ProcState::Stopped)) => bail!(stopped(pid)),
        Ok(Ok(ProcState::Tracing)) => bail!(traced(pid)),
        _ => {}
    }
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/task/{}/status", task.tid))
    else {
        return Ok(());
    };
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if of("x86_Thread_features:").is_some_and(|features| features.contains("shstk")) {
        bail!("{pid}: it has a shadow stack, which only calls of its own may change");
    }
    let ignored = of("SigIgn:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.is_some_and(|mask| mask & super::held::mask_of(&[libc::SIGSEGV]) != 0) {
        bail!("{pid}: it ignores SIGSEGV, by which the end of a call is known");
    }
    Ok(())
}

fn traced(pid: i32) -> String {
    let status = Process::new(pid).and_then(|process| process.status());
    let who = match status.map(|status| status.tracerpid) {
        Ok(tracer) if tracer != 0 => format!(", process {tracer}"),
        _ => String::new(),
    };
    format!("{pid}: a debugger has this process already{who}, and one at a time may")
}

pub fn of_tracing(pid: i32, error: Errno) -> anyhow::Error {
    let status = Process::new(pid).and_then(|process| process.status());
    if status.is_ok_and(|status| status.tracerpid != 0) {
        return anyhow!(traced(pid));
    }
    let scope = std::fs::read_to_string(SCOPE).unwrap_or_default();
    match (error, scope.trim()) {
        (Errno::EPERM, "3") => anyhow!("{pid}: nobody may trace here: kernel.yama.ptrace_scope=3"),
        (Errno::EPERM, scope) if !getuid().is_root() => {
            let why = match scope {
                "" | "0" => String::new(),
                scope => format!(" (kernel.yama.ptrace_scope is {scope})"),
            };
            anyhow!("{pid}: the kernel does not let you trace this process{why}; root may (sudo)")
        }
        (Errno::EPERM, _) => {
            anyhow!("{pid}: the kernel lets not even root trace this process from here")
        }
        (error, _) => anyhow!("{pid}: it cannot be traced: {error}"),
    }
}
