//! `primalloc allocators` and `primalloc ps`.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use support::explained::Running;
use support::*;

fn json_of(arguments: &[&str]) -> Value {
    let assert = tool().args(arguments).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

#[test]
fn allocators_are_tried() {
    tool().arg("allocators").assert().success().stdout(
        contains("NAME").and(contains("(the C library's own)")).and(contains("9.9.9    yes")),
    );
    let found = json_of(&["allocators", "--json"]);
    assert_eq!((&found[0]["name"], &found[0]["loads"]), (&"glibc".into(), &true.into()));
    assert_eq!((&found[1]["name"], &found[1]["version"]), (&"primalloc".into(), &"9.9.9".into()));
}

#[test]
fn lists_are_written_to_files_as_well() {
    for (verb, header) in [("ps", "runs on primalloc"), ("allocators", "NAME")] {
        let file = FILES.join(format!("{verb}.json"));
        let _ = fs::remove_file(&file);
        let is_shown = contains(header).or(contains("PROGRAM"));
        let to_file = format!("--json={}", file.display());
        tool().args([verb, &to_file]).assert().success().stdout(is_shown);
        serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
        json_of(&[verb, "--json=-"]);
        let refused = tool().args([verb, "--json=/no/such/file"]).assert().code(125).stdout("");
        refused.stderr(contains("/no/such/file: cannot be written"));
    }
}

#[test]
fn a_library_may_lie_where_no_text_leads() {
    let directory = FILES.join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir_all(&directory).unwrap();
    let library = directory.join("libprimalloc.so");
    fs::copy(&*FAKE_LIBRARY, &library).unwrap();
    let json = |words: &[&str]| -> Value {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).args(words);
        serde_json::from_slice(&tool.assert().success().get_output().stdout).unwrap()
    };
    let found = json(&["allocators", "--json"]);
    assert_eq!(found[1]["loads"], true, "{found}");
    let found = json(&["compare", "--json", "-n1", "--warmup", "0", "--", "true"]);
    let path = found["allocators"][1]["library"].as_str().unwrap();
    assert!(path.ends_with("caf\u{fffd}/libprimalloc.so"), "{path}");
}

#[test]
fn an_empty_variable_names_no_library() {
    for verb in [&["allocators"][..], &["compare", "--with", "glibc", "-n1", "--", "true"]] {
        tool().env("PRIMALLOC_LIBRARY", "").args(verb).assert().success().stderr("");
    }
    let Some(library) = real_library() else { return };
    let mut named = tool();
    named.env("PRIMALLOC_LIBRARY", "").args(["run", "--library"]).arg(library);
    named.args(["--", "true"]).assert().success().stderr("");
}

#[test]
fn an_allocator_that_does_not_load_is_told_why() {
    let useless = FILES.join("libuseless.so");
    fs::copy("/etc/passwd", &useless).unwrap();
    let found = json_of(&["allocators", "--json", "--library", useless.to_str().unwrap()]);
    assert_eq!(found[1]["loads"], false);
    assert!(found[1]["problem"].as_str().unwrap().contains("does not take the place of malloc"));

    let text = "__attribute__((constructor)) static void fail(void) { __builtin_trap(); }\n";
    let (source, crashing) = (script("crashing.c", text), FILES.join("libcrashing.so"));
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&crashing).arg(source);
    assert!(compiler.status().unwrap().success());
    let found = json_of(&["allocators", "--json", "--library", crashing.to_str().unwrap()]);
    assert!(found[1]["problem"].as_str().unwrap().contains("killed by SIG"));
}

/// Ends the process when the test does, however it does.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that runs directly on a library of its own.
fn sleeper_on(library: &std::path::Path) -> Sleeper {
    let mut command = std::process::Command::new("sleep");
    command.arg("60").env("LD_PRELOAD", library).stdin(Stdio::null());
    Sleeper(command.spawn().unwrap())
}

fn listed(sleeper: &Sleeper) -> Option<Value> {
    let listing = json_of(&["ps", "--json"]);
    assert!(listing["unreadable"].is_u64());
    let processes = listing["processes"].as_array().unwrap();
    processes.iter().find(|process| process["pid"] == sleeper.0.id()).cloned()
}

#[test]
fn processes_are_listed_with_the_state_of_their_library() {
    let library = FILES.join("libprimalloc.so.9");
    fs::copy(&*FAKE_LIBRARY, &library).unwrap();
    let sleeper = sleeper_on(&library);
    wait_until("the process to load the library", || listed(&sleeper).is_some());

    let process = listed(&sleeper).unwrap();
    assert_eq!((&process["program"], &process["version"]), (&"sleep".into(), &"9.9.9".into()));
    assert_eq!(process["library"].as_str(), library.to_str());
    assert_eq!(process["library_state"], "current");
    assert!(process["resident_bytes"].as_u64().unwrap() > 100_000);
    tool().arg("ps").assert().success().stdout(contains("libprimalloc.so.9\n"));

    fs::remove_file(&library).unwrap();
    assert_eq!(listed(&sleeper).unwrap()["library_state"], "deleted");
    tool().arg("ps").assert().success().stdout(contains("libprimalloc.so.9 (deleted)\n"));

    fs::copy(&*FAKE_LIBRARY, &library).unwrap();
    let process = listed(&sleeper).unwrap();
    assert_eq!(
        (&process["library_state"], &process["version"]),
        (&"replaced".into(), &Value::Null)
    );
}

/// Anyone's process may have mapped anything under such a name, and root looks at it.
#[test]
fn what_a_process_has_mapped_is_read_and_not_run() {
    let path = FILES.join("libprimalloc.so.7");
    fs::write(&path, "no library, but primalloc 7.7.7 %u\n says so").unwrap();
    let file = fs::File::open(&path).unwrap();
    // SAFETY: nobody writes to the file while this test has it mapped.
    let mapped = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let listing = json_of(&["ps", "--json"]);
    let processes = listing["processes"].as_array().unwrap();
    let own = processes.iter().find(|process| process["pid"] == std::process::id()).unwrap();
    assert_eq!(own["version"], "7.7.7");
    assert_eq!(own["library"].as_str(), path.to_str());
    drop(mapped);
}

#[test]
fn other_processes_are_not_listed() {
    let sleeper = sleeper_on(&SILENT_LIBRARY);
    assert_eq!(listed(&sleeper), None);
}

/// A program that only waits, with whatever else is in its source.
fn idle(name: &str, source: &str) -> Running {
    let wait = "int main(void) { write(1, \"ready\\n\", 6); for (;;) pause(); }\n";
    let text = format!("#include <unistd.h>\n{source}{wait}");
    let source = script(&format!("{name}.c"), &text);
    let program = compile(source.to_str().unwrap(), name, &["-fno-builtin", "-rdynamic"]);
    Running::ready(&program, &[("LD_PRELOAD", real_library().unwrap().to_str().unwrap())])
}

#[test]
fn before_its_first_allocation_a_process_is_on_primalloc_for_all_verbs() {
    if real_library().is_none() {
        return;
    }
    let own_malloc = "void *malloc(size_t size) { return (void *)size; }\n";
    for (name, source, is_ours) in [("idle", "", true), ("own-malloc", own_malloc, false)] {
        let running = idle(name, source);
        let pid = running.0.id().to_string();
        let listing = json_of(&["ps", "--json"]);
        let mut listed = listing["processes"].as_array().unwrap().iter();
        assert_eq!(listed.any(|process| process["pid"] == running.0.id()), is_ours, "{name}");

        let found = running.explained();
        assert_eq!((&found["is_ours"], &found["has_heap"]), (&is_ours.into(), &false.into()));
        let head =
            if is_ours { "\non primalloc, nothing allocated yet" } else { "\nnot on primalloc" };
        running.explain(&[]).stdout(contains(head));
        let watched = tool().args(["watch", "--duration", "50ms", &pid]).assert().success();
        watched.stdout(contains(head));
        for attributed in [&["--no-perf"][..], &[]] {
            let verb = ["faults", "--json", "--duration", "50ms", "--pid", &pid];
            let allocator = is_ours.then_some("primalloc");
            assert_eq!(json_of(&[&verb, attributed].concat())["allocator"].as_str(), allocator);
        }
        let trimmed = tool().args(["trim", &pid]).assert();
        match is_ours {
            true => trimmed.success().stdout(contains("it had nothing to give back")),
            false => trimmed.code(125).stderr(contains("does not run on primalloc")),
        };
    }
}

/// Whoever chooses the name of a program could make up rows, or hide some.
#[test]
fn a_name_stays_in_its_row() {
    if real_library().is_none() {
        return;
    }
    drop(idle("named", ""));
    let named = FILES.join("two\nlines\t\x1b[8mhidden");
    copy_program(FILES.join("named"), &named);
    let library = real_library().unwrap();
    let running = Running::ready(&named, &[("LD_PRELOAD", library.to_str().unwrap())]);
    let pid = &*running.0.id().to_string();
    let shown = "two\u{fffd}lines\u{fffd}\u{fffd}[8mhidden";
    for verb in [
        &["ps"][..],
        &["explain", pid],
        &["watch", "--duration", "50ms", pid],
        &["trim", pid],
        &["set", pid, "soft_limit=1G"],
        &["faults", "--no-perf", "--duration", "50ms", "--pid", pid],
        &["profile", "--duration", "50ms", "--pid", pid],
    ] {
        let assert = tool().args(verb).assert().success();
        let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        assert!(text.contains(shown), "{verb:?}: {text}");
        assert!(!text.lines().any(|line| line.starts_with("lines")), "{verb:?}: {text}");
    }
    let listing = json_of(&["ps", "--json"]);
    let mut listed = listing["processes"].as_array().unwrap().iter();
    assert!(listed.any(|process| process["program"] == "two\nlines\t\u{1b}[8mhidden"));
}
