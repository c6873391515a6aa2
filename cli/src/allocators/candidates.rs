//! What `--with` and `--allocator` name: allocators, each with settings of its own where it has
//! some.
//!
//! A list's entries stand between commas, an entry's settings after colons; within double quotes
//! after a '=' both are part of a value.

use std::path::Path;

use anyhow::{Result, anyhow, bail};

use super::{Allocator, PRIMALLOC, name_of_library, named};
use crate::environment::{LD_PRELOAD, OPTIONS, Setting};

/// One column of a comparison: an allocator, and what is set for it alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// As it was written: "primalloc:purge_delay=0".
    pub name: String,
    pub allocator: Allocator,
    pub settings: Vec<Setting>,
}

impl Candidate {
    fn plain(allocator: Allocator) -> Candidate {
        Candidate { name: allocator.name.clone(), allocator, settings: Vec::new() }
    }

    pub fn library(&self) -> Option<&Path> {
        self.allocator.library.as_deref()
    }

    /// Whether it takes options of primalloc, of whatever name it is.
    pub fn is_primalloc(&self) -> bool {
        self.library().and_then(name_of_library) == Some(PRIMALLOC)
    }

    /// Whether two cannot stand beside each other.
    fn is_mistaken_for(&self, other: &Candidate) -> bool {
        self.allocator.name == other.allocator.name && self.allocator != other.allocator
    }
}

/// The candidates of `--with`: glibc, primalloc:purge_delay=0, NAME=PATH, all, ... in that order.
pub fn select(lists: &[String], primalloc: Option<&Path>) -> Result<Vec<Candidate>> {
    let mut selected: Vec<Candidate> = Vec::new();
    let mut written: Vec<&str> = Vec::new();
    for list in lists {
        for entry in split(list, ',')?.into_iter().map(str::trim) {
            let found = select_one(entry, primalloc)?;
            if written.contains(&entry) {
                bail!("{entry}: it is in the list twice");
            }
            written.push(entry);
            for candidate in found {
                if selected.iter().any(|present| present.is_mistaken_for(&candidate)) {
                    bail!("{}: two allocators have this name", candidate.allocator.name);
                }
                // What `all` has brought, or brings once more, is there.
                if !selected.iter().any(|present| present.name == candidate.name) {
                    selected.push(candidate);
                }
            }
        }
    }
    Ok(selected)
}

fn select_one(entry: &str, primalloc: Option<&Path>) -> Result<Vec<Candidate>> {
    let parts = split(entry, ':')?;
    let settings = parts[1..].iter().map(|text| setting(text));
    let settings: Vec<Setting> =
        settings.collect::<Result<_, String>>().map_err(|error| anyhow!("{entry}: {error}"))?;
    let mut candidates: Vec<Candidate> =
        named(parts[0], primalloc)?.into_iter().map(Candidate::plain).collect();
    if settings.is_empty() {
        return Ok(candidates);
    }
    let [candidate] = &mut candidates[..] else {
        bail!("{entry}: settings are for one allocator: give them to each");
    };
    check(entry, candidate, &settings)?;
    candidate.name += &entry[parts[0].len()..];
    candidate.settings = settings;
    Ok(candidates)
}

/// The parts of `text` between separators. One within double quotes, which begin after a '=', is
/// none.
fn split(text: &str, separator: char) -> Result<Vec<&str>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut previous) = (false, separator);
    for (at, character) in text.char_indices() {
        if character == '"' && (is_quoted || previous == '=') {
            is_quoted = !is_quoted;
        } else if character == separator && !is_quoted {
            parts.push(&text[start..at]);
            start = at + separator.len_utf8();
        }
        previous = character;
    }
    if is_quoted {
        bail!("{text}: a double quote is not closed");
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// An option of primalloc where the name is in small letters, else a variable of the environment.
fn setting(text: &str) -> Result<Setting, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!(
            "'{text}' is no setting, which is NAME=VALUE; a value with ':' or ',' stands in double \
             quotes, and those in single ones: 'NAME:VARIABLE=\"a:1,b:2\"'"
        ));
    };
    let value = match value.strip_prefix('"') {
        None => value,
        Some(rest) => rest
            .strip_suffix('"')
            .ok_or_else(|| format!("the value of {name} goes on after its double quote"))?,
    };
    if name.contains(|c: char| c.is_ascii_uppercase()) {
        Setting::variable(name, value)
    } else {
        Setting::option(name, value)
    }
}

fn check(entry: &str, candidate: &Candidate, settings: &[Setting]) -> Result<()> {
    for (index, setting) in settings.iter().enumerate() {
        let name = setting.name();
        if settings[..index].iter().any(|earlier| earlier.name() == name) {
            bail!("{entry}: {name} is set twice");
        }
        if setting.is_option() && !candidate.is_primalloc() {
            bail!(
                "{entry}: '{name}' would be an option of primalloc, which {} does not know; it \
                 takes variables of the environment, in capitals: {}:NAME=VALUE",
                candidate.allocator.name,
                candidate.allocator.name
            );
        }
        match name {
            LD_PRELOAD => bail!("{entry}: {name} is what brings the allocator in; name NAME=PATH"),
            OPTIONS => bail!("{entry}: options stand by themselves: {PRIMALLOC}:NAME=VALUE"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(list: &str) -> Result<Vec<Candidate>> {
        select(&[list.to_owned()], None)
    }

    fn message(list: &str) -> String {
        selected(list).unwrap_err().to_string()
    }

    #[test]
    fn each_entry_is_a_candidate_of_its_own() {
        let found = selected("glibc,glibc:MALLOC_ARENA_MAX=2:MALLOC_TOP_PAD_=").unwrap();
        let names: Vec<&str> = found.iter().map(|candidate| candidate.name.as_str()).collect();
        assert_eq!(names, ["glibc", "glibc:MALLOC_ARENA_MAX=2:MALLOC_TOP_PAD_="]);
        assert_eq!(found[0].allocator, found[1].allocator);
        let settings = ["MALLOC_ARENA_MAX=2", "MALLOC_TOP_PAD_="];
        assert_eq!(found[1].settings.iter().map(Setting::to_string).collect::<Vec<_>>(), settings);
        let lists = ["glibc".to_owned(), "glibc:A=1".to_owned()];
        assert_eq!(select(&lists, None).unwrap().len(), 2, "--with may be given several times");
        let blanks = selected("glibc, glibc:A=b c , glibc:A=\" \"").unwrap();
        assert_eq!([blanks[1].settings[0].value(), blanks[2].settings[0].value()], ["b c", " "]);
    }

    #[test]
    fn options_are_for_primalloc_under_whatever_name() {
        let library = std::env::temp_dir().join(format!("libprimalloc-{}.so", std::process::id()));
        std::fs::write(&library, "").unwrap();
        let found = selected(&format!("new={}:purge_delay=0:thp=never", library.display()));
        std::fs::remove_file(&library).unwrap();
        let found = found.unwrap();
        assert_eq!(found[0].name, "new:purge_delay=0:thp=never");
        assert!(found[0].settings.iter().all(Setting::is_option));
        let says = message("glibc:purge_delay=0");
        assert!(says.starts_with("glibc:purge_delay=0: 'purge_delay' would be an option of"));
        assert!(says.ends_with("in capitals: glibc:NAME=VALUE"), "{says}");
    }

    #[test]
    fn a_quoted_value_may_have_what_separates() {
        let found = selected(r#"glibc:CONF="narenas:2,decay_ms:0":B=2,glibc"#).unwrap();
        assert_eq!(found.len(), 2);
        let settings: Vec<String> = found[0].settings.iter().map(Setting::to_string).collect();
        assert_eq!(settings, ["CONF=narenas:2,decay_ms:0", "B=2"]);
        assert_eq!(found[0].name, r#"glibc:CONF="narenas:2,decay_ms:0":B=2"#);
        let tunable = selected("glibc:GLIBC_TUNABLES=glibc.malloc.arena_max=2").unwrap();
        assert_eq!(
            tunable[0].settings[0].to_string(),
            "GLIBC_TUNABLES=glibc.malloc.arena_max=2",
            "a '=' needs no quotes"
        );
        assert!(message("glibc:CONF=\"a:1").ends_with("a double quote is not closed"));
        assert!(message("glibc:CONF=\"a\"b").contains("CONF goes on after its double quote"));
    }

    #[test]
    fn what_is_wrong_with_a_setting_is_said() {
        for unquoted in ["glibc:CONF=a:1", "glibc:CONF=a,decay:1"] {
            assert!(message(unquoted).contains("'1' is no setting, which is NAME=VALUE"));
        }
        assert!(message("glibc:").contains("'' is no setting"));
        assert!(message("glibc:=1").contains("'' is no option name"));
        assert!(message("glibc:Arenas=1").contains("'Arenas' is no variable of the environment"));
        assert!(message("glibc:A=1:A=2").ends_with("A is set twice"));
        assert!(message("glibc:LD_PRELOAD=x").contains("LD_PRELOAD is what brings"));
        assert!(message("glibc:PRIMALLOC_OPTIONS=x").contains("options stand by themselves"));
        assert!(message("all:A=1").contains("settings are for one allocator"));
        assert!(message("nomalloc:A=1").starts_with("nomalloc: no allocator known by this name"));
        assert_eq!(message(":A=1"), "an allocator's name is missing");
    }

    #[test]
    fn nothing_is_there_twice() {
        assert_eq!(message("glibc,glibc"), "glibc: it is in the list twice");
        assert_eq!(message("glibc:A=1,glibc:A=1"), "glibc:A=1: it is in the list twice");
        let names = |list: &str| -> Vec<String> {
            selected(list).unwrap().into_iter().map(|candidate| candidate.name).collect()
        };
        assert_eq!(names("all,glibc"), names("glibc,all"));
        assert_eq!(names("all,glibc"), names("all"));
    }
}
