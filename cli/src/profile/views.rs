//! Which of a sample's values is asked for.

use clap::ValueEnum;

use super::Profile;
use crate::output::printable;

/// What the reader wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// What is in use when the profile is written
    Live,
    /// What was in use when most was
    Peak,
    /// All that was ever allocated
    Total,
    /// What has come to be in use since the profile before
    Growth,
}

/// A pair of values of each sample, or the bytes alone where objects are not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What its values' names begin with.
    pub key: String,
    /// What people call it.
    pub label: String,
    pub bytes: usize,
    pub objects: Option<usize>,
}

impl View {
    pub fn key(self) -> &'static str {
        match self {
            View::Live => "inuse",
            View::Peak => "peak",
            View::Total => "alloc",
            View::Growth => "growth",
        }
    }

    /// What is worth seeing where nobody says: the peak, if all programs have ended and given back
    /// nearly all that they had. Else None: the profiles tell.
    pub fn usual(profiles: &[&Profile]) -> Option<View> {
        let has_given_back = |profile: &&Profile| {
            let total = |view: View| {
                let bytes = profile.value_index(&format!("{}_space", view.key()))?;
                Some(profile.total(bytes))
            };
            let is_last = profile.facts.event.as_ref().is_some_and(|(_, name)| name == "exit");
            let totals = total(View::Live).zip(total(View::Peak));
            is_last && totals.is_some_and(|(live, peak)| live < peak / GIVEN_BACK)
        };
        profiles.iter().all(has_given_back).then_some(View::Peak)
    }
}

/// What a program still has when it ends is no more than its buffers where it is less than this
/// part of the peak.
const GIVEN_BACK: i64 = 100;

/// All that the profile has of bytes, in the order in which people ask.
pub fn series(profile: &Profile) -> Vec<Series> {
    let mut found = Vec::new();
    for (bytes, value_type) in profile.value_types.iter().enumerate() {
        let name = value_type.name.as_str();
        if value_type.unit != "bytes" {
            continue;
        }
        let key = name.strip_suffix("_space").or(name.strip_suffix("_bytes")).unwrap_or(name);
        let twin = match name {
            "space" => "objects".to_owned(),
            _ => format!("{key}_objects"),
        };
        let objects = profile.value_index(&twin);
        found.push(Series { key: key.to_owned(), label: label(key), bytes, objects });
    }
    found.sort_by_key(|series| rank(&series.key));
    found
}

const KNOWN: [(&str, &str); 8] = [
    ("inuse", "live"),
    ("peak", "peak"),
    ("alloc", "total"),
    ("growth", "growth"),
    ("leaked", "leaked"),
    ("indirect", "indirect"),
    ("held", "held"),
    ("space", "memory"),
];

fn label(key: &str) -> String {
    let known = KNOWN.iter().find(|(known, _)| *known == key);
    known.map_or_else(|| printable(&key.replace('_', " ")), |(_, label)| (*label).to_owned())
}

fn rank(key: &str) -> usize {
    KNOWN.iter().position(|(known, _)| *known == key).unwrap_or(KNOWN.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::model::{Labels, ValueType};

    fn labels(types: &[(&str, &str)]) -> Vec<(String, bool)> {
        let value_type =
            |(name, unit): &(&str, &str)| ValueType { name: (*name).into(), unit: (*unit).into() };
        let profile = Profile::new(types.iter().map(value_type).collect());
        let found = series(&profile);
        found.into_iter().map(|series| (series.label, series.objects.is_some())).collect()
    }

    #[test]
    fn values_are_paired_and_named_as_people_say() {
        let ours = labels(&[
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ]);
        assert_eq!(ours, [("live".into(), true), ("total".into(), true)]);
        let tcmallocs = labels(&[("objects", "count"), ("space", "bytes")]);
        assert_eq!(tcmallocs, [("memory".into(), true)]);
        assert_eq!(labels(&[("samples", "count"), ("cpu", "nanoseconds")]), []);
        assert_eq!(labels(&[("mapped_bytes", "bytes")]), [("mapped".into(), false)]);
        assert_eq!(labels(&[("a\nb\x1b[1m_bytes", "bytes")]), [("a�b�[1m".into(), false)]);
    }

    #[test]
    fn of_who_has_given_all_back_the_peak_is_shown() {
        let holding = crate::profile::sample::service();
        let mut over = crate::profile::sample::service();
        over.retain(|_, _| false);
        over.push([0], [10, 1000, 1, 9, 10, 1000, 1, 9], Labels::default());
        assert_eq!(View::usual(&[&over]), Some(View::Peak));
        assert_eq!((View::usual(&[&holding]), View::usual(&[&over, &holding])), (None, None));
        over.facts.event = Some((3, "signal".into()));
        assert_eq!(View::usual(&[&over]), None);
    }

    #[test]
    fn the_names_are_those_of_the_table() {
        let table = include_str!("../../../src/watch/profile_format.def");
        for view in View::value_variants() {
            for value in ["objects", "space"] {
                assert!(table.contains(&format!("\nVIEW({}_{value}, ", view.key())));
            }
        }
        for key in ["leaked", "held", "indirect"] {
            assert!(table.contains(&format!("\nLEAK_VIEW({key}_space, \"bytes\")")));
        }
    }
}
