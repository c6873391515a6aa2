//! A file for `--json` that stands behind a blank: it is taken for the program, or the process.

use std::env;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::program::CannotStart;

/// They write to standard output where no file stands behind a '='.
const OPTIONS: [&str; 2] = ["--json", "--markdown"];

/// What to say where such a file is no program.
pub fn of_program(reason: &CannotStart) -> Option<String> {
    let (option, file) = behind_blank(env::args_os())?;
    (reason.not_startable() == Some(&file)).then(|| remark(option))
}

/// The same where it is no process, or leaves an argument without a place.
pub fn of_usage(error: &clap::Error) -> Option<String> {
    let (option, file) = behind_blank(env::args_os())?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_it = match error.kind() {
        ErrorKind::ValueValidation => text(ContextKind::InvalidValue) == Some(&file),
        ErrorKind::UnknownArgument => {
            text(ContextKind::InvalidArg).is_some_and(|word| !word.starts_with('-'))
        }
        _ => false,
    };
    is_it.then(|| remark(option))
}

fn remark(option: &str) -> String {
    format!("({option} writes to standard output; to a file with '=': {option}=FILE)")
}

/// The first such option of the tool's own that a word follows, and that word.
fn behind_blank(words: impl Iterator<Item = OsString>) -> Option<(&'static str, String)> {
    let words: Vec<OsString> = words.take_while(|word| word != "--").collect();
    words.windows(2).find_map(|pair| {
        let option = OPTIONS.into_iter().find(|option| pair[0] == *option)?;
        let word = pair[1].to_string_lossy();
        let is_option = word.starts_with('-') && word != "-";
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        (!is_option && !is_number).then(|| (option, word.into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_behind_a_blank_is_found() {
        let found = |line: &str| behind_blank(line.split(' ').map(OsString::from));
        assert_eq!(found("compare --json a.json -- b"), Some(("--json", "a.json".to_owned())));
        assert_eq!(found("compare --markdown - b"), Some(("--markdown", "-".to_owned())));
        for right in
            ["compare --json -- b", "ps --json", "explain --json 4711", "compare --json --force b"]
        {
            assert_eq!(found(right), None, "{right}");
        }
        assert_eq!(found("compare -- program --json a.json"), None);
    }
}
