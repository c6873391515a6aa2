//! `primalloc explain`, on processes that hold known amounts of every kind of memory.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use support::explained::*;
use support::*;

#[test]
fn every_kind_of_memory_is_told() {
    let Some(library) = preloaded() else { return };
    let running = Running::ready(&program("explained", &["-ldl"]), &[("LD_PRELOAD", &library)]);
    assert_holds_what_it_holds(&running.explained());

    let id = running.0.id();
    let text = running.explain(&["--sizes"]);
    text.stderr("").stdout(
        contains(format!("explained ({id}): "))
            .and(contains("on primalloc, 4 threads"))
            .and(contains("8 blocks above 256 KiB"))
            .and(contains("by prim_heap_new, tagged, sampled"))
            .and(contains("SIZE"))
            .and(contains("free blocks, most of 1,024 bytes: they lie between"))
            .and(contains(format!("primalloc faults --pid {id}"))),
    );
}

#[test]
fn a_page_is_written_beside_or_in_place_of_the_text() {
    let Some(library) = preloaded() else { return };
    let running = Running::ready(&program("shown", &["-ldl"]), &[("LD_PRELOAD", &library)]);
    let path = FILES.join("explained.html");
    running.explain(&["--html", path.to_str().unwrap()]).stdout(contains("IS\nblocks in use"));
    let page = std::fs::read_to_string(&path).unwrap();
    for part in ["<h1>shown (", "title=\"large blocks: 32.0 MiB", "<th>1,024</th>", "\"format\": 1"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    running.explain(&["--html", "-"]).stdout(predicates::str::starts_with("<!DOCTYPE html>"));
    let both = ["--html=-", "--json", &running.0.id().to_string()];
    tool().arg("explain").args(both).assert().code(125).stdout("");
    let nowhere = contains("/no/such/page: cannot be written");
    let into = ["--html=/no/such/page", &running.0.id().to_string()];
    tool().arg("explain").args(into).assert().code(125).stdout("").stderr(nowhere);
}

#[test]
fn without_huge_pages_it_is_the_same() {
    let Some(library) = preloaded() else { return };
    let environment = [("LD_PRELOAD", library.as_str()), ("PRIMALLOC_THP", "never")];
    let running = Running::ready(&program("explained-small", &["-ldl"]), &environment);
    let found = running.explained();
    assert_holds_what_it_holds(&found);
    assert_eq!(found["huge_bytes"], 0);
}

#[test]
fn free_pages_go_as_is_told() {
    let Some(library) = preloaded() else { return };
    let ready = |environment: &[(&str, &str)]| {
        Running::ready(&program("explained-free", &["-ldl"]), environment)
    };
    let says = "With PRIMALLOC_TRIM_THRESHOLD=0 they go at once";
    let remark = String::from_utf8_lossy(
        &ready(&[("LD_PRELOAD", &library)]).explain(&[]).get_output().stdout,
    )
    .replace('\n', " ");
    assert!(remark.contains(says), "{remark}");
    let environment = [("LD_PRELOAD", library.as_str()), ("PRIMALLOC_TRIM_THRESHOLD", "0")];
    let found = ready(&environment).explained();
    assert!(part(&found, "free_pages").0 < MIB, "{found}");
}

#[test]
fn what_is_disguised_is_told_for_what_it_is() {
    let Some(library) = preloaded() else { return };
    let flags = ["-O1", "-fno-builtin", "-pthread", "-ldl"];
    let disguised = compile("disguised.c", "disguised", &flags);
    let found = Running::ready(&disguised, &[("LD_PRELOAD", &library)]).explained();
    assert_eq!(found["unread"], Value::Null);
    assert_adds_up(&found);
    assert_eq!(part(&found, "large_blocks").1, Some(21));
    assert_near("large blocks", part(&found, "large_blocks").0, 20 * (MIB - 4096), MIB);
    assert_near("heaps", part(&found, "heaps").0, 8 * MIB, MIB);
    assert_near("anonymous", part(&found, "anonymous").0, (24 + 6) * MIB, MIB);
    assert_near("stacks", part(&found, "stacks").0, 4096, MIB);
    assert_near("programs", part(&found, "programs").0, MIB, 2 * MIB);
}

#[test]
fn blocks_at_hand_for_samples_are_not_in_use() {
    let Some(library) = preloaded() else { return };
    let sampling = compile("sampling.c", "sampling", &["-O1", "-fno-builtin"]);
    let profile = sampling.with_extension("profile");
    let environment =
        [("LD_PRELOAD", library.as_str()), ("PRIMALLOC_PROFILE", profile.to_str().unwrap())];
    let found = Running::ready(&sampling, &environment).explained();
    assert_adds_up(&found);
    let blocks = part(&found, "blocks").1.unwrap();
    // Of the 64 a few may be sampled, and are in heaps then.
    assert!((56..200).contains(&blocks), "{blocks} blocks in use, not 64 and the C library's");
}

#[test]
fn a_static_program_is_told_as_well() {
    let Some(library) = real_library() else { return };
    let archive = library.parent().unwrap().join("libprimalloc.a");
    let flags = ["-static-pie", "-fPIE", archive.to_str().unwrap()];
    for (name, flags) in [("linked-pie", &flags[..]), ("linked", &["-static", flags[2]])] {
        let linked = program(name, flags);
        assert!(Command::new("strip").arg(&linked).status().unwrap().success());
        let found = Running::ready(&linked, &[]).explained();
        assert_eq!(found["is_ours"], true, "{name}");
        assert_adds_up(&found);
        assert_eq!(part(&found, "large_blocks").1, Some(8), "{name}");
        assert_near(name, part(&found, "blocks").0, 20_000 * 1024, MIB);
    }
}

#[test]
fn of_a_hardened_heap_what_is_free_is_not_told_apart() {
    let Some(library) = preloaded() else { return };
    let environment = [("LD_PRELOAD", library.as_str()), ("PRIMALLOC_HARDENED", "1")];
    let running = Running::ready(&program("explained-hardened", &["-ldl"]), &environment);
    let found = running.explained();
    assert_adds_up(&found);
    assert_eq!(part(&found, "blocks").1, None);
    assert_near("all blocks", part(&found, "blocks").0, 40_000 * 1000, 8 * MIB);
    let says = contains("in use or free: it is hardened").and(contains("and not freed").not());
    running.explain(&[]).stdout(says);
}

#[test]
fn a_library_without_a_note_is_said_to_be_one() {
    let Some(library) = real_library() else { return };
    let minimal = library.parent().unwrap().join("libprimalloc-minimal.so");
    let environment = [("LD_PRELOAD", minimal.to_str().unwrap())];
    let running = Running::ready(&program("explained-minimal", &["-ldl"]), &environment);
    let found = running.explained();
    assert_adds_up(&found);
    assert_eq!(found["is_ours"], true);
    running.explain(&[]).stdout(
        contains("is not told apart here: this library is the minimal one")
            .and(contains("did not come from primalloc").not()),
    );
}

#[test]
fn of_others_the_kernel_tells() {
    let running = Running::ready(&program("explained-libc", &["-ldl"]), &[]);
    let found = running.explained();
    assert_adds_up(&found);
    assert_eq!(found["is_ours"], false);
    assert_eq!(found["sizes"], Value::Array(Vec::new()));
    assert_near("stacks", part(&found, "stacks").0, 3 * MIB, MIB);
    running.explain(&[]).stdout(
        contains("not on primalloc, 4 threads")
            .and(contains("It does not run on primalloc"))
            .and(contains("Run it on primalloc to see that"))
            .and(contains("heap by brk")),
    );
}

/// As nothing can be preloaded into it.
#[test]
fn a_static_program_is_not_to_be_run_on_primalloc() {
    for (name, flags) in [("explained-static", ["-static"]), ("static-pie", ["-static-pie"])] {
        let running = Running::ready(&program(name, &flags), &[]);
        assert_eq!(running.explained()["is_static"], true, "{name}");
        let says = contains("libprimalloc.a").and(contains("primalloc run").not());
        running.explain(&[]).stdout(says);
    }
}

/// As what turns the direction of writing, so that an end reads as another.
#[test]
fn names_are_shown_as_they_are() {
    let running = Running::ready(&program("named\u{202e}cod.exe", &["-ldl"]), &[]);
    running.explain(&[]).stdout(contains("named\u{fffd}cod.exe ("));
    let page = running.explain(&["--html", "-"]);
    page.stdout(contains("<h1>named\u{fffd}cod.exe (").and(contains("\u{202e}").not()));
}

/// The kernel cuts a name after 15 bytes, here in the middle of a letter.
#[test]
fn names_need_be_no_text() {
    let Some(library) = preloaded() else { return };
    let plain = program("plainly-named", &["-ldl"]);
    let cases: [(&str, &[u8], &str); 2] = [
        ("names", b"no\xff text", "no\u{fffd} text"),
        ("of two words", "программа".as_bytes(), "программа"),
    ];
    for (directory, name, shown) in cases {
        let directory = FILES.join(directory);
        fs::create_dir_all(&directory).unwrap();
        let target = directory.join(OsStr::from_bytes(name));
        copy_program(&plain, &target);
        let running = Running::ready(&target, &[("LD_PRELOAD", &library)]);
        running.explain(&[]).stdout(contains(format!("{shown} (")).and(contains("on primalloc")));
        let id = running.0.id().to_string();
        let faults = ["faults", "--no-perf", "--duration", "10ms", "--pid", &id];
        tool().args(faults).assert().success().stdout(contains(shown));
        tool().args(["ps"]).assert().success().stdout(contains(shown));
    }
}

/// Who starts it in the background has the tool's number.
#[test]
fn the_number_of_the_tool_stands_for_its_program() {
    let program = program("behind", &["-ldl"]);
    let running = Running::started(plain_tool().args(["run", "--"]).arg(&program));
    let told = contains(format!("{} is primalloc itself; this is about", running.0.id()));
    running.explain(&[]).stderr(told.clone()).stdout(contains("behind ("));
    let id = running.0.id().to_string();
    let about = |words: &[&str]| tool().args(words).arg(&id).assert().success();
    about(&["watch", "--duration", "10ms"]).stderr(told.clone()).stdout(contains("behind ("));
    let faults = ["faults", "--no-perf", "--duration", "10ms", "--pid"];
    about(&faults).stderr(told).stdout(contains("/behind"));
}

/// Its file has lost its name then.
#[test]
fn it_does_so_after_an_upgrade_of_the_tool_as_well() {
    let old = FILES.join("primalloc");
    copy_program(plain_tool().get_program(), &old);
    let program = program("upgraded", &["-ldl"]);
    let mut tool = Command::new(&old);
    tool.env("PRIMALLOC_LIBRARY", &*FAKE_LIBRARY).args(["run", "--"]).arg(&program);
    let running = Running::started(&mut tool);
    std::fs::remove_file(&old).unwrap();
    running.explain(&[]).stdout(contains("upgraded ("));
}

#[test]
fn what_cannot_be_explained_is_named() {
    let explain = |word: &str| tool().args(["explain", word]).assert().code(125);
    explain("2147483647").stderr(contains("2147483647: there is no such process"));
    for number in ["0", "-1", "99999999999"] {
        let says = format!("invalid value '{number}' for '<PID|CORE>': no process has this number");
        explain(number).stderr(contains(says));
    }
    explain("redis").stderr(
        "primalloc: redis: there is no such file; a process is named by its \
                             number: pidof tells it\n",
    );

    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let id = child.id();
    let stat = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    wait_until("the program's end", || stat().contains(") Z "));
    explain(&id.to_string()).stderr(contains("it has ended, and its parent, process "));
    child.wait().unwrap();
}

/// It becomes another program between two looks. While the loader has the library but in part, what
/// is said of it may be wrong still: that is rare.
#[test]
fn a_program_that_becomes_another_is_not_mistaken() {
    let Some(library) = preloaded() else { return };
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec sh -c \"$0\" \"$0\"", "exec sh -c \"$0\" \"$0\""]);
    let running = Running(shell.env("LD_PRELOAD", &library).spawn().unwrap());
    let explain = || {
        let output = tool().arg("explain").arg(running.0.id().to_string()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("the minimal one")
    };
    let mistaken = (0..40).filter(|_| explain()).count();
    assert!(mistaken <= 2, "{mistaken} of 40 times it was mistaken");
}
