//! `primalloc faults`: whose anonymous memory is, where the kernel does not tell.

mod support;

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;
use support::*;

static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| compile("faults.c", "owned", &["-O1", "-g", "-pthread"]));

/// What a turn of the fixture touches.
const BLOCK_PAGES: u64 = (64 << 20) / 4096;

/// The report, unless the kernel does not let faults be watched.
fn watched(arguments: &[&str], words: &[&str]) -> Option<Value> {
    let mut tool = tool();
    tool.envs(real_library().map(|library| ("PRIMALLOC_LIBRARY", library)));
    tool.args(["faults", "--json"]).args(arguments).arg("--").arg(&*PROGRAM).args(words);
    let assert = tool.assert().code(3);
    let found: Value = serde_json::from_slice(&assert.get_output().stdout).expect("a report");
    if found["attributed"] == false {
        eprintln!("skipped: the kernel does not let page faults be watched");
        return None;
    }
    Some(found)
}

fn kind<'a>(found: &'a Value, name: &str) -> &'a Value {
    let mut kinds = found["kinds"].as_array().unwrap().iter();
    kinds.find(|row| row["kind"] == name).expect("every kind has a row")
}

fn share(found: &Value, name: &str) -> f64 {
    kind(found, name)["share"].as_f64().unwrap()
}

#[test]
fn what_a_program_on_primalloc_maps_itself_is_not_primallocs() {
    if real_library().is_none() {
        return;
    }
    let primalloc = ["--allocator", "primalloc"];
    let Some(found) = watched(&primalloc, &["mapping", "40"]) else { return };
    assert_eq!(found["allocator"], "primalloc");
    assert!(share(&found, "own_mapping") > 0.8, "{}", found["kinds"]);
    assert!(!found["advice"].to_string().contains("PURGE"), "{}", found["advice"]);

    let Some(found) = watched(&primalloc, &["heap", "40"]) else { return };
    let heap = kind(&found, "allocator");
    assert!(share(&found, "allocator") > 0.8, "{}", found["kinds"]);
    assert!(heap["guessed_share"].as_f64().unwrap() < 0.5, "{}", found["kinds"]);
    assert!(heap["minor_faults"].as_u64().unwrap() >= BLOCK_PAGES, "{}", found["kinds"]);
}

/// The faults by which malloc's memory is known may leave no record then.
#[test]
fn of_sampled_faults_all_are_counted_and_no_owner_is_made_up() {
    let Some(found) = watched(&["--every", "100"], &["heap", "8"]) else { return };
    let minor = found["minor_faults"].as_u64().unwrap();
    assert!((8 * BLOCK_PAGES..9 * BLOCK_PAGES).contains(&minor), "{minor}");
    let recorded = found["recorded_share"].as_f64().unwrap();
    assert!(recorded > 0.9, "{recorded}");
    assert!(share(&found, "allocator") > 0.9, "{}", found["kinds"]);
    assert_eq!(kind(&found, "allocator")["repeated_share"], Value::Null);
    assert_eq!(found["call_sites"][0]["function"], "fill_block");
}
