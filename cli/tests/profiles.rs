//! Profiles: of programs under the real library, of others' making, and files that are none.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use support::*;

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| compile("holder.c", "holder", &["-O1", "-g"]));

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FILES.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn profile(library: &Path, arguments: &[&str]) -> assert_cmd::Command {
    let mut tool = tool();
    tool.env("PRIMALLOC_LIBRARY", library).args(["profile", "--rate", "1"]).args(arguments);
    tool
}

/// The line of the table with this function.
fn row<'a>(text: &'a str, function: &str) -> &'a str {
    text.lines()
        .find(|line| line.split("  ").any(|cell| cell.trim().split(' ').next() == Some(function)))
        .unwrap_or_else(|| panic!("no row of {function} in\n{text}"))
}

#[test]
fn a_programs_memory_is_laid_to_the_functions_that_hold_it() {
    let Some(library) = real_library() else {
        return;
    };
    let kept = FILES.join("kept.pb.gz");
    let mut run = profile(&library, &["--keep", kept.to_str().unwrap(), "--"]);
    let assert = run.arg(&*PROGRAM).assert().code(3).stdout("done\n");
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    // 100 blocks of 10,000 bytes through a wrapper, from a function that was inlined.
    let cache = row(&text, "cache_entry");
    for part in ["977 KiB", "100", "holder.c:", "> xmalloc"] {
        assert!(cache.contains(part), "{part} in {cache}");
    }
    assert!(text.contains("every call recorded"), "{text}");

    let mut total = tool();
    total.args(["report", "--view", "total"]).arg(&kept);
    let assert = total.assert().success().stderr("");
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let brief = row(&text, "brief_work");
    assert!(brief.contains("488 KiB") && brief.contains("1,000"), "{brief}");

    let (written, lines) = (FILES.join("named.pb.gz"), FILES.join("stacks.txt"));
    let mut report = tool();
    report.args(["report", "--cumulative", "--pprof"]).arg(&written).arg("--collapsed").arg(&lines);
    report.arg(&kept).assert().success().stdout(contains("main"));
    let stacks = fs::read_to_string(&lines).unwrap();
    assert!(stacks.contains("main;fill_cache;cache_entry;xmalloc 1000000\n"), "{stacks}");
    for other in [&written, &lines] {
        tool().arg("report").arg(other).assert().success().stdout(contains("cache_entry"));
    }
    tool().arg("diff").args([&kept, &written]).assert().success().stdout(contains("+0 B").not());
}

/// Puts the debug information of a program where a distribution would put it; returns its place.
fn separate(program: &Path, directory: &Path) -> PathBuf {
    let notes = Command::new("readelf").arg("-n").arg(program).output().unwrap();
    let notes = String::from_utf8(notes.stdout).unwrap();
    let (_, id) = notes.split_once("Build ID: ").expect("the linker gives build IDs");
    let (first, rest) = id.split_whitespace().next().unwrap().split_at(2);
    let folder = directory.join(".build-id").join(first);
    fs::create_dir_all(&folder).unwrap();
    let target = folder.join(format!("{rest}.debug"));
    let mut copy = Command::new("objcopy");
    copy.arg("--only-keep-debug").arg(program).arg(&target);
    assert!(copy.status().unwrap().success());
    target
}

#[test]
fn a_program_that_is_gone_has_names_by_its_debug_file() {
    let Some(library) = real_library() else {
        return;
    };
    let [program, kept] = ["gone", "gone.pb.gz"].map(|name| FILES.join(name));
    // The second one's code has other addresses than places in the file.
    for layout in ["-Wl,-z,separate-code", "-Wl,-Ttext-segment=0x12340000"] {
        compile("holder.c", "gone", &["-O1", "-g", "-Wl,--build-id", "-no-pie", layout]);
        let directory = FILES.join("debug");
        let debug_file = separate(&program, &directory);
        let mut run = profile(&library, &["--keep", kept.to_str().unwrap(), "--"]);
        run.arg(&program).assert().code(3);
        fs::remove_file(&program).unwrap();
        let report = || {
            let mut report = tool();
            report.args(["report", "--debug-directory"]).arg(&directory).arg(&kept).assert()
        };
        report().success().stdout(
            contains("cache_entry")
                .and(contains("holder.c:"))
                .and(contains("cannot be read").not()),
        );
        let mut without = tool();
        without.arg("report").arg(&kept).assert().success().stdout(
            contains("cache_entry")
                .not()
                .and(contains("gone cannot be read, and there is no debug")),
        );
        // What another file left there is not taken for this one's.
        fs::copy(&*PROGRAM, &debug_file).unwrap();
        report().success().stdout(contains("there is no debug file of build ID"));
    }
    let mut report = tool();
    report.args(["report", "--debug-directory", "/no/such"]).arg(&kept);
    report.assert().failure().stderr(contains("/no/such").and(contains("is no directory")));
}

#[test]
fn a_stripped_program_has_names_by_its_debug_file() {
    let Some(library) = real_library() else {
        return;
    };
    let program = compile("holder.c", "stripped", &["-O1", "-g", "-Wl,--build-id"]);
    let directory = FILES.join("stripped-debug");
    separate(&program, &directory);
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let mut run = profile(&library, &["--debug-directory", directory.to_str().unwrap(), "--"]);
    let named = contains("cache_entry").and(contains("holder.c:"));
    run.arg(&program).assert().code(3).stderr(named);
    profile(&library, &["--"]).arg(&program).assert().code(3).stderr(contains("cache_entry").not());
}

#[test]
fn a_program_without_a_profile_is_told() {
    let assert = tool().args(["profile", "--", "true"]).assert().code(125);
    assert.stderr(contains("has written no profile"));
    tool().args(["leaks", "--", "true"]).assert().code(125).stderr(contains("no report of leaks"));
    tool().args(["leaks", "--", "sh", "-c", "exit 4"]).assert().code(4);
    for verb in ["profile", "leaks"] {
        let mut killed = tool();
        killed.args([verb, "--", "sh", "-c", "kill -TERM $$"]);
        let says =
            contains(": it was killed by SIGTERM, and a program that a signal ends writes none; ");
        killed.assert().interrupted().stderr(says.and(contains("let it end by exit")));
    }
    tool().args(["leaks", "--suppressions", "/no/such", "--", "true"]).assert().code(125);
    tool().args(["profile", "--rate", "0", "--", "true"]).assert().code(125);
}

#[test]
fn leaks_are_grouped_by_site_and_change_the_status() {
    let Some(library) = real_library() else {
        return;
    };
    let loser = compile("loser.c", "loser", &["-O0", "-g"]);
    let leaks = |arguments: &[&str]| {
        let mut tool = tool();
        tool.env("PRIMALLOC_LIBRARY", &library).arg("leaks").args(arguments);
        tool.arg("--").arg(&loser).assert()
    };
    let found = leaks(&[]).code(23).stdout("done\n").stderr(
        contains("128 B in 4 blocks leaked: 32 B in 1 directly, 96 B in 3 through them\n")
            .and(contains("\n32 B in 1 block, which hold 96 B in 3 more, allocated at\n"))
            .and(contains("make_list  loser.c:")),
    );
    let text = String::from_utf8(found.get_output().stderr.clone()).unwrap();
    assert_eq!(text.matches("allocated at").count(), 1, "{text}");
    leaks(&["--exit-status", "0"]).code(0).stderr(contains("128 B in 4 blocks leaked"));
    let known = file("known", b"leak:make_list\n");
    leaks(&["--suppressions", known.to_str().unwrap()]).code(0).stderr(contains("Nothing leaked."));
}

/// A program whose malloc is its own, compiled from this text.
fn with_own_malloc() -> PathBuf {
    let text = "#include <stddef.h>\nstatic char area[1 << 20];\nstatic size_t used;\n\
                void *malloc(size_t size) { return area + (used += (size | 15) + 1); }\n\
                void free(void *block) { (void)block; }\n\
                int main(int count, char **words) { return malloc(1) ? count - 1 : !words; }\n";
    let source = file("own_malloc.c", text.as_bytes());
    compile(source.to_str().unwrap(), "own-malloc", &["-fno-builtin"])
}

#[test]
fn what_a_malloc_of_the_programs_own_served_is_not_told_as_nothing() {
    let Some(library) = real_library() else {
        return;
    };
    let own = with_own_malloc();
    for (verb, sentence) in [("leaks", "no blocks: the program's own"), ("profile", "no samples:")]
    {
        let run = |words: &[&str]| {
            let mut tool = tool();
            tool.env("PRIMALLOC_LIBRARY", &library).arg(verb).arg("--").arg(&own).args(words);
            tool.assert().stderr(contains(sentence).and(contains("Nothing leaked").not()))
        };
        run(&[]).code(125);
        run(&["fails"]).code(1);
    }
}

#[test]
fn a_primalloc_that_is_linked_in_is_the_one_that_is_asked() {
    let Some(library) = real_library() else {
        return;
    };
    let archive = library.with_file_name("libprimalloc.a");
    let archive = archive.to_str().unwrap();
    let prefixed = library.with_file_name("libprimalloc_prefixed.a");
    let prefixed = prefixed.to_str().unwrap();
    for (name, options) in [
        ("loser-linked", &[archive][..]),
        ("loser-static", &["-static", archive]),
        ("loser-beside", &["-Dmalloc=prim_malloc", "-Dfree=prim_free", prefixed]),
    ] {
        let loser = compile("loser.c", name, &[&["-O0", "-pthread"], options].concat());
        let run = |arguments: &[&str]| {
            let mut tool = tool();
            tool.env("PRIMALLOC_LIBRARY", &library).args(arguments).arg("--").arg(&loser);
            tool.assert().stderr(contains("has primalloc linked in; none is preloaded"))
        };
        run(&["leaks"]).code(23).stderr(contains("make_list"));
        run(&["profile", "--rate", "1"]).success().stderr(contains("make_list"));
    }
}

#[test]
fn what_is_linked_in_is_told_to_stay() {
    let Some(library) = real_library() else {
        return;
    };
    let prefixed = library.with_file_name("libprimalloc_prefixed.a");
    let options = ["-Dmalloc=prim_malloc", "-Dfree=prim_free", prefixed.to_str().unwrap()];
    let beside = compile("loser.c", "loser-beside", &options);
    let remark =
        contains("loser-beside has primalloc linked in: what it allocates from that stays");
    tool().args(["run", "--"]).arg(beside).assert().success().stderr(remark);
    let archive = library.with_file_name("libprimalloc.a");
    let whole = compile("loser.c", "loser-static", &["-static", archive.to_str().unwrap()]);
    let refused =
        contains("loser-static is linked statically, and primalloc with it: nothing else");
    tool().args(["run", "--"]).arg(whole).assert().code(126).stderr(refused);
}

#[test]
fn a_reader_that_has_seen_enough_leaves_no_files() {
    let Some(library) = real_library() else {
        return;
    };
    let directory = FILES.join("temporary");
    fs::create_dir_all(&directory).unwrap();
    for verb in ["leaks", "profile"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut tool = plain_tool();
        tool.env("PRIMALLOC_LIBRARY", &library).env("TMPDIR", &directory);
        let status = tool.arg(verb).arg("--").arg(&*PROGRAM).stderr(writer).status().unwrap();
        assert!(!status.success(), "{verb}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{verb}");
    }
}

#[test]
fn pages_and_json_are_written_by_every_verb() {
    let Some(library) = real_library() else {
        return;
    };
    let [html, json] = ["all.html", "all.json"].map(|name| FILES.join(name));
    let options = [format!("--html={}", html.display()), format!("--json={}", json.display())];
    let kept = FILES.join("whole.pb.gz");
    let written = |kind: &str, parts: &[&str]| {
        let page = fs::read_to_string(&html).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("class=\"flame\""), "{kind}");
        let document = fs::read_to_string(&json).unwrap();
        for part in parts.iter().chain(&["\"format\": 1", &format!("\"kind\": \"{kind}\"")]) {
            assert!(document.contains(part), "{part} in {document}");
        }
        fs::remove_file(&html).unwrap();
        fs::remove_file(&json).unwrap();
    };
    let mut run = profile(&library, &["--keep", kept.to_str().unwrap()]);
    run.args(&options).arg("--").arg(&*PROGRAM).assert().code(3).stderr(contains("cache_entry"));
    written("heap", &["\"function\": \"cache_entry\"", "\"via\": \"xmalloc\"", "\"timeline\": ["]);
    tool().arg("report").args(&options).arg(&kept).assert().success();
    written("heap", &["\"sample_bytes\": 1"]);
    tool().arg("diff").args(&options).args([&kept, &kept]).assert().success();
    written("diff", &["\"view\": \"live\"", "\"after\": {"]);

    // A report of leaks is one when it is read again, and JSON alone on standard output.
    let loser = compile("loser.c", "paged-loser", &["-O0", "-g"]);
    let lost = FILES.join("lost.pb.gz");
    let mut leaks = tool();
    leaks.env("PRIMALLOC_LIBRARY", &library).args(["leaks", "--keep"]).arg(&lost).args(&options);
    leaks.arg("--").arg(&loser).assert().code(23);
    written("leaks", &["\"indirect\": {", "\"function\": \"make_list\""]);
    tool().arg("report").arg(&lost).assert().success().stdout(contains("128 B in 4 blocks leaked"));
    let assert = tool().args(["report", "--json"]).arg(&lost).assert().success();
    assert.stdout(starts_with("{\n").and(contains("\"bytes\": 96"))).stderr("");
    let mut quiet = profile(&library, &["--json"]);
    let assert = quiet.arg("--").arg(&*PROGRAM).assert().code(3);
    assert.stdout(starts_with("{\n")).stderr("done\n");
    tool().args(["report", "--html", "/no/such/x"]).arg(&lost).assert().code(125);
}

#[test]
fn two_profiles_side_by_side() {
    let before = file("before.txt", b"main;old 1000\nmain;same 500\n");
    let after = file("after.txt", b"main;grown 3000\nmain;same 500\n");
    tool().arg("diff").args([&before, &after]).assert().success().stdout(
        contains("1.46 KiB → 3.42 KiB")
            .and(contains("+2.93 KiB"))
            .and(contains("-1000 B"))
            .and(contains("same").not())
            .and(contains("object").or(contains("OBJECTS")).not()),
    );
    tool().arg("diff").args([&before, &before]).assert().success().stdout(contains("No function"));
    let lines = FILES.join("changes.txt");
    tool().arg("diff").arg("--collapsed").arg(&lines).args([&before, &after]).assert().success();
    let lines = fs::read_to_string(&lines).unwrap();
    assert_eq!(lines, "main;old 1000 0\nmain;same 500 500\nmain;grown 0 3000\n");
}

#[test]
fn the_text_of_gperftools_is_read_with_symbols() {
    let text = "heap profile: 1: 100 [2: 300] @ heapprofile\n     1: 100 [2: 300] @ 0x10 0x20\n\
                MAPPED_LIBRARIES:\n00000000-00001000 r-xp 00000000 08:01 7 /no/such/program\n";
    let path = file("old.heap", text.as_bytes());
    let mut report = tool();
    report.arg("report").arg(&path).assert().success().stdout(
        contains("live 100 B in 1 object; total 300 B in 2 objects")
            .and(contains("(in program)"))
            .and(contains("/no/such/program cannot be read")),
    );
    tool().args(["report", "--view", "peak"]).arg(&path).assert().code(125).stderr(
        starts_with("primalloc: ").and(contains("old.heap: has no such view; it has live, total")),
    );
    let thread = ["report", "--thread", "x"];
    tool().args(thread).arg(&path).assert().code(125).stderr(contains("names no thread at all"));
}

#[test]
fn profiles_of_go_programs_are_read() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: there is no go");
        return;
    }
    let source = file("heap.go", GO_PROGRAM.as_bytes());
    let target = FILES.join("go.pb.gz");
    let made = Command::new("go").arg("run").arg(&source).arg(&target).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    tool()
        .arg("report")
        .arg(&target)
        .assert()
        .success()
        .stdout(contains("main.hold").and(contains("heap.go:")).and(contains("8.00 MiB")));
}

const GO_PROGRAM: &str = r#"package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var held [][]byte

//go:noinline
func hold() {
	for i := 0; i < 8; i++ {
		held = append(held, make([]byte, 1<<20))
	}
}

func init() { runtime.MemProfileRate = 1 }

func main() {
	hold()
	runtime.GC()
	file, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(file)
	file.Close()
	runtime.KeepAlive(held)
}
"#;

#[test]
fn what_is_no_profile_is_refused_in_one_line() {
    let refused = |path: &Path, what: &str| {
        let assert = tool().arg("report").arg(path).assert().code(125).stdout("");
        let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(text.contains(&path.display().to_string()) && text.contains(what), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    refused(Path::new("/no/such/file"), "cannot be read");
    refused(Path::new("/tmp"), "is a directory");
    refused(&file("empty", b""), "is empty");
    refused(&file("words", b"hello there\n"), "is no profile");
    refused(&file("cut.pb.gz", b"\x1f\x8b\x08\0"), "is damaged");
    refused(&file("random", &[0xfe; 64]), "is no pprof profile");
}

#[test]
fn reports_get_names() {
    let object = PROGRAM.to_str().unwrap();
    let symbols = Command::new("nm").arg(object).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(" T fill_cache")).unwrap();
    let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let input = format!("first\n    {object}(+0x{:x}) [0x55]\n\u{7f}(+0x1)\n", address + 4);
    tool().arg("symbolize").write_stdin(input).assert().success().stdout(
        starts_with("first\n    ")
            .and(contains("fill_cache holder.c:"))
            .and(contains("(holder)\n\u{7f}(+0x1)\n")),
    );
    let input = format!("  #1 0x55 {object}+0x{:x}\n", address + 4);
    let symbolized = tool().arg("symbolize").write_stdin(input).assert().success();
    symbolized.stdout(starts_with("  #1 fill_cache holder.c:"));
}

/// The C library writes of the same place the function, the object's offset, or the address alone.
#[test]
fn every_form_of_backtrace_symbols_is_understood() {
    let text = "#include <execinfo.h>\n\
                __attribute__((noinline)) int show(void) {\n\
                    void *calls[9];\n\
                    int count = backtrace(calls, 9);\n\
                    backtrace_symbols_fd(calls, count, 1);\n\
                    return count;\n\
                }\n\
                int main(void) { return show() == 0; }\n";
    let source = script("backtraced.c", text);
    for flags in [&["-pie", "-rdynamic"][..], &["-pie"], &["-no-pie"], &["-no-pie", "-rdynamic"]] {
        let flags = [&["-fPIE", "-g", "-O0"], flags].concat();
        let program = compile(source.to_str().unwrap(), "backtraced", &flags);
        let written = std::process::Command::new(program).output().unwrap().stdout;
        let symbolized = tool().arg("symbolize").write_stdin(written.clone()).assert().success();
        let first = "show backtraced.c:4 (backtraced)\nmain backtraced.c:8 (backtraced)\n";
        let said = String::from_utf8_lossy(&written).into_owned();
        assert!(said.contains("[0x"), "{said}");
        symbolized.stdout(starts_with(first));
    }
}
