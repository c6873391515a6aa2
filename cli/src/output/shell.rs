//! Commands as they could be typed.

use std::ffi::{OsStr, OsString};

/// With quotes where a word needs them.
pub fn shell_text(command: &[OsString]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

pub fn shell_word(word: &OsStr) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    let word = word.to_string_lossy();
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
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
