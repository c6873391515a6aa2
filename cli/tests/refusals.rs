//! Programs that cannot be started, or that a preloaded library cannot reach: each is refused
//! with the program, the reason, and the status that a shell would give.

mod support;

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use assert_cmd::assert::Assert;
use nix::unistd::getuid;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use support::*;

fn run(program: impl AsRef<Path>) -> Assert {
    tool().args(["run", "--"]).arg(program.as_ref()).assert()
}

#[test]
fn what_is_not_there_gives_127() {
    run("no-such-program")
        .code(127)
        .stderr("primalloc: no-such-program: no such program in PATH\n");
    run("").code(127).stderr("primalloc: '': no such program in PATH\n");
    run("/no/such/program").code(127).stderr("primalloc: /no/such/program: no such file\n");
}

#[test]
fn what_is_no_program_gives_126() {
    run("/tmp").code(126).stderr("primalloc: /tmp: is a directory, not a program\n");
    let refused = contains("link: cannot be started: ").and(contains("(os error 40)").count(1));
    let link = FILES.join("link");
    let _ = fs::remove_file(&link); // an earlier run's
    std::os::unix::fs::symlink("link", &link).unwrap();
    run(link).code(126).stderr(refused);
    run("/etc/passwd").code(126).stderr(contains("/etc/passwd: is not executable"));
    let windows = script("windows.exe", "MZ\0\0");
    run(windows).code(126).stderr(contains("neither an ELF program nor a script"));
}

/// The kernel refuses it, and a shell takes it then.
#[test]
fn a_script_that_names_no_interpreter_is_the_shells() {
    run(script("nobodys", "#! \nexit 6\n")).code(6).stderr("");
}

#[test]
fn a_file_in_path_without_execute_permission_is_named() {
    let directory = FILES.join("bin");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("plain-file"), "echo").unwrap();
    let mut tool = tool();
    tool.env("PATH", &directory).args(["run", "plain-file"]);
    tool.assert().code(126).stderr(contains("bin/plain-file: is not executable"));
}

#[test]
fn static_programs() {
    let message = contains("is linked statically").and(contains("--force"));
    run(&*STATIC_PROGRAM).code(126).stdout("").stderr(message);
    let mut forced = tool();
    forced.args(["run", "--force", "--quiet", "--"]).arg(&*STATIC_PROGRAM);
    forced.assert().success().stdout("hello\n").stderr("");
}

#[test]
fn a_malloc_of_the_programs_own_is_told_of() {
    let source = FILES.join("own_malloc.c");
    let text = "#include <stddef.h>\nstatic char area[1 << 20];\nstatic size_t used;\n\
                void *malloc(size_t size) { return area + (used += size + 15 & ~(size_t)15); }\n\
                void free(void *block) { (void)block; }\nint main(void) { return !malloc(1); }\n";
    fs::write(&source, text).unwrap();
    let own = compile(source.to_str().unwrap(), "own-malloc", &["-fno-builtin"]);
    let remark = contains("own-malloc has a malloc linked in, which is found before any");
    run(&own).success().stderr(remark.clone());
    tool().args(["run", "--quiet", "--"]).arg(&own).assert().success().stderr("");
    let mut compare = tool();
    compare.args(["compare", "--with=glibc", "--runs=1", "--warmup=0", "--"]).arg(&own);
    compare.assert().success().stderr(remark);
}

#[test]
fn a_static_program_that_is_forced_is_still_reported() {
    let mut forced = tool();
    forced.args(["run", "--force", "--"]).arg(&*STATIC_PROGRAM);
    let says =
        contains("does not run on primalloc").and(contains("static-hello is linked statically"));
    forced.assert().success().stderr(says);
}

#[test]
fn static_go_programs() {
    let program = compile("hello.c", "go-hello", &["-static", "-DLIKE_GO"]);
    run(program).code(126).stderr(contains("static Go program"));
}

#[test]
fn programs_on_musl() {
    let loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    let program = compile("hello.c", "musl-hello", &[loader]);
    let reason = contains("musl's loader (/lib/ld-musl-x86_64.so.1)");
    let advice = contains("or build primalloc.c into it"); // archives need glibc, too
    run(program).code(126).stderr(reason.and(advice));
}

#[test]
fn programs_whose_loader_is_missing() {
    let program = compile("hello.c", "lost-hello", &["-Wl,--dynamic-linker=/no/ld.so"]);
    run(program).code(126).stderr(contains("its interpreter /no/ld.so does not exist"));
}

#[test]
fn programs_for_another_machine() {
    const MACHINE_OFFSET: usize = 18;
    const RISCV: u8 = 243;
    let program = FILES.join("foreign");
    let mut bytes = fs::read("/bin/true").unwrap();
    bytes[MACHINE_OFFSET] = RISCV;
    bytes[MACHINE_OFFSET + 1] = 0;
    fs::write(&program, bytes).unwrap();
    set_mode(&program, 0o755);
    run(program).code(126).stderr(contains("is built for RISC-V, but"));
}

#[test]
fn programs_with_a_sanitizer() {
    let runtime = FILES.join("libasan.so.99");
    let made = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-xc", "-", "-o"])
        .arg(&runtime)
        .arg("-Wl,-soname,libasan.so.99")
        .stdin(fs::File::open(empty_runtime()).unwrap())
        .status();
    assert!(made.unwrap().success());
    let program = compile("hello.c", "asan-hello", &["-DCALLS_RUNTIME", runtime.to_str().unwrap()]);
    run(program).code(126).stderr(contains("a sanitizer (libasan.so.99)"));
}

fn empty_runtime() -> PathBuf {
    script("runtime.c", "void sanitizer_runtime(void) {}\n")
}

#[test]
fn setuid_and_setgid_programs() {
    if !getuid().is_root() {
        eprintln!("skipped: only root can give a file to somebody else");
        return;
    }
    let nobody = 65534;
    let program = FILES.join("privileged");
    copy_program("/bin/true", &program);
    chown(&program, Some(nobody), Some(nobody)).unwrap();
    for (mode, what) in [(0o4755, "is setuid"), (0o2755, "is setgid")] {
        set_mode(&program, mode);
        run(&program).code(126).stderr(contains(what).and(contains("secure mode")));
    }
    // Without the group's execute bit, setgid means something else.
    set_mode(&program, 0o2745);
    run(&program).success().stderr("");
}

#[test]
fn scripts_are_judged_by_their_interpreter() {
    let text = format!("#!{}\n", STATIC_PROGRAM.display());
    run(script("static-script", &text))
        .code(126)
        .stderr(contains("static-script (a script, run by").and(contains("statically")));
    run(script("lost-script", "#!/no/such/interpreter -x\n"))
        .code(126)
        .stderr(contains("its interpreter /no/such/interpreter does not exist"));
    run(script("of-windows", "#!/bin/sh\r\necho\r\n"))
        .code(126)
        .stderr(contains(r"of-windows: its interpreter /bin/sh\r does not exist"));
    run(script("env-of-windows", "#!/usr/bin/env sh\r\necho\r\n"))
        .code(126)
        .stderr(contains(r"its interpreter sh\r (named to env) does not exist"));
    run(script("lost-env-script", "#!/usr/bin/env no-such-program\n"))
        .code(126)
        .stderr(contains("no-such-program (named to env) does not exist"));
    let endless = FILES.join("endless");
    run(script("endless", &format!("#!{}\n", endless.display())))
        .code(126)
        .stderr(contains("without an end"));
}

#[test]
fn scripts_that_work() {
    run(script("good", "#!/bin/sh\necho good\n")).success().stdout("good\n").stderr("");
    run(script("env", "#!/usr/bin/env sh\necho env\n")).success().stdout("env\n").stderr("");
    run(script("bare", "echo bare\n")).success().stdout("bare\n").stderr("");
}

#[test]
fn only_exe_and_env_do_not_go_together() {
    let path = script("through-env", "#!/usr/bin/env sh\necho env\n");
    let mut tool = tool();
    tool.args(["run", "--only-exe", "--"]).arg(path);
    tool.assert()
        .success()
        .stdout("env\n")
        .stderr(starts_with("primalloc: ").and(contains("name the interpreter yourself")));
}
