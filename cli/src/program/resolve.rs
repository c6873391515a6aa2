//! From the name that was typed to the ELF image that runs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::{CannotStart, Program};

/// As many #! lines as the kernel follows.
const INTERPRETERS_MAX: usize = 5;

/// The kernel reads a #! line from a file's first 256 bytes.
const HEAD_BYTES: usize = 256;

/// The shell that execvp gives a text file to which has no #! line, or one that names nobody.
const FALLBACK_SHELL: &str = "/bin/sh";

impl Program {
    /// Finds the program that `command` (name and arguments) would start.
    pub fn resolve(command: &[OsString]) -> Result<Program, CannotStart> {
        let (name, arguments) = command.split_first().expect("the command line requires a program");
        let path = find_executable(name)?;
        let mut program = Program {
            name: name.clone(),
            arguments: arguments.to_vec(),
            image: path.clone(),
            path,
            found_by_env: None,
        };
        program.follow_interpreters()?;
        Ok(program)
    }

    fn follow_interpreters(&mut self) -> Result<(), CannotStart> {
        for _ in 0..INTERPRETERS_MAX {
            match self.look_at(&self.image)? {
                Content::Elf => return Ok(()),
                Content::Text => self.image = PathBuf::from(FALLBACK_SHELL),
                Content::Script { interpreter, argument } => {
                    self.enter_interpreter(interpreter, argument.as_deref())?
                }
            }
        }
        Err(CannotStart::TooManyInterpreters { program: self.called() })
    }

    fn enter_interpreter(
        &mut self,
        interpreter: PathBuf,
        argument: Option<&OsStr>,
    ) -> Result<(), CannotStart> {
        if !interpreter.exists() {
            return Err(self.lacks(&interpreter.to_string_lossy()));
        }
        let wanted_of_env = argument.filter(|_| interpreter.file_name() == Some(OsStr::new("env")));
        self.image = match wanted_of_env.and_then(program_of_env) {
            None => interpreter,
            Some(name) => {
                let missing = || format!("{} (named to env)", name.to_string_lossy());
                let found = find_executable(&name).map_err(|_| self.lacks(&missing()))?;
                self.found_by_env = Some(found.clone());
                found
            }
        };
        Ok(())
    }

    fn look_at(&self, file: &Path) -> Result<Content, CannotStart> {
        match read_head(file) {
            Ok(head) => {
                content_of(&head).ok_or_else(|| CannotStart::NotAProgram { program: self.called() })
            }
            // Only ELF files can be executed without being readable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Content::Elf),
            Err(source) => Err(CannotStart::Refused { program: self.called(), source }),
        }
    }

    fn lacks(&self, interpreter: &str) -> CannotStart {
        let interpreter = interpreter.replace('\r', "\\r");
        CannotStart::NoInterpreter { program: self.called(), interpreter }
    }

    fn called(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }
}

#[derive(Debug, PartialEq)]
enum Content {
    Elf,
    Script { interpreter: PathBuf, argument: Option<OsString> },
    Text,
}

fn read_head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn content_of(head: &[u8]) -> Option<Content> {
    if head.starts_with(b"\x7fELF") {
        return Some(Content::Elf);
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else {
        return (!line.contains(&0)).then_some(Content::Text);
    };
    // The kernel splits once: all that follows the interpreter is a single argument.
    let line = without_blanks(line);
    if line.is_empty() {
        return Some(Content::Text);
    }
    let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
    let argument = without_blanks(&line[end..]);
    Some(Content::Script {
        interpreter: PathBuf::from(OsString::from_vec(line[..end].to_vec())),
        argument: (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
    })
}

/// As the kernel does: the carriage return of a file from Windows stays, and makes another name.
fn without_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The program among the words after `#!/usr/bin/env`: neither an option nor an assignment.
fn program_of_env(argument: &OsStr) -> Option<OsString> {
    argument
        .as_bytes()
        .split(|byte| b" \t".contains(byte))
        .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))
        .map(|word| OsStr::from_bytes(word).to_owned())
}

/// The file that the kernel would be asked to execute; none if there is none.
pub fn find(command: &[OsString]) -> Option<PathBuf> {
    find_executable(command.first()?).ok()
}

/// A name with a slash is a path; any other is looked for in PATH, as a shell does.
fn find_executable(name: &OsStr) -> Result<PathBuf, CannotStart> {
    let program = if name.is_empty() { "''".into() } else { name.to_string_lossy().into_owned() };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if is_executable(&path) { Ok(path) } else { Err(why_not(&path, program)) };
    }
    let directories = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut not_executable = None;
    for path in env::split_paths(&directories).map(|directory| directory.join(name)) {
        if is_executable(&path) {
            return Ok(path);
        }
        if path.is_file() {
            not_executable.get_or_insert(path);
        }
    }
    Err(match not_executable {
        Some(path) => CannotStart::NotExecutable { program: path.display().to_string() },
        None => CannotStart::NotInPath { program },
    })
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

fn why_not(path: &Path, program: String) -> CannotStart {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            CannotStart::NoSuchFile { program }
        }
        Err(source) => CannotStart::Refused { program, source },
        Ok(facts) if facts.is_dir() => CannotStart::Directory { program },
        Ok(_) => CannotStart::NotExecutable { program },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(interpreter: &str, argument: Option<&str>) -> Option<Content> {
        let argument = argument.map(OsString::from);
        Some(Content::Script { interpreter: interpreter.into(), argument })
    }

    #[test]
    fn heads_tell_what_a_file_is() {
        assert_eq!(content_of(b"\x7fELF\x02\x01"), Some(Content::Elf));
        assert_eq!(content_of(b"#!/bin/sh\necho"), script("/bin/sh", None));
        assert_eq!(content_of(b"#! /bin/awk -f \n"), script("/bin/awk", Some("-f")));
        assert_eq!(content_of(b"#!/bin/sh\r\n"), script("/bin/sh\r", None));
        assert_eq!(content_of(b"#!\t/bin/env sh \r\n"), script("/bin/env", Some("sh \r")));
        assert_eq!(content_of(b"echo hello\n"), Some(Content::Text));
        assert_eq!(content_of(b"#! \necho hello\n"), Some(Content::Text));
        assert_eq!(content_of(b"MZ\x90\x00\x03"), None);
    }

    #[test]
    fn env_names_the_program_after_options_and_assignments() {
        let program = |argument: &str| program_of_env(OsStr::new(argument));
        assert_eq!(program("python3"), Some("python3".into()));
        assert_eq!(program("-S A=1 python3 -u"), Some("python3".into()));
        assert_eq!(program("-i"), None);
    }
}
