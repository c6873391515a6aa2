//! `primalloc explain` on core files: what it says of a process, it says of what is left of it.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::getuid;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use support::explained::*;
use support::*;

/// An empty directory of this name.
fn directory(name: &str) -> PathBuf {
    let path = FILES.join(name);
    let _ = fs::remove_dir_all(&path); // an earlier run's
    fs::create_dir(&path).unwrap();
    path
}

/// A program that crashed, if the kernel writes cores to files at all: what was said of it before,
/// and what is left.
fn crashed(name: &str, library: &Path, directory: &Path) -> Option<(Value, PathBuf)> {
    let mut command = Command::new("sh");
    let raise = "ulimit -S -c $(ulimit -H -c); LD_PRELOAD=$1 exec \"$0\" abort";
    command.args(["-c", raise]).arg(program(name, &["-ldl"])).arg(library);
    command.current_dir(directory);
    command.envs([("PRIMALLOC_PURGE_DELAY", "1500ms"), ("PRIMALLOC_LEAK_SUPPRESS", "/no/where")]);
    let mut running = Running::started(&mut command);
    let before = running.explained();
    drop(running.0.stdin.take());
    running.0.wait().unwrap();
    let mut files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let core = files.find(|path| path.file_name().unwrap().to_str().unwrap().contains("core"));
    if core.is_none() {
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        eprintln!("skipped: no core is in {}: core_pattern is {pattern}", directory.display());
    }
    Some((before, core?))
}

/// What a debugger writes of a running process, if there is one and it may.
fn core_by_debugger(running: &Running, directory: &Path) -> Option<PathBuf> {
    let id = running.0.id().to_string();
    let mut gcore = Command::new("gcore");
    let output = gcore.arg("-o").arg(directory.join("core")).arg(&id).stdin(Stdio::null()).output();
    let core = directory.join(format!("core.{id}"));
    if !core.exists() {
        eprintln!("skipped: gcore has written no core: {output:?}");
        return None;
    }
    Some(core)
}

fn explain(core: &Path) -> assert_cmd::assert::Assert {
    tool().arg("explain").arg(core).assert()
}

fn explained(core: &Path) -> Value {
    let output = tool().args(["explain", "--json"]).arg(core).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

/// The same blocks are in use as in the process before, and the same options set.
fn assert_same_contents(before: &Value, core: &Value) {
    assert_eq!(core["source"]["kind"], "core");
    assert_eq!(core["source"]["missing_bytes"], 0);
    for what in ["pid", "program", "threads", "options", "options_unread"] {
        assert_eq!(core[what], before[what], "{what}");
    }
    for what in ["blocks", "large_blocks"] {
        let [before, left] = [before, core].map(|found| part(found, what).1.unwrap());
        assert!(before.abs_diff(left) <= 10, "{what}: {before} in use before, {left} in the core");
    }
    assert_holds_what_it_holds(core);
}

#[test]
fn what_a_crash_leaves_is_told_like_the_process() {
    let Some(library) = real_library() else { return };
    let directory = directory("crash");
    let Some((before, core)) = crashed("crashing", &library, &directory) else { return };
    assert_eq!(before["source"]["kind"], "process");
    let left = explained(&core);
    assert_same_contents(&before, &left);
    let options = left["options"].as_array().unwrap().iter();
    let set = options.map(|option| (option["name"].as_str().unwrap(), &option["value"]));
    let expected = [("purge_delay", &json!(1500)), ("leak_suppress", &json!("/no/where"))];
    assert_eq!(set.collect::<Vec<_>>(), expected);

    let name = core.to_str().unwrap();
    let id = &before["pid"];
    explain(&core).success().stderr("").stdout(
        contains(format!("crashing ({id}): "))
            .and(contains(format!(" MiB in {name}\n")))
            .and(contains("on primalloc, 4 threads; pages of zeros"))
            .and(contains("IN CORE"))
            .and(contains("leak_suppress  /no/where "))
            .and(contains("by prim_heap_new, tagged, sampled"))
            .and(contains("primalloc faults -- crashing ..."))
            .and(contains("resident").not()),
    );

    // As a limit on its size, or a full disk, leaves it.
    let file = fs::OpenOptions::new().write(true).open(&core).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 2 * MIB).unwrap();
    let says = contains("The core is cut off: 2.00 MiB of what it should hold are missing");
    explain(&core).success().stdout(says);
    file.set_len(length / 4).unwrap();
    let why = explained(&core)["unread"].as_str().unwrap().to_owned();
    assert!(why.ends_with("is not in the core: it is in the part that is cut off"), "{why}");
}

#[test]
fn what_a_debugger_writes_is_told_like_the_process() {
    let Some(library) = preloaded() else { return };
    let running = Running::ready(&program("attached", &["-ldl"]), &[("LD_PRELOAD", &library)]);
    let Some(core) = core_by_debugger(&running, &directory("attached.d")) else { return };
    assert_same_contents(&running.explained(), &explained(&core));

    // Which program, threads and files it was stands at the end.
    let file = fs::OpenOptions::new().write(true).open(&core).unwrap();
    file.set_len(40 * MIB).unwrap();
    let found = explained(&core);
    assert_eq!(found["source"]["lacks_notes"], true);
    assert_adds_up(&found);
    assert!(found["resident_bytes"].as_u64().unwrap() > 10 * MIB, "{found}");
    let says = contains("The core is cut off: ").and(contains("does not run on primalloc").not());
    explain(&core).success().stdout(says);
}

#[test]
fn a_static_program_leaves_as_much() {
    let Some(library) = real_library() else { return };
    let archive = library.parent().unwrap().join("libprimalloc.a");
    let linked = program("left-linked", &["-static-pie", "-fPIE", archive.to_str().unwrap()]);
    let running = Running::ready(&linked, &[]);
    let Some(core) = core_by_debugger(&running, &directory("linked.d")) else { return };
    let found = explained(&core);
    assert_eq!(found["unread"], Value::Null);
    assert_adds_up(&found);
    assert_eq!(part(&found, "large_blocks").1, Some(8));
    assert_near("blocks", part(&found, "blocks").0, 20_000 * 1024, MIB);
}

/// The sizes of blocks stand in the library's constants, of which a core holds nothing.
#[test]
fn the_library_must_still_be_the_one_that_was_mapped() {
    let Some(library) = real_library() else { return };
    let [directory, cores] = ["replaced", "replaced.d"].map(directory);
    let copy = directory.join("libprimalloc.so");
    fs::copy(&library, &copy).unwrap();
    let Some((_, core)) = crashed("replaced-later", &copy, &cores) else { return };
    assert_eq!(explained(&core)["unread"], Value::Null);
    fs::remove_file(&copy).unwrap();
    let says = format!("the core leaves {0} out, and {0} cannot be read: No such", copy.display());
    let found = explained(&core);
    let why = found["unread"].as_str().unwrap();
    assert!(why.contains(&says), "{why}, not {says}");
    fs::copy(&*FAKE_LIBRARY, &copy).unwrap();
    let found = explained(&core);
    let why = found["unread"].as_str().unwrap();
    assert!(why.contains("is another file by now; --sysroot tells"), "{why}");
    assert_eq!(found["is_ours"], true);
    assert_adds_up(&found);

    let found_in = |sysroot: &Path| {
        let mut tool = tool();
        let output = tool.args(["explain", "--json", "--sysroot"]).arg(sysroot).arg(&core).assert();
        serde_json::from_slice::<Value>(&output.get_output().stdout).unwrap()
    };
    let sysroot = FILES.join("sysroot");
    let place = sysroot.join(copy.strip_prefix("/").unwrap());
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(&library, &place).unwrap();
    for sysroot in [place.parent().unwrap(), &sysroot] {
        assert_holds_what_it_holds(&found_in(sysroot));
    }
    fs::copy(&*FAKE_LIBRARY, &place).unwrap();
    let why = format!("{} is another file by now, {} is", place.display(), copy.display());
    assert!(found_in(&sysroot)["unread"].as_str().unwrap().contains(&why));
}

#[test]
fn of_a_process_on_another_malloc_a_core_tells_less() {
    let running = Running::ready(&program("left-libc", &["-ldl"]), &[]);
    let Some(core) = core_by_debugger(&running, &directory("libc.d")) else { return };
    let found = explained(&core);
    assert_adds_up(&found);
    assert_eq!(found["is_ours"], false);
    assert_near("brk", part(&found, "brk").0, 40 * MIB, 10 * MIB);
    assert_near("stacks", part(&found, "stacks").0, 3 * MIB, MIB);
    assert_near("shared", part(&found, "shared").0, 12 * MIB, MIB);
    explain(&core).success().stdout(contains("It does not run on primalloc"));
}

#[test]
fn what_is_no_core_is_named() {
    let refused = |path: &str, says: &str| {
        let message = contains(format!("primalloc: {path}: ")).and(contains(says));
        explain(Path::new(path)).code(125).stdout("").stderr(message);
    };
    let directory = directory("wrong");
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    refused("/no/such/core", "there is no such file");
    refused(directory.to_str().unwrap(), "is a directory, not a core file");
    refused("/dev/null", "is no plain file");
    refused("/bin/true", "is a program or a library, not the core file of a process");
    refused(&file("empty", b""), "is empty");
    refused(&file("words", b"neither head nor tail"), "is not in ELF format");
    refused(&file("cut", &fs::read("/bin/true").unwrap()[..40]), "is cut off or damaged");
    let packed = file("it's packed.zst", b"\x28\xb5\x2f\xfd....");
    refused(&packed, "packed.zst' > core\n");
    refused(&file("packed.lz4", b"\x04\x22\x4d\x18...."), "unpack it first: lz4 -dc /");
    refused(&file("packed.gz", b"\x1f\x8b\x08...."), "unpack it first: gzip -dc /");
    let systemds = directory.join("systemd/coredump");
    fs::create_dir_all(&systemds).unwrap();
    fs::copy(&packed, systemds.join("core.zst")).unwrap();
    refused(systemds.join("core.zst").to_str().unwrap(), ", or: coredumpctl dump -o core\n");
    let endless = directory.join("endless");
    symlink("endless", &endless).unwrap();
    refused(endless.to_str().unwrap(), "(os error 40)");
    if !getuid().is_root() {
        let hidden = file("hidden", b"whatever");
        set_mode(Path::new(&hidden), 0);
        refused(&hidden, "cannot be read: Permission denied");
    }

    // A number that is a file, and a file that is not to be written over.
    let number = file("4711", b"");
    let mut tool = tool();
    tool.current_dir(&directory).args(["explain", "./4711"]).assert().stderr(contains("is empty"));
    for option in ["--json", "--html"] {
        let over = format!("{option}={number}");
        let says = contains("4711: cannot be written: the report is made from it");
        let mut tool = support::tool();
        tool.args(["explain", &over, &number]).assert().code(125).stderr(says);
    }
}
