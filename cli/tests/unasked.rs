//! Processes that cannot be asked: why is said in one line, and they are left as they were.

mod support;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use nix::sys::prctl;
use nix::unistd::getuid;
use support::asked::*;
use support::explained::Running;
use support::*;

const FILTER: [libc::sock_filter; 4] = [
    line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
    line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_ptrace as u32),
    line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
];

const fn line(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// The kernel lets who runs under this trace nobody.
fn forbid_tracing() -> io::Result<()> {
    let mut lines = FILTER;
    let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    prctl::set_no_new_privs()?;
    // SAFETY: the kernel copies the program, which is whole.
    let set = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn assert_says(output: &Output, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains(what), "{what} in {said}");
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(output.stdout.is_empty());
}

/// Whatever is asked for.
fn assert_refused(id: &str, what: &str) {
    for words in [&["trim", id][..], &["set", id, "shards=1"], &["profile", "--pid", id]] {
        assert_says(&plain_tool().args(words).output().unwrap(), &format!("{id}: {what}"));
    }
}

#[test]
fn who_has_ended_is_told_from_who_never_was() {
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let id = child.id().to_string();
    let stat = || fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    wait_until("the program's end", || stat().contains(") Z "));
    let parent = format!("it has ended, and its parent, process {}, ", std::process::id());
    assert_refused(&id, &parent);
    assert_says(&plain_tool().args(["faults", "--pid", &id]).output().unwrap(), &parent);
    child.wait().unwrap();
    assert_refused(&id, "there is no such process");
}

#[test]
fn the_kernels_threads_have_no_memory() {
    match fs::read_to_string("/proc/2/comm") {
        Ok(name) if name == "kthreadd\n" => assert_refused("2", "it is a thread of the kernel"),
        _ => eprintln!("skipped: no thread of the kernel is seen here"),
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_process_is_of_another_machine() {
    let source = FILES.join("narrow.c");
    let text = "void _start(void) { for (;;) __asm__ volatile(\"int $0x80\" : : \"a\"(29)); }\n";
    fs::write(&source, text).unwrap();
    let program = FILES.join("narrow");
    let mut compiler = Command::new("cc");
    compiler.args(["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-o"]);
    assert!(compiler.arg(&program).arg(&source).status().unwrap().success());
    let child = match Command::new(&program).spawn() {
        Ok(child) => Running(child),
        Err(error) => return eprintln!("skipped: the kernel runs no such program: {error}"),
    };
    let id = child.0.id().to_string();
    assert_refused(&id, "it is a process of 32-bit x86, and this tool is for 64-bit x86\n");
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    assert!(stat.contains(") S "), "{stat}");
}

#[test]
fn what_it_runs_on_instead_is_said() {
    let process = Asked::started(asked("asked-alone", &["-static"]), &["p"], &[]);
    let what = "the process does not run on primalloc: its program is static, and has no primalloc \
                linked in";
    assert_refused(&process.id(), what);
    process.assert_unharmed();
    let other = compile("fake_library.c", "libjemalloc.so.2", &["-shared", "-fPIC", "-DSILENT"]);
    let other = other.to_str().unwrap();
    let process = Asked::started(ASKED.clone(), &["p"], &[("LD_PRELOAD", other)]);
    let what = format!("the process does not run on primalloc but on jemalloc ({other})");
    assert_refused(&process.id(), &what);
    process.assert_unharmed();
}

/// As in a container, or under a security module.
#[test]
fn who_may_trace_nobody_is_told() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    let mut command = plain_tool();
    command.args(["trim", &process.id()]);
    // SAFETY: system calls are made between fork and exec, and nothing else.
    unsafe { command.pre_exec(forbid_tracing) };
    let output = command.output().unwrap();
    if getuid().is_root() {
        assert_says(&output, "the kernel lets not even root look into this process from here: a f");
    } else {
        assert_says(&output, "the kernel does not let you look into this process");
    }
    process.assert_unharmed();
}

#[test]
fn root_without_its_powers_is_told_which_is_missing() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    let tool = plain_tool();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]);
    command.arg(tool.get_program()).args(["trim", &process.id()]);
    match command.output() {
        Ok(output) if getuid().is_root() => assert_says(&output, "--cap-add SYS_PTRACE"),
        _ => eprintln!("skipped: only root has powers to lay down, by setpriv"),
    }
    process.assert_unharmed();
}

/// Its own number there is another one, and means nothing here.
#[test]
fn numbers_are_those_of_the_tools_own_namespace() {
    let Some(process) = Asked::preloaded(&["f"]) else { return };
    let unshare =
        |words: &[&str]| Command::new("unshare").args(["--pid", "--fork"]).args(words).output();
    if !unshare(&["true"]).is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: no namespace can be made here");
    }
    let tool = plain_tool();
    let tool = tool.get_program().to_str().unwrap();
    let id = process.id();
    for verb in [&["trim"][..], &["faults", "--duration", "100ms", "--pid"]] {
        let output = unshare(&[&[tool], verb, &[&id]].concat()).unwrap();
        assert_says(&output, "/proc here is that of another PID namespace than the tool's");
        let output = unshare(&[&["--mount-proc", tool], verb, &[&id]].concat()).unwrap();
        assert_says(&output, "there is no such process");
    }
    process.assert_unharmed();
}

#[test]
fn who_is_in_another_namespace_is_asked_from_outside() {
    let Some(library) = explained::preloaded() else { return };
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "env"]).arg(format!("LD_PRELOAD={library}"));
    command.arg(&*ASKED).arg("f").stdin(Stdio::piped()).stdout(Stdio::piped());
    let Some(process) = Asked::try_started(&mut command) else {
        return eprintln!("skipped: no namespace can be made here");
    };
    let children = format!("/proc/{0}/task/{0}/children", process.id());
    let inside = fs::read_to_string(children).unwrap();
    tool().args(["trim", inside.trim()]).assert().success();
    process.assert_unharmed();
}
