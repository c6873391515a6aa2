//! Which of primalloc's options have another value than their default, and who gave it.

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::memory::Memory;
use super::note::OptionPlaces;

/// struct option_row, by its offsets.
const ROW_SIZE: usize = 24;
const DEFAULT: usize = 0;
const TEXTS: usize = 20;
const TYPE: usize = 23;
/// An option's number is a byte.
const COUNT_MAX: u64 = 256;
/// Name and unit of an option fit in, terminated.
const NAME_AND_UNIT_SIZE: usize = 48;
/// Of the value of a TEXT, and how much of it is read at a time: pages are multiples of that.
const TEXT_SIZE: usize = 1024;
const PIECE_SIZE: u64 = 64;
/// OPTION_AUTO.
const AUTO: u64 = u64::MAX;
const OTHER_VERSION: &str = "this primalloc is of another version than this tool";

/// Where the library has a value from, in the order of enum option_source.
const SOURCES: [Source; 7] = [
    Source::Nobody,
    Source::GlibcVariable,
    Source::Named("GLIBC_TUNABLES"),
    Source::Named("PRIMALLOC_OPTIONS"),
    Source::Variable,
    Source::Named("mallopt"),
    Source::Named("prim_option_set"),
];

/// glibc's variables, as src/settings/glibc_knobs.def has them.
const GLIBC_VARIABLES: [(&str, &str); 7] = [
    ("trim_threshold", "MALLOC_TRIM_THRESHOLD_"),
    ("top_pad", "MALLOC_TOP_PAD_"),
    ("mmap_threshold", "MALLOC_MMAP_THRESHOLD_"),
    ("mmap_max", "MALLOC_MMAP_MAX_"),
    ("shards", "MALLOC_ARENA_MAX"),
    ("perturb", "MALLOC_PERTURB_"),
    ("check", "MALLOC_CHECK_"),
];

#[derive(Clone, Copy)]
enum Source {
    Nobody,
    GlibcVariable,
    Variable,
    Named(&'static str),
}

/// An option whose value is not its default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    pub name: String,
    pub value: Value,
    pub default: Value,
    /// Of a number: bytes, ms, or what is counted, if that has a name.
    pub unit: Option<String>,
    /// The variable of the environment or the function that it comes from, if that is known.
    pub source: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(u64),
    Word(String),
    /// Of a text that is not set.
    Nothing,
}

/// In the order of the library's table.
pub fn settings(places: &OptionPlaces, memory: &dyn Memory) -> Result<Vec<Setting>> {
    if places.row_size != ROW_SIZE as u64 || places.count > COUNT_MAX {
        bail!(OTHER_VERSION);
    }
    let count = places.count as usize;
    let read = |address, size| memory.read_vec(address, size).context("they cannot be read");
    let rows = read(places.rows, count * ROW_SIZE)?;
    let values = read(places.values, count * size_of::<u64>())?;
    let sources = read(places.sources, count)?;
    let mut settings = Vec::new();
    for (index, row) in rows.chunks_exact(ROW_SIZE).enumerate() {
        let (value, default) = (word_at(&values, index * size_of::<u64>()), word_at(row, DEFAULT));
        if value != default {
            let texts = u64::from(u16::from_ne_bytes([row[TEXTS], row[TEXTS + 1]]));
            let texts = read(places.texts.wrapping_add(texts), NAME_AND_UNIT_SIZE)?;
            let kind = Kind::of(row[TYPE], &texts)?;
            settings.push(Setting {
                value: kind.value(value, memory)?,
                default: kind.value(default, memory)?,
                unit: kind.unit(),
                source: source(sources[index], &kind.name),
                name: kind.name,
            });
        }
    }
    Ok(settings)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + size_of::<u64>()].try_into().unwrap_or_default())
}

fn source(number: u8, name: &str) -> Option<String> {
    match SOURCES.get(usize::from(number))? {
        // Nobody but mcheck sets an option and leaves no trace.
        Source::Nobody => (name == "check").then(|| "mcheck".to_owned()),
        Source::GlibcVariable => {
            let variable = GLIBC_VARIABLES.iter().find(|(option, _)| *option == name);
            variable.map(|(_, variable)| (*variable).to_owned())
        }
        Source::Variable => Some(format!("PRIMALLOC_{}", name.to_uppercase())),
        Source::Named(source) => Some((*source).to_owned()),
    }
}

/// What an option is called, and how its values are to be understood.
struct Kind {
    name: String,
    meaning: Meaning,
}

enum Meaning {
    Number { unit: String, has_auto: bool },
    Choice(String),
    Text,
}

impl Kind {
    /// By the number of its type and of when it may be set, in four bits each, and by its texts.
    fn of(type_and_when: u8, texts: &[u8]) -> Result<Kind> {
        let mut texts = texts.split(|byte| *byte == 0);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        let (name, unit) = (text(), text());
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
        if name.is_empty() || !name.chars().all(is_letter) || !unit.chars().all(is_plain) {
            bail!(OTHER_VERSION);
        }
        let meaning = match type_and_when & 0xf {
            0 | 1 => Meaning::Number { unit, has_auto: false },
            2 => Meaning::Number { unit, has_auto: true },
            3 => Meaning::Number { unit: "ms".to_owned(), has_auto: false },
            4 => Meaning::Choice(unit),
            5 => Meaning::Text,
            _ => bail!(OTHER_VERSION),
        };
        Ok(Kind { name, meaning })
    }

    fn unit(&self) -> Option<String> {
        match &self.meaning {
            Meaning::Number { unit, .. } if !unit.is_empty() => Some(unit.clone()),
            _ => None,
        }
    }

    fn value(&self, value: u64, memory: &dyn Memory) -> Result<Value> {
        Ok(match &self.meaning {
            Meaning::Number { has_auto: true, .. } if value == AUTO => Value::Word("auto".into()),
            Meaning::Number { .. } => Value::Number(value),
            Meaning::Choice(words) => {
                let word = usize::try_from(value).ok().and_then(|at| words.split('|').nth(at));
                word.map_or(Value::Number(value), |word| Value::Word(word.to_owned()))
            }
            Meaning::Text if value == 0 => Value::Nothing,
            Meaning::Text => Value::Word(text_at(value, memory)?),
        })
    }
}

/// A text of the process's: nobody knows how long it is, and whether it ends.
fn text_at(address: u64, memory: &dyn Memory) -> Result<String> {
    let mut bytes = Vec::new();
    while bytes.len() < TEXT_SIZE {
        let at = address.wrapping_add(bytes.len() as u64);
        let piece = memory.read_vec(at, (PIECE_SIZE - at % PIECE_SIZE) as usize);
        let piece = piece.context("they cannot be read")?;
        let end = piece.iter().position(|byte| *byte == 0);
        bytes.extend(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            break;
        }
    }
    bytes.truncate(TEXT_SIZE);
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    Ok(String::from_utf8_lossy(&bytes).chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const KNOBS: &str = include_str!("../../../src/settings/glibc_knobs.def");
    const NAMES: &str = "top\0bytes\0says\0";
    const START: u64 = 0x1000;

    /// What lies from `START` on.
    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
            let begin = address.checked_sub(START).and_then(|begin| usize::try_from(begin).ok());
            let found = begin.and_then(|begin| self.0.get(begin..)?.get(..buffer.len()));
            buffer.copy_from_slice(found.ok_or(io::ErrorKind::InvalidInput)?);
            Ok(())
        }

        fn read_touched(&self, address: u64, size: usize) -> io::Result<Vec<u8>> {
            self.read_vec(address, size)
        }

        fn resident_bytes(&self, _: u64, _: u64, _: bool) -> io::Result<u64> {
            Ok(0)
        }

        fn page_size(&self) -> u64 {
            4096
        }
    }

    /// Of a table with one row.
    fn read(kind: u8, value: u64, source: u8, texts: &str, text: &[u8]) -> Result<Vec<Setting>> {
        let mut bytes = vec![0; 256];
        bytes[TYPE] = kind;
        bytes[32..40].copy_from_slice(&value.to_ne_bytes());
        bytes[40] = source;
        bytes[64..64 + texts.len()].copy_from_slice(texts.as_bytes());
        bytes[128..128 + text.len()].copy_from_slice(text);
        let (values, sources, texts) = (START + 32, START + 40, START + 64);
        let rows = START;
        let places = OptionPlaces { count: 1, row_size: 24, rows, texts, values, sources };
        settings(&places, &Bytes(bytes))
    }

    #[test]
    fn values_are_what_their_type_makes_of_them() {
        let shown = |kind, value, source, names: &str| {
            let setting =
                read(kind, value, source, names, b"/a\n\x1b[1mb\xff\0c").unwrap().remove(0);
            (setting.value, setting.unit, setting.source)
        };
        let unit = |name: &str| Some(name.to_owned());
        let number = |number| Value::Number(number);
        let word = |word: &str| Value::Word(word.to_owned());
        assert_eq!(shown(1, 9, 5, NAMES), (number(9), unit("bytes"), unit("mallopt")));
        assert_eq!(shown(2, AUTO, 4, NAMES), (word("auto"), unit("bytes"), unit("PRIMALLOC_TOP")));
        assert_eq!(shown(0x13, 9, 0, "check\0\0"), (number(9), unit("ms"), unit("mcheck")));
        assert_eq!(shown(4, 1, 99, "thp\0auto|never\0"), (word("never"), None, None));
        assert_eq!(shown(4, 2, 1, "thp\0auto|never\0"), (number(2), None, None));
        let text = word("/a\u{fffd}\u{fffd}[1mb\u{fffd}");
        assert_eq!(shown(5, START + 128, 0, NAMES), (text, None, None));
        assert_eq!(read(1, 0, 5, "\x1b", b"").unwrap(), vec![]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (kind, value, texts) in [
            (6, 1, NAMES),
            (1, 1, "\0bytes"),
            (1, 1, "\x1b[1m\0bytes"),
            (1, 1, "top\0by\ntes"),
            (1, 1, "töp\0bytes"),
            (5, 1, NAMES),
            (5, u64::MAX, NAMES),
            (5, START + 256, NAMES),
        ] {
            assert!(read(kind, value, 0, texts, b"").is_err(), "{kind} {value} {texts:?}");
        }
        let nowhere = || OptionPlaces { row_size: 24, count: 1, ..OptionPlaces::default() };
        for places in [
            nowhere(),
            OptionPlaces { rows: u64::MAX, ..nowhere() },
            OptionPlaces { count: 257, ..nowhere() },
            OptionPlaces { row_size: 32, ..nowhere() },
        ] {
            assert!(settings(&places, &Bytes(Vec::new())).is_err(), "{places:?}");
        }
    }

    #[test]
    fn endless_texts_end() {
        let bytes = vec![b'x'; 1 << 20];
        assert_eq!(text_at(START + 5, &Bytes(bytes)).unwrap().len(), TEXT_SIZE);
    }

    #[test]
    fn glibcs_variables_are_those_of_the_library() {
        let joined = KNOBS.replace("\n     ", " ");
        let knobs =
            joined.lines().filter_map(|line| line.strip_prefix("KNOB(")).filter_map(|line| {
                let fields: Vec<&str> = line.split(", ").collect();
                let variable = fields[1].trim_matches('"');
                let acts = !variable.is_empty() && fields[7] != "NOTHING";
                acts.then_some((fields[8], variable))
            });
        assert_eq!(knobs.collect::<Vec<_>>(), GLIBC_VARIABLES);
    }
}
