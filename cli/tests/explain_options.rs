//! `primalloc explain`: which options are set in a process, and what limits it.

mod support;

use std::process::Command;

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use support::explained::*;
use support::*;

/// Names, values and sources of what is set.
fn set(found: &Value) -> Vec<Value> {
    assert_eq!(found["options_unread"], Value::Null, "{found}");
    let options = found["options"].as_array().unwrap().iter();
    options.map(|option| json!([option["name"], option["value"], option["source"]])).collect()
}

fn at_run_time() -> [Value; 2] {
    [
        json!(["mmap_threshold", MIB, "mallopt"]),
        json!(["hard_limit", 3_u64 << 30, "prim_option_set"]),
    ]
}

#[test]
fn options_are_told_with_who_set_them() {
    let Some(library) = preloaded() else { return };
    let program = compile("options.c", "options", &["-O1"]);
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("MALLOC_ARENA_MAX", "4"),
        ("MALLOC_TOP_PAD_", "65536"),
        ("MALLOC_TRIM_THRESHOLD_", "1"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=4096:glibc.malloc.hugetlb=1"),
        ("PRIMALLOC_OPTIONS", "purge_delay=1500ms,cache_thread=1M,leak_exit=23"),
        ("PRIMALLOC_CACHE_THREAD", "2M"),
        ("PRIMALLOC_SOFT_LIMIT", "nonsense"),
        ("PRIMALLOC_STATS_OUTPUT", "/nowhere/\x1b]0;title\x07\n\u{202e}at all"),
    ];
    let running = Running::ready(&program, &environment);
    let [mmap_threshold, hard_limit] = at_run_time();
    let stats = "/nowhere/\u{fffd}]0;title\u{fffd}\u{fffd}\u{202e}at all";
    let expected = [
        json!(["cache_thread", 2 * MIB, "PRIMALLOC_CACHE_THREAD"]),
        json!(["shards", 4, "MALLOC_ARENA_MAX"]),
        json!(["purge_delay", 1500, "PRIMALLOC_OPTIONS"]),
        json!(["trim_threshold", 4096, "GLIBC_TUNABLES"]),
        mmap_threshold,
        json!(["thp", "always", "GLIBC_TUNABLES"]),
        hard_limit,
        json!(["stats_output", stats, "PRIMALLOC_STATS_OUTPUT"]),
    ];
    let found = running.explained();
    assert_eq!(set(&found), expected);
    assert_eq!(found["options"][3]["default"], "auto");
    let shown = contains("\nOPTION ")
        .and(contains("purge_delay     1,500 ms "))
        .and(contains("hard_limit      3 GiB "))
        .and(contains("/nowhere/\u{fffd}]0;title\u{fffd}\u{fffd}\u{fffd}at all"));
    running.explain(&[]).stderr("").stdout(shown);
}

/// The variable says something else.
#[test]
fn what_mcheck_sets_is_told_as_its_own() {
    let Some(library) = preloaded() else { return };
    let program = compile("options.c", "options-mcheck", &["-O1", "-Wno-deprecated-declarations"]);
    for environment in [&[][..], &[("PRIMALLOC_CHECK", "off")]] {
        let mut command = Command::new(&program);
        command.arg("mcheck").env("LD_PRELOAD", &library).envs(environment.iter().copied());
        let [mmap_threshold, hard_limit] = at_run_time();
        let expected = [mmap_threshold, hard_limit, json!(["check", "full", "mcheck"])];
        assert_eq!(set(&Running::started(&mut command).explained()), expected, "{environment:?}");
    }
}

#[test]
fn static_programs_tell_of_options_too() {
    let Some(library) = real_library() else { return };
    let archive = library.parent().unwrap().join("libprimalloc.a");
    let archive = archive.to_str().unwrap();
    let set_option = "-Wl,--undefined=prim_option_set";
    for (name, flags) in [
        ("options-pie", ["-static-pie", "-fPIE", archive, set_option]),
        ("options-static", ["-static", "-no-pie", archive, set_option]),
    ] {
        let linked = compile("options.c", name, &flags);
        assert!(Command::new("strip").arg(&linked).status().unwrap().success());
        let running = Running::ready(&linked, &[("PRIMALLOC_THP", "never")]);
        let [mmap_threshold, hard_limit] = at_run_time();
        let expected = [mmap_threshold, json!(["thp", "never", "PRIMALLOC_THP"]), hard_limit];
        assert_eq!(set(&running.explained()), expected, "{name}");
    }
}

#[test]
fn of_defaults_and_without_limits_nothing_is_said() {
    let Some(library) = preloaded() else { return };
    let running = Running::ready(&program("defaults", &["-ldl"]), &[("LD_PRELOAD", &library)]);
    let found = running.explained();
    assert_eq!(set(&found), Vec::<Value>::new());
    let own = found["limits"].as_array().unwrap().iter();
    assert_eq!(own.filter(|limit| limit["directory"] == Value::Null).count(), 0, "{found}");
    let nothing = contains("OPTION").not().and(contains("RLIMIT").not());
    running.explain(&[]).stdout(nothing);
}

#[test]
fn limits_of_the_process_are_told() {
    let program = compile("options.c", "limited", &["-O1"]);
    let running = Running::ready(&program, &[]);
    let found = running.explained();
    let limit = |kind: &str| {
        let limits = found["limits"].as_array().unwrap();
        let limit = limits.iter().find(|limit| limit["kind"] == kind).unwrap();
        (limit["limit_bytes"].as_u64().unwrap(), limit["used_bytes"].as_u64().unwrap())
    };
    let ((address_space, mapped), (data, own)) = (limit("address_space"), limit("data"));
    assert_eq!((address_space, data), (1 << 40, 1 << 39));
    assert!(0 < own && own < mapped && mapped < 1 << 30, "{found}");
    let told = contains("RLIMIT_AS 1.00 TiB (").and(contains("RLIMIT_DATA 512 GiB ("));
    running.explain(&[]).stdout(told.and(contains("OPTION").not()));
}
