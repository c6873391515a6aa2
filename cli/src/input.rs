//! Files that verbs read: `-` is standard input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::output::printable;

const STANDARD_INPUT: &str = "-";

pub fn is_standard(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

/// As people are told of it.
pub fn name_of(path: &Path) -> String {
    match is_standard(path) {
        true => "standard input".to_owned(),
        false => printable(&path.to_string_lossy()),
    }
}

pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    match is_standard(path) {
        true => Ok(Box::new(io::stdin())),
        false => Ok(Box::new(File::open(path)?)),
    }
}

/// What is read again and again, or here and there: that can be done if standard input is a file.
pub fn as_file(word: OsString) -> PathBuf {
    if word == STANDARD_INPUT { PathBuf::from("/dev/stdin") } else { PathBuf::from(word) }
}
