//! Where reports about memory go, and what is left of them: several processes one after another,
//! full disks, links, a standard error that takes nothing.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use support::explained::Running;
use support::*;

static HOLDER: LazyLock<PathBuf> = LazyLock::new(|| compile("holder.c", "holder", &["-O1", "-g"]));
static LOSER: LazyLock<PathBuf> = LazyLock::new(|| compile("loser.c", "loser", &["-O0", "-g"]));

/// A directory of its own for each test, empty.
fn directory(name: &str) -> PathBuf {
    let path = FILES.join(name);
    let _ = fs::remove_dir_all(&path); // an earlier run's
    fs::create_dir_all(&path).unwrap();
    path
}

fn files_in(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// Of programs under the real library.
fn verb(name: &str) -> Option<Command> {
    let library = real_library()?;
    let mut tool = plain_tool();
    tool.env("PRIMALLOC_LIBRARY", library).arg(name);
    if name == "profile" {
        tool.args(["--rate", "1"]);
    }
    Some(tool)
}

fn full() -> fs::File {
    fs::OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn processes_one_after_another_keep_their_files() {
    for (name, what) in [("profile", "cache_entry"), ("leaks", "2.93 KiB in 1 block leaked")] {
        let Some(mut run) = verb(name) else { return };
        let kept = directory(&format!("kept-{name}"));
        // A shell that is killed leaves none itself.
        run.args(["--", "sh", "-c", "\"$0\"; \"$1\"; kill -KILL $$"]).arg(&*HOLDER).arg(&*LOSER);
        let text = said(&run.output().unwrap());
        let shown = if name == "profile" { "profile of holder" } else { "report of holder" };
        for part in [what, shown, "it has written none itself\n", "1 more process", "%p.pb.gz"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let Some(mut run) = verb(name) else { return };
        run.arg("--keep").arg(kept.join("%p.pb.gz"));
        run.args(["--", "sh", "-c", "\"$0\"; \"$1\"; kill -KILL $$"]).arg(&*HOLDER).arg(&*LOSER);
        let text = said(&run.output().unwrap());
        assert!(!text.contains("1 more process"), "{text}");
        assert_eq!(files_in(&kept), 2, "{text}");
    }
}

#[test]
fn who_outlives_the_program_is_told_of() {
    // The shell ends once the other one has become what it is to be.
    let outlived = "sleep 60 >/dev/null 2>&1 & echo $!; until grep -q libprimalloc /proc/$!/maps \
                    && grep -q sleep /proc/$!/comm; do :; done";
    for (name, what) in [("profile", "profile"), ("leaks", "report")] {
        let kept = directory(&format!("outlived-{name}"));
        let Some(mut run) = verb(name) else { return };
        run.arg("--keep").arg(kept.join("%p.pb.gz")).args(["--", "sh", "-c", outlived]);
        let output = run.output().unwrap();
        let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
        let still = format!("sleep ({pid}), which the program started, still runs, and its {what}");
        assert!(said(&output).contains(&still), "{}", said(&output));
        assert!(!kept.join(format!("{pid}.pb.gz")).exists());
    }
}

#[test]
fn a_full_disk_takes_no_report_away() {
    for (name, what) in [("profile", "cache_entry"), ("leaks", "leaked: ")] {
        let Some(mut run) = verb(name) else { return };
        let whole = directory(&format!("whole-{name}")).join("whole.json");
        run.args(["--html=/dev/full", "--keep=/dev/full"])
            .arg(format!("--json={}", whole.display()));
        let output = run.arg("--").arg(&*HOLDER).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains(what), "{text}");
        assert_eq!(text.matches("/dev/full: cannot be written: No space").count(), 2, "{text}");
        assert!(fs::read_to_string(whole).unwrap().ends_with("}\n"), "{text}");
    }
}

#[test]
fn what_cannot_be_written_whole_is_not_left_behind() {
    let folder = directory("limited");
    let profile = folder.join("a.txt");
    fs::write(&profile, "main;work 1000\n").unwrap();
    let tool = plain_tool();
    for option in ["--html", "--json", "--pprof", "--collapsed"] {
        let page = folder.join("page");
        let mut limited = Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        limited.arg(tool.get_program()).arg("report").arg(format!("{option}={}", page.display()));
        let output = limited.arg(&profile).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains("page: cannot be written: File too large"), "{text}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1000 B"), "{text}");
        assert_eq!(files_in(&folder), 1, "{option}");
    }
}

#[test]
fn a_limit_of_files_is_told_and_keeps_what_was_there() {
    let folder = directory("kept-page");
    let [profile, page, link] = ["a.txt", "page", "link"].map(|name| folder.join(name));
    fs::write(&profile, "main;work 1000\n").unwrap();
    fs::write(&page, "an earlier page").unwrap();
    set_mode(&page, 0o640);
    std::os::unix::fs::symlink("page", &link).unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$0\" report \"--html=$1\" \"$2\""]);
    limited.arg(plain_tool().get_program()).arg(&link).arg(&profile);
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let says = format!("{}: cannot be written: File too large", link.display());
    assert!(said(&output).contains(&says), "{}", said(&output));
    assert_eq!(fs::read_to_string(&page).unwrap(), "an earlier page");
    let before = fs::metadata(&page).unwrap();
    assert_eq!(files_in(&folder), 3);
    tool().args(["report", "--html"]).arg(&link).arg(&profile).assert().success();
    let after = fs::metadata(&page).unwrap();
    assert!(link.is_symlink() && fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE"));
    assert!(after.ino() != before.ino() && after.mode() == before.mode());
    assert_eq!(files_in(&folder), 3);
}

#[test]
fn a_file_that_is_open_or_has_other_names_stays_the_same() {
    let folder = directory("in-place");
    let [profile, page, other] = ["a.txt", "page", "other"].map(|name| folder.join(name));
    fs::write(&profile, "main;work 1000\n").unwrap();
    for place in ["/dev/stdout", "/dev/fd/1", page.to_str().unwrap()] {
        fs::write(&page, "").unwrap();
        let inode = fs::metadata(&page).unwrap().ino();
        if place == page.to_str().unwrap() {
            fs::hard_link(&page, &other).unwrap();
        }
        let open = fs::OpenOptions::new().append(true).open(&page).unwrap();
        let mut run = plain_tool();
        let status = run.args(["report", "--html", place]).arg(&profile).stdout(open).status();
        assert!(status.unwrap().success(), "{place}");
        assert_eq!(fs::metadata(&page).unwrap().ino(), inode, "{place}");
        assert!(fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE"), "{place}");
    }
}

#[test]
fn a_program_is_not_written_over_by_whatever_name() {
    let folder = directory("spared");
    let text = "#!/bin/sh\n:\n";
    let [program, link, other] = ["program", "link", "other"].map(|name| folder.join(name));
    copy_program(script("spared.sh", text), &program);
    std::os::unix::fs::symlink("program", &link).unwrap();
    fs::hard_link(&program, &other).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let options = [
        ["compare", "--output"],
        ["compare", "--html"],
        ["advise", "--markdown"],
        ["faults", "--html"],
        ["watch", "--json"],
        ["profile", "--keep"],
        ["profile", "--collapsed"],
        ["leaks", "--html"],
        ["leaks", "--keep"],
    ];
    for [verb, option] in options {
        for (file, name) in [(&program, "./program"), (&link, "program"), (&other, "program")] {
            let mut run = plain_tool();
            run.current_dir(&folder).env("PATH", &path).arg(verb);
            let output =
                run.arg(format!("{option}={}", file.display())).args(["--", name]).output();
            let output = output.unwrap();
            let says = format!("{}: cannot be written: it is the program itself\n", file.display());
            assert_eq!(said(&output), format!("primalloc: {says}"), "{verb} {option}");
            assert_eq!(output.status.code(), Some(125));
            assert_eq!(fs::read_to_string(&program).unwrap(), text);
        }
    }
}

/// The tool in a directory of its own, where a file named "-" would be seen.
fn to_output(folder: &Path, arguments: &[&str]) -> Output {
    let mut run = plain_tool();
    if let Some(library) = real_library() {
        run.env("PRIMALLOC_LIBRARY", library);
    }
    let output = run.args(arguments).current_dir(folder).output().unwrap();
    assert!(!folder.join("-").exists(), "{arguments:?}");
    output
}

#[test]
fn a_dash_is_standard_output_for_one_file_alone() {
    let folder = directory("dash");
    fs::write(folder.join("a.txt"), "main;work 1000\n").unwrap();
    for (option, start) in [("html", "<!DOCTYPE"), ("json", "{\n"), ("collapsed", "main;work 1000")]
    {
        let option = format!("--{option}=-");
        let output = to_output(&folder, &["report", &option, "a.txt"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with(start), "{option}: {text}");
        assert!(!text.contains("FUNCTION"), "the table is not beside it: {text}");
        let output = to_output(&folder, &["diff", &option, "a.txt", "a.txt"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(start) && !text.contains("→ a.txt\n"), "{option}: {text}");
    }
    let packed = to_output(&folder, &["report", "--pprof", "-", "a.txt"]).stdout;
    assert!(packed.starts_with(b"\x1f\x8b"));
    let holder = HOLDER.to_str().unwrap();
    for verb in [&["faults", "--no-perf"][..], &["compare", "--with=glibc", "--runs=1"]] {
        let output = to_output(&folder, &[verb, &["--html", "-", "--", holder]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("<!DOCTYPE"), "{verb:?}: {text}");
        let two = to_output(&folder, &[verb, &["--html=-", "--json=-", "--", holder]].concat());
        assert_eq!(two.status.code(), Some(125));
        assert!(said(&two).starts_with("primalloc: standard output cannot take more than one"));
    }
    if real_library().is_none() {
        return;
    }
    for option in ["profile --keep=-", "profile --pprof=-", "leaks --keep=-"] {
        let arguments: Vec<&str> = option.split(' ').chain(["--", holder]).collect();
        let output = to_output(&folder, &arguments);
        assert!(output.stdout.starts_with(b"\x1f\x8b"), "{option}: {}", said(&output));
        assert!(said(&output).contains("done\n"), "the program's own goes to standard error");
    }
}

#[test]
fn temporary_files_may_lie_anywhere() {
    let folder = directory("temporary");
    for name in ["relative", "with a space", "a,comma", "a%pnumber", "a:colon", ""] {
        fs::create_dir_all(folder.join(name)).unwrap();
        for place in [PathBuf::from(name), folder.join(name)] {
            for (verb_name, what) in [("profile", "cache_entry"), ("leaks", "leaked: ")] {
                let Some(mut run) = verb(verb_name) else { return };
                run.env("TMPDIR", &place).current_dir(&folder);
                run.args(["--", "sh", "-c", "cd / && exec \"$0\""]).arg(&*HOLDER);
                let text = said(&run.output().unwrap());
                assert!(text.contains(what), "{verb_name} in {}: {text}", place.display());
            }
        }
        let left = if name.is_empty() { 5 } else { 0 };
        assert_eq!(files_in(&folder.join(name)), left, "{name}");
    }
}

#[test]
fn a_link_is_written_through() {
    let folder = directory("links");
    let [profile, real, link] = ["a.txt", "real.html", "link.html"].map(|name| folder.join(name));
    fs::write(&profile, "main;work 1000\n").unwrap();
    std::os::unix::fs::symlink("real.html", &link).unwrap();
    for _ in 0..2 {
        tool().args(["report", "--html"]).arg(&link).arg(&profile).assert().success();
        assert!(link.is_symlink());
        assert!(fs::read_to_string(&real).unwrap().starts_with("<!DOCTYPE html>"));
    }
}

/// It is taken for the program, or the process.
#[test]
fn a_file_that_stands_behind_a_blank_is_told_where_it_belongs() {
    let json = FILES.join("behind-a-blank.json");
    fs::write(&json, "{}\n").unwrap(); // an earlier report
    let json = json.to_str().unwrap();
    let said = |words: &[&str]| {
        let output = plain_tool().args(words).output().unwrap();
        (output.status.code(), said(&output))
    };
    let remark = |option: &str| {
        format!("({option} writes to standard output; to a file with '=': {option}=FILE)\n")
    };
    for verb in ["compare", "advise", "faults", "profile", "leaks"] {
        for words in [&["--json", "no.json", "--", "true"][..], &["--json", "no.json", "true"]] {
            let (code, text) = said(&[&[verb], words].concat());
            assert_eq!(code, Some(127), "{verb}: {text}");
            let whole =
                format!("primalloc: no.json: no such program in PATH\n{}", remark("--json"));
            assert_eq!(text, whole);
        }
        let (code, text) = said(&[verb, "--json", json, "--", "true"]);
        assert!(code == Some(126) && text.ends_with(&remark("--json")), "{verb}: {text}");
        let (code, text) = said(&[verb, "no-program", "--json", "no.json"]);
        assert!(code == Some(127) && text.lines().count() == 1, "{verb}: {text}");
    }
    let (_, text) = said(&["compare", "--markdown", "no.md", "--", "true"]);
    assert!(text.ends_with(&remark("--markdown")), "{text}");
    for words in [
        &["watch", "--json", "no.json", "1"][..],
        &["watch", "--json", "no.json", "--", "true"],
        &["trim", "--json", "no.json", "1"],
        &["set", "--json", "no.json", "1", "thp=never"],
        &["explain", "--json", "no.json", "1"],
        &["report", "--json", "no.json", "a.pb.gz"],
        &["diff", "--json", "no.json", "a.pb.gz", "b.pb.gz"],
        &["ps", "--json", "no.json"],
        &["allocators", "--json", "no.json"],
    ] {
        let (code, text) = said(words);
        assert!(code == Some(125) && text.ends_with(&remark("--json")), "{words:?}: {text}");
    }
    for words in [&["ps", "--json", "--nothing"][..], &["trim", "nothing"]] {
        assert!(!said(words).1.contains("to a file with"), "{words:?}");
    }
}

#[test]
fn a_standard_error_that_takes_nothing_is_no_panic() {
    for name in ["profile", "leaks"] {
        for program in [&[HOLDER.to_str().unwrap()][..], &["sh", "-c", ":"]] {
            let Some(mut run) = verb(name) else { return };
            run.arg("--").args(program).stderr(full());
            assert_eq!(run.output().unwrap().status.code(), Some(125), "{name} {program:?}");
        }
    }
    let status = plain_tool().args(["report", "/no/such"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(125));
}

/// Nobody can be told, but the status tells.
#[test]
fn a_report_for_a_closed_standard_error_is_a_failure() {
    let holder = HOLDER.to_str().unwrap();
    let folder = directory("closed");
    let closed = |words: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" 2>&-", "sh"]).arg(plain_tool().get_program());
        shell.env("PRIMALLOC_LIBRARY", real_library().unwrap_or(FAKE_LIBRARY.clone()));
        // What is watched has to be there for a while.
        let program = if words[0] == "watch" { &["sleep", "0.3"][..] } else { &[holder] };
        shell.args(words).arg("--").args(program).current_dir(&folder).output().unwrap()
    };
    for verb in [&["faults", "--no-perf"][..], &["watch"], &["profile", "--rate=1"], &["leaks"]] {
        if real_library().is_none() && verb[0] != "faults" {
            continue;
        }
        assert_eq!(closed(verb).status.code(), Some(125), "{verb:?}");
        let beside = closed(&[verb, &["--html=page"]].concat());
        assert_eq!(beside.status.code(), Some(125), "{verb:?}");
        assert!(
            fs::read_to_string(folder.join("page")).unwrap().starts_with("<!DOCTYPE html>"),
            "{verb:?}"
        );
        // Nothing is for standard error then.
        let to_output = closed(&[verb, &["--json"]].concat());
        assert_ne!(to_output.status.code(), Some(125), "{verb:?}");
        assert!(to_output.stdout.starts_with(b"{"), "{verb:?}");
    }
}

#[test]
fn a_pipe_with_a_name_has_one_writer_and_no_early_end() {
    let pipe = directory("pipe").join("report");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    let mut tool = plain_tool();
    tool.args(["faults", "--no-perf"]).arg(format!("--json={}", pipe.display()));
    tool.args(["--", "sleep", "0.2"]);
    let mut tool = Running(tool.spawn().unwrap());
    let output = reader.wait_with_output().unwrap();
    assert!(output.stdout.starts_with(b"{"), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(tool.0.wait().unwrap().success());
}
