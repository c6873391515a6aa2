//! What verbs with reports share: where they go, how wide they are, how a command is shown.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub const STANDARD_OUTPUT: &str = "-";

/// Where there is no terminal to ask.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

pub fn is_standard_output(path: Option<&Path>) -> bool {
    path == Some(Path::new(STANDARD_OUTPUT))
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    if is_standard_output(Some(path)) {
        print!("{text}");
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Said before the program runs for an hour, not after.
pub fn check_writable(path: &Path) -> Result<()> {
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Of the terminal that `stream` is, if it is one.
pub fn width_of(is_terminal: bool) -> usize {
    if !is_terminal {
        return WIDTH_WITHOUT_TERMINAL;
    }
    terminal_size::terminal_size().map_or(WIDTH_WITHOUT_TERMINAL, |(width, _)| width.0.into())
}

/// The command as it could be typed, with quotes where a word needs them.
pub fn shell_text(command: &[OsString]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy();
        if !word.is_empty() && word.chars().all(is_plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_they_could_be_typed() {
        let text =
            |words: &[&str]| shell_text(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(text(&["sort", "-n", "a b"]), "sort -n 'a b'");
        assert_eq!(text(&["echo", "it's", ""]), r"echo 'it'\''s' ''");
    }
}
