//! The environment that brings an allocator into a program: LD_PRELOAD and PRIMALLOC_*.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::allocators::{PRIMALLOC, is_allocator_library, name_of_library};

pub const LD_PRELOAD: &str = "LD_PRELOAD";
pub const OPTIONS: &str = "PRIMALLOC_OPTIONS";
/// The one word among the options that is none: the library lists them all.
const HELP: &str = "help";
/// What an option's own variable begins with.
const PREFIX: &str = "PRIMALLOC_";
const ONLY_EXE: &str = "PRIMALLOC_ONLY_EXE";
/// Names the library where --library does not.
pub const LIBRARY: &str = "PRIMALLOC_LIBRARY";

/// An empty variable is as good as none, as everywhere; the command line would take it for a path.
/// To be called before there are threads.
pub fn forget_empty_library() {
    if env::var_os(LIBRARY).is_some_and(|path| path.is_empty()) {
        // SAFETY: no other thread is there to read the environment meanwhile.
        unsafe { env::remove_var(LIBRARY) };
    }
}

/// One option of the allocator, as `--option NAME=VALUE` gives it, or, in capitals, a variable of
/// the environment for one candidate of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    name: String,
    value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            if text == HELP {
                return Ok(Setting::help());
            }
            let name = if text.is_empty() { "verbose" } else { text };
            return Err(format!("an option is NAME=VALUE, for example {name}=1"));
        };
        Setting::option(name, value)
    }
}

impl Setting {
    /// Sets nothing: the library lists its options.
    pub fn help() -> Setting {
        Setting { name: HELP.to_owned(), value: String::new() }
    }

    pub fn is_help(&self) -> bool {
        *self == Setting::help()
    }

    pub fn option(name: &str, value: &str) -> Result<Setting, String> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(format!("'{name}' is no option name: a-z, 0-9 and '_' only"));
        }
        if value.is_empty() || value.contains(',') {
            return Err(format!("'{value}' is no value for {name}: not empty, without commas"));
        }
        Ok(Setting { name: name.to_owned(), value: value.to_owned() })
    }

    pub fn variable(name: &str, value: &str) -> Result<Setting, String> {
        let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if !name.chars().all(is_word) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!(
                "'{name}' is no variable of the environment: A-Z, 0-9 and '_' only; an option of \
                 primalloc is in small letters"
            ));
        }
        Ok(Setting { name: name.to_owned(), value: value.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&self) -> &str {
        &self.value
    }

    /// Else it is a variable of the environment, whose name has a capital.
    pub fn is_option(&self) -> bool {
        !self.name.contains(|c: char| c.is_ascii_uppercase())
    }

    /// The option's own variable, or the variable itself.
    pub fn variable_name(&self) -> String {
        match self.is_option() {
            true => format!("{PREFIX}{}", self.name.to_ascii_uppercase()),
            false => self.name.clone(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self.is_help() {
            true => formatter.write_str(HELP),
            false => write!(formatter, "{}={}", self.name, self.value),
        }
    }
}

/// Puts `library` in front of the other preloads, so that its malloc is found first.
pub fn preload(command: &mut Command, library: &Path, others: &OsStr) -> Result<()> {
    // The loader splits LD_PRELOAD at both, and knows no way to quote them.
    if library.as_os_str().as_bytes().iter().any(|byte| b": \t".contains(byte)) {
        bail!(
            "{}: the loader splits LD_PRELOAD at spaces and colons; \
             reach the library through a link without them",
            library.display()
        );
    }
    command.env(LD_PRELOAD, prepend(library.as_os_str(), others));
    Ok(())
}

/// The libraries that such a list names.
fn entries(preloads: &OsStr) -> impl Iterator<Item = &OsStr> {
    preloads
        .as_bytes()
        .split(|byte| b": \t".contains(byte))
        .map(OsStr::from_bytes)
        .filter(|path| !path.is_empty())
}

/// What LD_PRELOAD holds, without allocators: the ground on which they are compared.
pub fn preloads_without_allocators() -> OsString {
    let present = preloads();
    let kept: Vec<&OsStr> =
        entries(&present).filter(|path| !is_allocator_library(Path::new(path))).collect();
    kept.join(OsStr::new(":"))
}

/// What LD_PRELOAD holds where `library` takes the place of whatever allocator is preloaded.
pub fn preloads_with(library: Option<&Path>) -> OsString {
    let others = preloads_without_allocators();
    match library {
        Some(library) => prepend(library.as_os_str(), &others),
        None => others,
    }
}

/// Whether LD_PRELOAD brings primalloc.
pub fn preloads_primalloc() -> bool {
    entries(&preloads()).any(|path| name_of_library(path) == Some(PRIMALLOC))
}

/// Brings `library` in place of whatever allocator is preloaded; none leaves libc's own.
pub fn replace_allocator(command: &mut Command, library: Option<&Path>) -> Result<()> {
    let others = preloads_without_allocators();
    match library {
        Some(library) => preload(command, library, &others)?,
        None if others.is_empty() => {
            command.env_remove(LD_PRELOAD);
        }
        None => {
            command.env(LD_PRELOAD, others);
        }
    }
    Ok(())
}

fn prepend(library: &OsStr, others: &OsStr) -> OsString {
    let mut value = library.to_owned();
    if !others.is_empty() {
        value.push(":");
        value.push(others);
    }
    value
}

/// What LD_PRELOAD holds now.
pub fn preloads() -> OsString {
    env::var_os(LD_PRELOAD).unwrap_or_default()
}

/// Hands the settings to the library; one given here wins over one that was there before, also over
/// the option's own variable, to which the library itself would listen before the list.
pub fn apply<'a>(command: &mut Command, settings: impl IntoIterator<Item = &'a Setting>) {
    let (options, variables): (Vec<&Setting>, Vec<_>) =
        settings.into_iter().partition(|setting| setting.is_option());
    if !options.is_empty() {
        let mut words: Vec<OsString> =
            env::var_os(OPTIONS).filter(|v| !v.is_empty()).into_iter().collect();
        for option in options {
            command.env_remove(option.variable_name());
            words.push(OsString::from(option.to_string()));
        }
        command.env(OPTIONS, words.join(OsStr::new(",")));
    }
    command.envs(variables.iter().map(|variable| (&variable.name, &variable.value)));
}

/// Where the caller's environment sets this option: in its own variable, or in the list.
pub fn place_of(option: &str) -> Option<String> {
    let variable = format!("{PREFIX}{}", option.to_ascii_uppercase());
    if env::var_os(&variable).is_some_and(|value| !value.is_empty()) {
        return Some(variable);
    }
    let list = env::var_os(OPTIONS)?;
    let is_it = |word: &[u8]| word.split(|byte| *byte == b'=').next() == Some(option.as_bytes());
    let is_set = list.as_bytes().split(|byte| *byte == b',').any(is_it);
    is_set.then(|| format!("{option} in {OPTIONS}"))
}

/// Asks the library to remove itself from LD_PRELOAD once it is in, so children do without.
pub fn keep_from_children(command: &mut Command) {
    command.env(ONLY_EXE, "1");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_a_name_and_a_value() {
        let setting: Setting = "purge_delay_ms=0".parse().unwrap();
        assert_eq!(setting, Setting { name: "purge_delay_ms".into(), value: "0".into() });
        assert_eq!("help".parse::<Setting>().unwrap().to_string(), "help");
    }

    #[test]
    fn what_is_wrong_with_a_setting_is_said() {
        let message = |text: &str| text.parse::<Setting>().unwrap_err();
        assert_eq!(message("verbose"), "an option is NAME=VALUE, for example verbose=1");
        assert!(message("Verbose=1").contains("'Verbose' is no option name"));
        assert!(message("a=1,b=2").contains("without commas"));
    }

    #[test]
    fn the_library_comes_before_what_was_preloaded() {
        let library = OsStr::new("/lib/a.so");
        assert_eq!(prepend(library, OsStr::new("")), "/lib/a.so");
        assert_eq!(prepend(library, OsStr::new("b.so")), "/lib/a.so:b.so");
    }
}
