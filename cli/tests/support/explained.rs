//! Programs that hold known amounts of every kind of memory, and what is to be said of them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{compile, real_library, tool};

pub const MIB: u64 = 1 << 20;

/// Ends the process when the test does, however it does.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// The program, once it holds what it shall hold.
    pub fn ready(program: &Path, environment: &[(&str, &str)]) -> Running {
        let mut command = Command::new(program);
        command.envs(environment.iter().copied());
        Running::started(&mut command)
    }

    pub fn started(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Running(child)
    }

    pub fn explain(&self, words: &[&str]) -> assert_cmd::assert::Assert {
        tool().arg("explain").args(words).arg(self.0.id().to_string()).assert().success()
    }

    pub fn explained(&self) -> Value {
        serde_json::from_slice(&self.explain(&["--json"]).get_output().stdout).unwrap()
    }
}

pub fn program(name: &str, flags: &[&str]) -> std::path::PathBuf {
    compile("explained.c", name, &[&["-O1", "-g", "-fno-builtin", "-pthread"], flags].concat())
}

pub fn preloaded() -> Option<String> {
    Some(real_library()?.to_str().unwrap().to_owned())
}

pub fn part(found: &Value, name: &str) -> (u64, Option<u64>) {
    let parts = found["parts"].as_array().unwrap();
    match parts.iter().find(|part| part["use"] == name) {
        None => (0, None),
        Some(part) => (part["resident_bytes"].as_u64().unwrap(), part["count"].as_u64()),
    }
}

pub fn assert_near(what: &str, found: u64, expected: u64, more: u64) {
    let is_near = (expected..=expected + more).contains(&found);
    assert!(is_near, "{what}: {found} bytes, not {expected} to {more} more");
}

pub fn assert_adds_up(found: &Value) {
    let parts = found["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["resident_bytes"].as_u64().unwrap()).sum();
    assert_eq!(sum, found["resident_bytes"].as_u64().unwrap());
}

/// What explained.c holds; a block of 1,000 bytes is one of 1,024 in the heap.
pub fn assert_holds_what_it_holds(found: &Value) {
    assert_eq!(found["is_ours"], true);
    assert_eq!(found["unread"], Value::Null);
    assert_adds_up(found);
    let (bytes, blocks) = part(found, "blocks");
    assert_near("blocks", bytes, 20_000 * 1024, MIB);
    assert!((20_000..20_200).contains(&blocks.unwrap()), "{blocks:?}");
    assert_eq!(part(found, "large_blocks").1, Some(8));
    assert_near("large blocks", part(found, "large_blocks").0, 32 * MIB, MIB);
    assert_near("heaps", part(found, "heaps").0, 3000 * 2000, MIB);
    let free = part(found, "free_blocks").0 + part(found, "caches").0;
    assert_near("free blocks", free, 20_000 * 1024 - MIB, 3 * MIB);
    // A slice of it may serve as a slab again.
    assert_near("free pages", part(found, "free_pages").0, 15 * MIB, 3 * MIB);
    assert_near("anonymous", part(found, "anonymous").0, 24 * MIB, MIB);
    assert_near("brk", part(found, "brk").0, 5 * MIB, MIB);
    assert_near("shared", part(found, "shared").0, 12 * MIB, MIB);
    assert_near("stacks", part(found, "stacks").0, 3 * MIB, MIB);
    assert_eq!(part(found, "stacks").1, Some(4));
    assert!((4096..2 * MIB).contains(&part(found, "records").0));
    let sizes = found["sizes"].as_array().unwrap();
    let row = sizes.iter().find(|row| row["block_bytes"] == 1024).unwrap();
    assert!((20_000..20_010).contains(&row["blocks"].as_u64().unwrap()), "{row}");
}
