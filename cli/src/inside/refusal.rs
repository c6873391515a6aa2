//! Why a process cannot be asked, and what may help.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use nix::errno::Errno;
use procfs::process::{MemoryMap, ProcState, Process, Task};

use super::held::mask_of;
use super::threads::Unfit;
use crate::explain;
use crate::output::printable;
use crate::proc_texts;
use crate::program::Image;

pub fn stopped(pid: i32) -> String {
    format!("{pid}: the process is stopped, and does nothing before kill -CONT {pid}")
}

pub fn shadow_stack(pid: i32) -> String {
    format!("{pid}: it has a shadow stack, which only calls of its own may change")
}

/// What of a thread's state speaks against asking any of its process; else why not this one.
pub fn check(process: &Process, task: &Task) -> Result<Option<String>> {
    let pid = process.pid;
    match task.stat().map(|stat| stat.state()) {
        Ok(Ok(ProcState::Stopped)) => bail!(stopped(pid)),
        Ok(Ok(ProcState::Tracing)) => bail!(traced(pid, task.tid)),
        _ => {}
    }
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/task/{}/status", task.tid))
    else {
        return Ok(None);
    };
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if of("x86_Thread_features:").is_some_and(|features| features.contains("shstk")) {
        bail!(shadow_stack(pid));
    }
    let has_segv = |name: &str| {
        let mask = of(name).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & mask_of(&[libc::SIGSEGV]) != 0)
    };
    if has_segv("SigIgn:") {
        bail!("{pid}: it ignores SIGSEGV, by which the end of a call is known");
    }
    // It would take it at once.
    if has_segv("SigBlk:") && (has_segv("SigPnd:") || has_segv("ShdPnd:")) {
        let why = "a SIGSEGV waits for it to be unblocked, by which the end of a call is known";
        return Ok(Some(format!("{pid}: {why}")));
    }
    let is_strict = of("Seccomp:").is_some_and(|mode| mode.trim() == "1");
    Ok(is_strict.then(|| {
        format!(
            "{pid}: it may only read and write (seccomp's strict mode), and a call would end it"
        )
    }))
}

/// What its threads were doing whenever one looked.
pub fn none_fit(pid: i32, time: Duration, unfit: &BTreeSet<Unfit>) -> String {
    let what = |why: &Unfit| match why {
        Unfit::Inside => "inside malloc or free",
        Unfit::SeemsInside => {
            "perhaps inside malloc: its stack has an address of that on top, as earlier calls, and \
             the start of main, leave it there as well"
        }
        Unfit::Computes => "computing, perhaps inside malloc, which is part of the program here",
        Unfit::Sequence => "in a sequence of instructions that is not to be disturbed",
        Unfit::SystemCall => "in a system call that is not to be disturbed",
        Unfit::Stack => "near the end of its stack, or on one of the program's own",
    };
    let each = match unfit.is_empty() {
        true => "ended at once".to_owned(),
        false => format!("was {}", unfit.iter().map(what).collect::<Vec<_>>().join("; or ")),
    };
    let seconds = time.as_secs();
    format!("{pid}: for {seconds} seconds no thread could be asked: each {each}")
}

/// The end of a call is known by what happens at this address.
pub fn memory_at_return(pid: i32) -> String {
    format!(
        "{pid}: it has memory at address 0, where nothing may be for the end of a call to be known"
    )
}

fn traced(pid: i32, tid: i32) -> String {
    let of = |pid: i32| Process::new(pid).and_then(|process| proc_texts::status(&process)).ok();
    let who = match of(tid).map(|status| status.tracerpid) {
        Some(tracer) if tracer != 0 => match of(tracer) {
            Some(status) => format!(", process {tracer} ({})", printable(&status.name)),
            None => format!(", process {tracer}"),
        },
        _ => String::new(),
    };
    format!("{pid}: a debugger has this process already{who}, and one at a time may")
}

pub fn of_tracing(pid: i32, tid: i32, error: Errno) -> anyhow::Error {
    let status = Process::new(tid).and_then(|thread| proc_texts::status(&thread));
    match error {
        _ if status.is_ok_and(|status| status.tracerpid != 0) => anyhow!(traced(pid, tid)),
        Errno::EPERM => explain::forbidden(pid),
        error => anyhow!("{pid}: it cannot be traced: {error}"),
    }
}

/// What a process runs on that does not run on primalloc.
pub fn other_allocator(process: &Process, maps: &[MemoryMap]) -> anyhow::Error {
    let pid = process.pid;
    let machine_of = |program: PathBuf| Image::read(&program).map(|image| image.machine).ok();
    let program = Path::new("/proc").join(pid.to_string()).join("exe");
    let machines = (machine_of(program.clone()), machine_of("/proc/self/exe".into()));
    if let (Some(theirs), Some(ours)) = machines
        && theirs != ours
    {
        return anyhow!("{pid}: it is a process of {theirs}, and this tool is for {ours}");
    }
    let other = explain::other_allocator(maps)
        .map(|other| format!(" but on {} ({})", other.name, other.library.display()));
    let is_static = || Image::read(&program).is_ok_and(|image| image.loader.is_none());
    let instead = match other {
        Some(other) => other,
        None if is_static() => ": its program is static, and has no primalloc linked in".to_owned(),
        None => String::new(),
    };
    anyhow!(
        "{pid}: the process does not run on primalloc{instead}; primalloc ps lists those that do"
    )
}
