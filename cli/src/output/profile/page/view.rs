//! One view of a profile: who holds what is live, what was live at the peak, and so on.

use std::collections::BTreeMap;

use anyhow::Result;

use super::super::collapsed::by_function;
use super::super::words::{clipped, count, share, size};
use super::colours::Colours;
use super::flame::{Dress, Flame, Line, flame};
use super::treemap::{Treemap, treemap};
use crate::profile::{Profile, Row, Series, Sites, Stacks};

/// Rows of the table; the JSON has more.
const ROWS: usize = 60;
const PARTS: usize = 10;
const NAME_MAX: usize = 120;

pub struct ViewPart {
    pub label: String,
    pub explained: &'static str,
    pub bytes: String,
    pub objects: String,
    pub flames: Vec<Flame>,
    /// Whether colours tell how far it has changed, not which library it is of.
    pub is_change: bool,
    pub legend: Vec<(String, String)>,
    pub treemap: Option<Treemap>,
    pub has_objects: bool,
    pub rows: Vec<RowPart>,
    /// How many more there are.
    pub rest: usize,
    pub threads: Vec<Share>,
    pub tags: Vec<Share>,
}

pub struct RowPart {
    pub class: String,
    pub name: String,
    pub full_name: String,
    pub via: String,
    pub line: String,
    pub library: String,
    pub own: Figure,
    pub objects: Figure,
    pub with_callees: Figure,
    pub share: String,
    /// Percent of the largest row's.
    pub width: f64,
}

/// As it is shown, and as it is sorted.
pub struct Figure {
    pub text: String,
    pub value: i64,
}

pub struct Share {
    pub name: String,
    pub size: String,
    pub share: String,
    pub width: f64,
}

fn explained(key: &str) -> &'static str {
    match key {
        "inuse" => "held when the profile was written",
        "peak" => "held when most was in use",
        "alloc" => "ever allocated, freed or not",
        "growth" => "has come since the file before",
        "leaked" => "that nothing points to",
        "indirect" => "that only other lost blocks point to",
        "held" => "that mending these sites would free as well",
        _ => "as the profile tells it",
    }
}

/// What has grown since a file before says nothing if there was none; nor do only zeros.
pub fn says_something(profile: &Profile, series: &Series) -> bool {
    let is_first = profile.facts.event.as_ref().is_some_and(|(number, _)| *number == 0);
    let is_growth = series.key == "growth";
    let is_zero = || profile.samples().all(|sample| sample.values[series.bytes] == 0);
    match series.key.as_str() {
        "inuse" | "leaked" => true,
        _ => !(is_growth && is_first || is_zero()),
    }
}

/// Colours are those of the whole page.
pub fn view(stacks: &Stacks, series: &Series, colours: &Colours) -> Result<ViewPart> {
    let sites = Sites::new(stacks, series);
    let rows: Vec<&Row> = sites.rows.iter().filter(|row| row.own[series.bytes] != 0).collect();
    let whole = sites.totals[series.bytes];
    let largest = rows.first().map_or(0, |row| row.own[series.bytes].abs());
    let shown = rows.iter().take(ROWS);
    let is_change = series.key == "growth";
    let dress = if is_change { Dress::Change } else { Dress::Libraries(colours) };
    let drawn = flame(String::new(), &stacks.functions, &lines(stacks, series), &dress)?;
    Ok(ViewPart {
        label: series.label.clone(),
        explained: explained(&series.key),
        bytes: size(whole),
        objects: series.objects.map_or_else(String::new, |value| count(sites.totals[value])),
        flames: drawn.into_iter().collect(),
        is_change,
        legend: if is_change { Vec::new() } else { colours.legend() },
        treemap: treemap(stacks, &sites, series, colours),
        has_objects: series.objects.is_some(),
        rows: shown.map(|row| row_part(stacks, series, colours, row, whole, largest)).collect(),
        rest: rows.len().saturating_sub(ROWS),
        threads: shares(&sites.threads, series, whole),
        tags: shares(&sites.tags, series, whole),
    })
}

/// Where growth is asked for, frames are as wide as what is live, and coloured by what has come.
fn lines(stacks: &Stacks, series: &Series) -> Vec<Line> {
    let in_use = stacks.profile.value_index("inuse_space").filter(|_| series.key == "growth");
    let growth: BTreeMap<Vec<u32>, i64> = match in_use {
        Some(_) => by_function(stacks, series.bytes),
        None => BTreeMap::new(),
    };
    let line = |(stack, bytes): (Vec<u32>, i64)| {
        let before = growth.get(&stack).map_or(0, |growth| bytes.saturating_sub(*growth));
        Line { stack, before, bytes }
    };
    by_function(stacks, in_use.unwrap_or(series.bytes)).into_iter().map(line).collect()
}

fn row_part(
    stacks: &Stacks,
    series: &Series,
    colours: &Colours,
    row: &Row,
    whole: i64,
    largest: i64,
) -> RowPart {
    let function = &stacks.functions[row.function as usize];
    let own = row.own[series.bytes];
    let bytes = |value: i64| Figure { text: size(value), value };
    let objects = series.objects.map_or(0, |value| row.own[value]);
    RowPart {
        class: colours.class(&function.library),
        name: clipped(&function.short_name, NAME_MAX),
        full_name: clipped(&function.name, 4 * NAME_MAX),
        via: row.via.map_or_else(String::new, |via| {
            clipped(&stacks.functions[via as usize].short_name, NAME_MAX / 3)
        }),
        line: row.line.clone().unwrap_or_default(),
        library: function.library.to_string(),
        own: bytes(own),
        objects: Figure { text: count(objects), value: objects },
        with_callees: bytes(row.with_callees[series.bytes]),
        share: share(own, whole),
        width: part(own, largest),
    }
}

/// In percent.
pub fn part(value: i64, largest: i64) -> f64 {
    if largest == 0 { 0.0 } else { 100.0 * value.unsigned_abs() as f64 / largest as f64 }
}

/// Nothing where all is of one.
fn shares(parts: &[(String, Vec<i64>)], series: &Series, whole: i64) -> Vec<Share> {
    let share_of = |(name, values): &(String, Vec<i64>)| {
        let bytes = values[series.bytes];
        Share {
            name: if name.is_empty() { "(none)".to_owned() } else { name.clone() },
            size: size(bytes),
            share: share(bytes, whole),
            width: part(bytes, whole.abs()),
        }
    };
    let present: Vec<_> = parts.iter().filter(|(_, values)| values[series.bytes] != 0).collect();
    match present.len() {
        0 | 1 => Vec::new(),
        _ => present.into_iter().take(PARTS).map(share_of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{sample, series};

    #[test]
    fn growth_is_drawn_as_a_change_of_what_is_live() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let growth = series(&profile).into_iter().find(|series| series.key == "growth").unwrap();
        let colours = Colours::new(&stacks, &Sites::new(&stacks, &growth));
        let found = view(&stacks, &growth, &colours).unwrap();
        let all = &found.flames[0].frames[0];
        assert!(all.title.contains("23.0 MiB (100 %)"), "{}", all.title);
        assert!(all.title.contains("before 11.5 MiB, +11.5 MiB"), "{}", all.title);
    }

    #[test]
    fn the_first_file_has_no_growth() {
        let mut profile = sample::service();
        let all = series(&profile);
        let growth = all.iter().find(|series| series.key == "growth").unwrap();
        assert!(!says_something(&profile, growth));
        profile.facts.event = Some((3, "seconds".into()));
        assert!(says_something(&profile, growth));
        profile.retain(|_, _| false);
        assert!(!says_something(&profile, growth) && says_something(&profile, &all[0]));
    }
}
