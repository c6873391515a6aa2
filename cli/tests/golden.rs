//! What `report` says of the recorded profiles in tests/golden/profile: of each its text and its
//! JSON, which lie beside it. `INSTA_UPDATE=always cargo test --test golden` writes them anew.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use support::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/profile");
/// Where the mapped files were, and where there is nothing: the names in a report are those that
/// the profile has itself, whatever this machine has installed.
const PLACES: [(&str, &str); 2] = [("/usr/lib/", "/no-libs/"), ("/tmp/", "/no-/")];

/// The recorded files.
fn recorded() -> Vec<String> {
    let entries = fs::read_dir(GOLDEN).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.contains(".snap")); // nor what a failed run left
    names.sort();
    names
}

/// A copy whose mappings lead nowhere. The places have the same length, so what is around them may
/// be a protocol buffer.
fn displaced(kind: &str, name: &str) -> PathBuf {
    let bytes = fs::read(Path::new(GOLDEN).join(name)).unwrap();
    let copy = FILES.join(kind).join(name);
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    if name.ends_with(".gz") {
        let mut plain = Vec::new();
        GzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
        let mut encoder = GzEncoder::new(fs::File::create(&copy).unwrap(), Compression::fast());
        encoder.write_all(&moved(plain)).unwrap();
        encoder.finish().unwrap();
    } else {
        fs::write(&copy, moved(bytes)).unwrap();
    }
    copy
}

fn moved(mut bytes: Vec<u8>) -> Vec<u8> {
    for (from, to) in PLACES {
        assert_eq!(from.len(), to.len());
        let found = |window: &[u8]| window == from.as_bytes();
        let places: Vec<usize> = (0..bytes.len())
            .filter(|&at| bytes.get(at..at + from.len()).is_some_and(found))
            .collect();
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    bytes
}

fn reported(kind: &str, name: &str, options: &[&str]) -> String {
    let copy = displaced(kind, name);
    let mut report = tool();
    report.current_dir(copy.parent().unwrap()).arg("report").args(options).arg(name);
    let assert = report.assert().success().stderr("");
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    text.replace(concat!("\"primalloc ", env!("CARGO_PKG_VERSION"), "\""), "\"primalloc VERSION\"")
}

fn compare(kind: &str, options: &[&str]) {
    let names = recorded();
    assert!(names.len() >= 2, "{names:?}");
    insta::with_settings!({
        snapshot_path => GOLDEN, prepend_module_to_snapshot => false, omit_expression => true
    }, {
        for name in names {
            insta::assert_snapshot!(format!("{name}.{kind}"), reported(kind, &name, options));
        }
    });
}

#[test]
fn texts_are_as_recorded() {
    compare("text", &[]);
}

#[test]
fn json_is_as_recorded() {
    compare("json", &["--json"]);
}
