//! Why a process cannot be looked into, and what may help.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use nix::unistd::{getpid, getuid};
use procfs::ProcError;
use procfs::process::{Process, StatFlags};

const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
const CAP_SYS_PTRACE: u64 = 1 << 19;

/// Of what has no memory, whoever looks.
pub fn check(process: &Process) -> Result<()> {
    let pid = process.pid;
    let stat = process.stat().map_err(|error| refusal(pid, error))?;
    if "ZX".contains(stat.state) {
        bail!("{pid}: it has ended, and its parent, process {}, has not seen that yet", stat.ppid);
    }
    if StatFlags::from_bits_truncate(stat.flags).contains(StatFlags::PF_KTHREAD) {
        bail!("{pid}: it is a thread of the kernel, which has no memory of its own");
    }
    Ok(())
}

/// The kernel's numbers of processes are those of the tool's own PID namespace, but /proc may be
/// one's from outside, where the same number is another process.
pub fn check_numbers(pid: i32) -> Result<()> {
    let own = std::fs::read_link("/proc/self").ok();
    if own.is_some_and(|own| own != Path::new(&getpid().to_string())) {
        bail!(
            "{pid}: /proc here is that of another PID namespace than the tool's, so that it is \
             not known which process is meant; unshare --mount-proc mounts the right one"
        );
    }
    Ok(())
}

/// Why the kernel shows nothing of it.
pub fn refusal(pid: i32, error: ProcError) -> anyhow::Error {
    match error {
        ProcError::PermissionDenied(_) => forbidden(pid),
        ProcError::NotFound(_) | ProcError::Incomplete(_) => {
            anyhow!("{pid}: there is no such process")
        }
        error => anyhow!("{pid}: {error}"),
    }
}

/// The kernel forbids to look into it, or to trace it.
pub fn forbidden(pid: i32) -> anyhow::Error {
    let scope = std::fs::read_to_string(SCOPE).unwrap_or_default();
    let is_able = Process::myself()
        .and_then(|own| own.status())
        .is_ok_and(|status| status.capeff & CAP_SYS_PTRACE != 0);
    anyhow!("{pid}: {}", forbidden_because(scope.trim(), getuid().is_root(), is_able))
}

fn forbidden_because(scope: &str, is_root: bool, is_able: bool) -> String {
    match scope {
        "3" => "nobody may look into processes here: kernel.yama.ptrace_scope is 3".to_owned(),
        _ if is_able => {
            "the kernel lets not even root look into this process from here: a filter of system \
             calls or a security module may forbid it"
                .to_owned()
        }
        _ if is_root => "the kernel does not let you look into this process: root may, but here \
                         it lacks the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
            .to_owned(),
        "" | "0" => {
            "the kernel does not let you look into this process; root may (sudo)".to_owned()
        }
        scope => format!(
            "the kernel does not let you look into this process (kernel.yama.ptrace_scope is \
             {scope}); root may (sudo)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_is_told() {
        let because = forbidden_because;
        let usual = "the kernel does not let you look into this process";
        assert_eq!(because("", false, false), format!("{usual}; root may (sudo)"));
        assert_eq!(because("0", false, false), because("", false, false));
        for scope in ["1", "2"] {
            let expected =
                format!("{usual} (kernel.yama.ptrace_scope is {scope}); root may (sudo)");
            assert_eq!(because(scope, false, false), expected);
            assert!(because(scope, true, false).contains("--cap-add SYS_PTRACE"));
            assert!(because(scope, true, true).contains("not even root"));
        }
        assert!(because("3", true, true).starts_with("nobody may"));
    }
}
