//! `primalloc faults`: what is counted of programs that do not end as most do.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use assert_cmd::cargo::cargo_bin;
use nix::unistd::getuid;
use serde_json::Value;
use support::*;

static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| compile("faults.c", "counted", &["-O1", "-g", "-pthread"]));

/// What a turn of the fixture touches.
const BLOCK_PAGES: u64 = (64 << 20) / 4096;

fn faults(arguments: &[&str]) -> Value {
    let assert = tool().args(["faults", "--json"]).args(arguments).assert();
    serde_json::from_slice(&assert.get_output().stdout).expect("a report")
}

fn of_program(arguments: &[&str], words: &[&str]) -> Value {
    let program = ["--", PROGRAM.to_str().unwrap()];
    faults(&[arguments, &program, words].concat())
}

/// The fixture, told to begin.
fn begun(words: &[&str], library: Option<PathBuf>) -> Child {
    let mut command = Command::new(&*PROGRAM);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.envs(library.map(|library| ("LD_PRELOAD", library)));
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "go").unwrap();
    child
}

fn drawn(found: &Value) -> u64 {
    let points = found["timeline"]["points"].as_array().unwrap();
    points.iter().map(|point| point["minor_faults"].as_u64().unwrap()).sum()
}

#[test]
fn the_timeline_has_all_that_is_counted() {
    for arguments in [&[][..], &["--no-perf"]] {
        for what in ["heap", "fork-heap", "fork-unseen"] {
            let found = of_program(arguments, &[what, "6"]);
            assert_eq!(found["minor_faults"], drawn(&found), "{what} {arguments:?}");
        }
    }
}

#[test]
fn an_interval_longer_than_the_rest_loses_nothing_that_was_seen() {
    let mut child = begun(&["wait-heap", "40"], None);
    let pid = child.id().to_string();
    let found = faults(&["--no-perf", "--interval", "1m", "--pid", &pid]);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(found["minor_faults"].as_u64().unwrap() >= BLOCK_PAGES, "{found}");
}

#[test]
fn a_program_goes_on_without_its_first_thread() {
    let found = of_program(&[], &["thread-alone", "4"]);
    assert_eq!(found["allocator"], "glibc");
    assert!(found["minor_faults"].as_u64().unwrap() >= 4 * BLOCK_PAGES, "{found}");
    assert!(found["peak_virtual_bytes"].as_u64().unwrap() >= 64 << 20, "{found}");
    if found["attributed"] == true {
        let kinds = found["kinds"].as_array().unwrap();
        let heap = kinds.iter().find(|row| row["kind"] == "allocator").unwrap();
        assert!(heap["share"].as_f64().unwrap() > 0.9, "{found}");
    }
}

/// The fixture, and what each of these says of it when its first thread has ended.
fn without_first_thread(library: Option<PathBuf>, verbs: &[&[&str]]) -> (u32, Vec<Output>) {
    let mut child = begun(&["wait-thread-alone", "1000"], library);
    let pid = child.id();
    let stat = format!("/proc/{pid}/stat");
    wait_until("its first thread to end", || {
        std::fs::read_to_string(&stat).unwrap().contains(") Z ")
    });
    let ask = |verb: &&[&str]| plain_tool().args(*verb).arg(pid.to_string()).output().unwrap();
    let told = verbs.iter().map(ask).collect();
    let _ = child.kill();
    let _ = child.wait();
    (pid, told)
}

#[test]
fn a_static_programs_allocator_is_not_known() {
    let found = faults(&["--", STATIC_PROGRAM.to_str().unwrap()]);
    assert_eq!(found["allocator"], Value::Null, "{found}");
}

#[test]
fn a_process_without_its_first_thread_can_be_looked_at() {
    let verbs: [&[&str]; 3] = [
        &["faults", "--json", "--duration", "300ms", "--pid"],
        &["explain"],
        &["watch", "--duration", "200ms"],
    ];
    let (pid, told) = without_first_thread(None, &verbs);
    let found: Value = serde_json::from_slice(&told[0].stdout).expect("a report");
    assert!(found["minor_faults"].as_u64().unwrap() >= BLOCK_PAGES, "{found}");
    assert!(found["peak_resident_bytes"].as_u64().unwrap() > 1 << 20, "{found}");
    assert_tell_of(pid, &told[1..]);
}

#[test]
fn a_process_without_its_first_thread_can_be_asked() {
    let Some(library) = real_library() else { return };
    let (pid, told) = without_first_thread(Some(library), &[&["explain"], &["trim"]]);
    assert_tell_of(pid, &told);
}

fn assert_tell_of(pid: u32, told: &[Output]) {
    for told in told {
        let text = String::from_utf8_lossy(&told.stdout);
        assert!(text.starts_with(&format!("counted ({pid}): ")), "{told:?}");
    }
}

#[test]
fn of_a_program_that_the_kernel_hides_the_counts_remain() {
    if !getuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    // Everybody can reach both, and nobody else may read the program.
    let place = |name| std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let (copy, hidden) = (place("primalloc"), place("hidden"));
    for (from, to, mode) in
        [(cargo_bin!("primalloc"), &copy, 0o755), (PROGRAM.as_path(), &hidden, 0o711)]
    {
        copy_program(from, to);
        set_mode(to, mode);
    }
    let nobody = 65534;
    let mut tool = Command::new(&copy);
    tool.args(["faults", "--json", "--"]).arg(&hidden).args(["heap", "2"]);
    let output = tool.uid(nobody).gid(nobody).output().unwrap();
    [copy, hidden].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(found["minor_faults"].as_u64().unwrap() >= 2 * BLOCK_PAGES, "{found}");
    assert_eq!(found["attributed"], false);
    assert_eq!(found["minor_faults"], drawn(&found));
}
