//! What verbs with reports share: where they go, how wide they are, how a command is shown.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

pub const STANDARD_OUTPUT: &str = "-";

/// Where there is no terminal to ask.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

pub fn is_standard_output(path: Option<&Path>) -> bool {
    path == Some(Path::new(STANDARD_OUTPUT))
}

/// Text with colours, which are left out where no terminal is.
pub fn print(text: &str) -> Result<()> {
    printed(anstream::stdout(), text)
}

/// What is for programs.
pub fn print_plain(text: &str) -> Result<()> {
    printed(io::stdout(), text)
}

fn printed(mut output: impl Write, text: &str) -> Result<()> {
    let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    written.context("standard output: cannot be written")
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    if is_standard_output(Some(path)) {
        return print_plain(text);
    }
    fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Said before the program runs for an hour, not after. Leaves no file behind, for there may be
/// nothing to write in the end.
pub fn check_writable(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("{}: cannot be written", path.display()))?;
    if is_new {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// The same for what is made from other files: none of them is written over.
pub fn check_apart(path: &Path, sources: &[&Path]) -> Result<()> {
    let is_source = |source: &&Path| match (path.canonicalize(), source.canonicalize()) {
        (Ok(path), Ok(source)) => path == source,
        _ => false,
    };
    if sources.iter().any(is_source) {
        bail!("{}: cannot be written: the report is made from it", path.display());
    }
    check_writable(path)
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
