//! `primalloc faults`: what a program's page faults are, and every way to be told.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::LazyLock;

use nix::unistd::getuid;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use serde::Deserialize;
use support::*;

static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| compile("faults.c", "faulting", &["-O1", "-g", "-pthread"]));

/// What a turn of the fixture touches.
const BLOCK_PAGES: u64 = (64 << 20) / 4096;

/// The JSON report as docs/tool.md describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Document {
    format: u32,
    tool: String,
    command: String,
    pid: Option<i32>,
    allocator: Option<String>,
    host: serde_json::Value,
    seconds: f64,
    processes: usize,
    minor_faults: u64,
    major_faults: u64,
    worst_minor_faults_per_second: f64,
    peak_resident_bytes: u64,
    peak_virtual_bytes: u64,
    attributed: bool,
    unattributed_because: Option<String>,
    system_calls_included: bool,
    recorded_share: f64,
    kinds: Vec<Kind>,
    call_sites: Vec<Site>,
    timeline: Timeline,
    advice: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    kind: String,
    minor_faults: u64,
    major_faults: u64,
    share: f64,
    repeated_share: f64,
    guessed_share: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Site {
    kind: String,
    function: Option<String>,
    object: Option<String>,
    line: Option<String>,
    via: Option<String>,
    minor_faults: u64,
    major_faults: u64,
    share: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Timeline {
    interval_seconds: f64,
    points: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    seconds: f64,
    minor_faults: u64,
    major_faults: u64,
    resident_bytes: u64,
    virtual_bytes: u64,
}

impl Document {
    fn kind(&self, name: &str) -> &Kind {
        self.kinds.iter().find(|row| row.kind == name).expect("every kind has a row")
    }

    fn advice(&self) -> String {
        self.advice.join("\n")
    }
}

fn faults(arguments: &[&str]) -> assert_cmd::Command {
    let mut tool = tool();
    tool.arg("faults").args(arguments);
    tool
}

/// Runs the fixture; the document is all that is on standard output.
fn document(arguments: &[&str], words: &[&str]) -> Document {
    let mut tool = faults(&["--json"]);
    let assert = tool.args(arguments).arg("--").arg(&*PROGRAM).args(words).assert().code(3);
    serde_json::from_slice(&assert.get_output().stdout).expect("the report as documented")
}

/// Whether this kernel lets faults be watched; if not, there is nothing to attribute.
fn can_watch() -> bool {
    let allowed = document(&[], &["none"]).attributed;
    if !allowed {
        eprintln!("skipped: the kernel does not let page faults be watched");
    }
    allowed
}

#[test]
fn memory_that_glibc_returns_and_retakes_is_found_with_its_cure() {
    if !can_watch() {
        return;
    }
    let found = document(&[], &["heap", "8"]);
    assert_eq!(found.allocator.as_deref(), Some("glibc"));
    assert!(found.minor_faults >= 8 * BLOCK_PAGES);
    let heap = found.kind("allocator");
    assert!(heap.share > 0.9 && heap.repeated_share > 0.7, "{}", heap.repeated_share);
    assert_eq!(heap.guessed_share, 0.0, "every fault of malloc's own is seen");
    assert!(heap.minor_faults <= found.minor_faults);
    assert!(found.advice().contains("glibc returns memory to the system"));
    assert!(found.advice().contains("MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0"));

    let site = &found.call_sites[0];
    assert_eq!(
        (site.function.as_deref(), site.via.as_deref()),
        (Some("fill_block"), Some("memset"))
    );
    assert!(site.object.as_ref().unwrap().ends_with("faulting"));
    assert!(site.line.as_ref().unwrap().starts_with("faults.c:"));
    assert!(site.kind == "allocator" && site.share > 0.8);
}

#[test]
fn the_cures_that_are_named_are_cures() {
    let mut tool = faults(&["--json", "--no-perf", "--"]);
    tool.arg(&*PROGRAM).args(["heap", "8"]);
    let assert = tool.env("MALLOC_TRIM_THRESHOLD_", "-1").env("MALLOC_MMAP_MAX_", "0").assert();
    let cured: Document = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert!(cured.minor_faults < 2 * BLOCK_PAGES, "{}", cured.minor_faults);
}

#[test]
fn memory_that_the_program_maps_itself_is_not_mallocs() {
    if !can_watch() {
        return;
    }
    let found = document(&[], &["mapping", "4"]);
    assert!(found.kind("own_mapping").share > 0.9);
    assert!(found.kind("allocator").share < 0.05);
    assert!(found.advice().contains("maps itself"), "{}", found.advice());
    assert_eq!(found.call_sites[0].function.as_deref(), Some("touch"));
}

#[test]
fn stacks_of_the_program_and_of_its_threads() {
    if !can_watch() {
        return;
    }
    const STACK_PAGES: u64 = (4 << 20) / 4096;
    let main = document(&[], &["stack", "1"]);
    let stack = main.kind("stack");
    assert!(stack.minor_faults >= STACK_PAGES && stack.share > 0.8, "{}", stack.minor_faults);
    let threads = document(&[], &["thread-stack", "3"]);
    assert!(threads.kind("stack").share > 0.8);
}

#[test]
fn mapped_files() {
    if !can_watch() {
        return;
    }
    let path = FILES.join("mapped");
    fs::write(&path, vec![7; 64 << 20]).unwrap();
    let found = document(&[], &["file", "3", path.to_str().unwrap()]);
    let file = found.kind("file");
    assert!(file.share > 0.8, "{}", file.share);
    assert!(found.call_sites.iter().any(|site| site.function.as_deref() == Some("read_file")));
}

#[test]
fn threads_and_children_count() {
    if !can_watch() {
        return;
    }
    let threads = document(&[], &["thread-heap", "3"]);
    assert!(threads.kind("allocator").minor_faults >= 3 * BLOCK_PAGES * 9 / 10);
    let forked = document(&[], &["fork-heap", "3"]);
    assert_eq!(forked.processes, 4);
    let heap = forked.kind("allocator");
    assert!(heap.minor_faults >= 3 * BLOCK_PAGES * 9 / 10);
    assert!(heap.repeated_share < 0.1, "each child has pages of its own");
    assert!(!forked.advice().contains("returns memory"));
}

#[test]
fn the_parts_make_the_whole() {
    let found = document(&[], &["heap", "4"]);
    assert_eq!(found.format, 1);
    assert!(found.tool.starts_with("primalloc ") && found.host["processors"].is_u64());
    assert!(found.command.ends_with("faulting heap 4") && found.pid.is_none());
    let points = &found.timeline.points;
    let sum: u64 = points.iter().map(|point| point.minor_faults).sum();
    assert!(sum.abs_diff(found.minor_faults) <= found.minor_faults / 50, "{sum}");
    let majors: u64 = points.iter().map(|point| point.major_faults).sum();
    assert!(majors <= found.major_faults);
    assert!(points.windows(2).all(|pair| pair[0].seconds < pair[1].seconds));
    assert!(found.timeline.interval_seconds > 0.0);
    assert!(points.iter().all(|point| point.resident_bytes <= found.peak_resident_bytes));
    assert!(points.iter().all(|point| point.virtual_bytes <= found.peak_virtual_bytes));
    assert!(found.peak_resident_bytes >= 64 << 20);
    assert!(found.worst_minor_faults_per_second >= found.minor_faults as f64 / found.seconds * 0.9);
    if found.attributed {
        let by_kind: u64 = found.kinds.iter().map(|row| row.minor_faults).sum();
        assert!(by_kind.abs_diff(found.minor_faults) <= 5, "{by_kind}");
        let majors: u64 = found.kinds.iter().map(|row| row.major_faults).sum();
        assert!(majors.abs_diff(found.major_faults) <= 5);
        assert!((0.0..=1.0).contains(&found.recorded_share));
        let shares: f64 = found.call_sites.iter().map(|site| site.share).sum();
        assert!(shares <= 1.01, "{shares}");
    }
}

#[test]
fn without_permission_counts_and_sizes_remain() {
    let found = document(&["--no-perf", "--interval", "10ms"], &["heap", "8"]);
    assert!(!found.attributed && found.kinds.is_empty() && found.call_sites.is_empty());
    assert_eq!(found.unattributed_because.as_deref(), Some("--no-perf was given"));
    assert!(found.minor_faults >= 8 * BLOCK_PAGES);
    assert!(found.timeline.points.len() > 1);
    assert!((found.timeline.interval_seconds - 0.01).abs() < 1e-9);
    assert!(found.advice().contains("times as much memory as was ever resident"));
}

#[test]
fn a_refusal_of_the_kernel_is_told_and_the_timeline_remains() {
    if !can_watch() {
        return;
    }
    // Too few for an event of each kind on each processor, enough for all else.
    let limited = "ulimit -n 7; exec \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, "sh"]).arg(assert_cmd::cargo::cargo_bin!("primalloc"));
    shell.args(["faults", "--"]).arg(&*PROGRAM).args(["heap", "4"]);
    assert_cmd::Command::from_std(shell)
        .assert()
        .code(3)
        .stderr(starts_with("primalloc: faults are counted but not attributed: "))
        .stderr(contains("'ulimit -n' raises it").and(contains("times as much memory")))
        .stderr(contains("CALL SITE").not());
}

#[test]
fn the_report_goes_to_standard_error_and_the_programs_output_where_it_went() {
    let assert = faults(&["--", "sh", "-c", "echo said; exit 7"]).assert().code(7);
    assert
        .stdout("said\n")
        .stderr(starts_with("sh -c 'echo said; exit 7'\n").and(contains("minor faults")))
        .stderr(contains("no storm").and(contains("\u{1b}").not()));
    faults(&["--json", "--", "sh", "-c", "echo said"])
        .assert()
        .success()
        .stdout(starts_with("{\n").and(contains("\"format\": 1")))
        .stderr(contains("said\n"));
}

#[test]
fn programs_shorter_than_an_interval_are_reported() {
    faults(&["--interval", "10s", "--", "true"])
        .assert()
        .success()
        .stderr(contains("minor faults"));
}

#[test]
fn of_short_programs_nothing_is_made_up() {
    let of_true = |arguments: &[&str]| {
        let assert = faults(arguments).args(["--", "true"]).assert().success();
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    for arguments in [&[][..], &["--no-perf"]] {
        let text = of_true(arguments);
        let is_drawn = text.contains("\nresident  ");
        assert_eq!(text.contains("before its sizes could be seen"), !is_drawn, "{text}");
        assert_eq!(text.contains(" a second at worst"), is_drawn, "{text}");
        assert!(is_drawn || !text.contains("virtual"), "{text}");
    }
    let assert = faults(&["--no-perf", "--json", "--", "sleep", "0.1"]).assert().success();
    let found: Document = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let drawn: u64 = found.timeline.points.iter().map(|point| point.minor_faults).sum();
    assert!(drawn == found.minor_faults && found.worst_minor_faults_per_second > 0.0, "{drawn}");
}

#[test]
fn glibc_is_known_where_no_other_allocator_is() {
    let mut own = faults(&["--no-perf", "--", "sleep", "0.1"]);
    own.assert().success().stderr(contains(" s on glibc\n"));
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let maps = format!("/proc/{pid}/maps");
    wait_until("it has libc", || std::fs::read_to_string(&maps).unwrap().contains("libc.so"));
    let mut idle = faults(&["--duration", "50ms", "--pid", &pid]);
    let of_idle = idle.assert();
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    of_idle.success().stdout(contains(" s on glibc\n"));
}

#[test]
fn what_asks_the_library_of_options_is_not_counted() {
    let of_true = |arguments: &[&str]| {
        let mut tool = faults(&["--no-perf", "--json"]);
        let assert = tool.args(arguments).args(["--", "true"]).assert().success();
        serde_json::from_slice::<Document>(&assert.get_output().stdout).unwrap()
    };
    let (plain, told) = (of_true(&[]), of_true(&["--option", "verbose=0"]));
    assert!(told.minor_faults < plain.minor_faults + 50, "{}", told.minor_faults);
    assert!(told.peak_resident_bytes < plain.peak_resident_bytes + (1 << 20));
}

#[test]
fn the_program_runs_on_the_allocator_that_is_asked_for() {
    let show = ["sh", "-c", "echo \"<$LD_PRELOAD>\""];
    faults(&["--no-perf", "--allocator", "primalloc", "--"])
        .args(show)
        .assert()
        .success()
        .stdout(format!("<{}>\n", FAKE_LIBRARY.display()));
    let mut as_it_is = faults(&["--no-perf", "--"]);
    as_it_is.env("LD_PRELOAD", &*SILENT_LIBRARY).args(show);
    as_it_is.assert().stdout(format!("<{}>\n", SILENT_LIBRARY.display()));
    faults(&["--allocator", "nomalloc", "--", "true"])
        .assert()
        .code(125)
        .stderr(contains("nomalloc: no allocator known by this name"));
    let statically = STATIC_PROGRAM.to_str().unwrap();
    faults(&["--allocator", "primalloc", "--", statically])
        .assert()
        .code(126)
        .stderr(contains("is linked statically"));
    faults(&["--no-perf", "--", statically]).assert().success().stdout("hello\n");
}

#[test]
fn signals_end_the_program_and_the_tool() {
    let status = plain_tool().args(["faults", "--", "sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(status.signal(), Some(15));
}

/// The fixture, waiting to be told to begin; it ends when the test does.
struct Waiting(Child);

impl Waiting {
    fn new(what: &str, turns: &str) -> Waiting {
        let mut command = std::process::Command::new(&*PROGRAM);
        command.args([what, turns]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Waiting(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has the tool watch, lets the fixture begin, and waits for both.
fn watched(what: &str, turns: &str, arguments: &[&str]) -> Document {
    let mut fixture = Waiting::new(what, turns);
    let mut tool = plain_tool();
    tool.args(["faults", "--json", "--pid", &fixture.pid()]).args(arguments);
    let tool = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watches = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", tool.id()));
        tasks.is_ok_and(|tasks| tasks.count() > 1)
    };
    wait_until("the tool to watch", watches);
    writeln!(fixture.0.stdin.take().unwrap(), "go").unwrap();
    fixture.0.wait().unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_running_process_is_watched_until_it_ends() {
    let found = watched("wait-heap", "6", &[]);
    assert!(found.pid.is_some() && found.command.ends_with("faulting wait-heap 6"));
    assert!(found.minor_faults >= 6 * BLOCK_PAGES);
    if found.attributed {
        assert!(found.kind("allocator").share > 0.9);
        assert!(found.advice().contains("primalloc run -- PROGRAM"), "{}", found.advice());
        assert_eq!(found.call_sites[0].function.as_deref(), Some("fill_block"));
        let thread = watched("wait-thread-stack", "3", &[]);
        assert!(thread.kind("stack").share > 0.8);
    }
}

#[test]
fn a_running_process_is_counted_without_permission() {
    let found = watched("wait-heap", "30", &["--no-perf", "--interval", "5ms"]);
    assert!(found.minor_faults >= BLOCK_PAGES && !found.attributed);
}

#[test]
fn watching_ends_after_the_duration() {
    let fixture = Waiting::new("wait-heap", "1");
    faults(&["--pid", &fixture.pid(), "--duration", "200ms"])
        .assert()
        .success()
        .stdout(contains(format!("process {}, ", fixture.pid())))
        .stderr("");
}

#[test]
fn what_cannot_be_watched_is_refused_in_one_line() {
    let refused = |arguments: &[&str]| faults(arguments).assert().code(125).stdout("");
    refused(&["--pid", "2147483647"]).stderr("primalloc: 2147483647: there is no such process\n");
    if Path::new("/proc/2/comm").exists() && getuid().is_root() {
        refused(&["--pid", "2"]).stderr(contains("is a thread of the kernel"));
    }
    if !getuid().is_root() {
        refused(&["--pid", "1"]).stderr(contains("is another user's process"));
    }
    refused(&["--interval", "0s", "--", "true"]).stderr(contains("a time from 1ms"));
    refused(&["--pid", "1", "--duration", "10"]).stderr(contains("a unit is missing: 10ms, 10s"));
    refused(&["--pid", "1", "--duration", "-10"])
        .stderr(contains("'-10'").and(contains("tip").not()));
    refused(&["--interval", "soon", "--", "true"]).stderr(contains("not a time such as 100ms"));
    refused(&["--every", "0", "--", "true"]).stderr(contains("--every"));
    refused(&["--html", "/no/such/page.html", "--", "true"])
        .stderr(starts_with("primalloc: /no/such/page.html: cannot be written"));
    refused(&["--json=/no/such/report", "--", "true"]).stderr(contains("/no/such/report"));
    refused(&[]).stderr(contains("PROGRAM"));
    refused(&["--pid", "1", "--", "true"]).stderr(contains("cannot be used with"));
    refused(&["--duration", "1s", "--", "true"]).stderr(contains("--pid"));
    faults(&["--", "no-such-program"]).assert().code(127).stdout("");
}

#[test]
fn an_unknown_users_processes_are_not_watched() {
    if !getuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let fixture = Waiting::new("wait-heap", "1");
    // The tool is copied to where everybody can reach it.
    let copy = std::env::temp_dir().join(format!("primalloc-{}", fixture.pid()));
    copy_program(assert_cmd::cargo::cargo_bin!("primalloc"), &copy);
    set_mode(&copy, 0o755);
    use std::os::unix::process::CommandExt;
    let nobody = 65534;
    let mut tool = std::process::Command::new(&copy);
    tool.args(["faults", "--pid", &fixture.pid()]).uid(nobody).gid(nobody);
    let output = tool.output().unwrap();
    fs::remove_file(&copy).unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(message.contains("is another user's process, which only root can watch"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn the_page_stands_alone() {
    let page = FILES.join("faults.html");
    faults(&["--html"]).arg(&page).arg("--").arg(&*PROGRAM).args(["heap", "2"]).assert().code(3);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.matches("<svg").count() >= 3);
    assert_eq!(text.matches("http://").count(), text.matches("http://www.w3.org").count());
    for outside in ["https://", "src=", "<link", "@import", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
}
