//! The table of who holds what: functions, stacks, libraries, threads and tags.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::model::Labels;
use super::stacks::Stacks;
use super::views::Series;

/// A function, and what it and those that it calls have asked for. Values are as in the profile.
#[derive(Clone, Debug)]
pub struct Row {
    pub function: u32,
    /// "file.c:12", of the line that asks for most.
    pub line: Option<String>,
    /// The wrapper through which it asks for most.
    pub via: Option<u32>,
    /// What it asked for itself.
    pub own: Vec<i64>,
    /// With what functions that it calls asked for.
    pub with_callees: Vec<i64>,
}

/// A stack, whatever thread and tag it ran under.
#[derive(Clone, Debug)]
pub struct StackRow {
    /// Number of a sample that has it.
    pub sample: usize,
    pub values: Vec<i64>,
}

pub struct Sites {
    pub rows: Vec<Row>,
    pub stacks: Vec<StackRow>,
    /// By name, each with its values.
    pub libraries: Vec<(String, Vec<i64>)>,
    pub threads: Vec<(String, Vec<i64>)>,
    pub tags: Vec<(String, Vec<i64>)>,
    pub totals: Vec<i64>,
}

#[derive(Default)]
struct Entry {
    own: Vec<i64>,
    with_callees: Vec<i64>,
    lines: HashMap<(u32, u32), i64>,
    vias: HashMap<Option<u32>, i64>,
}

impl Sites {
    /// Everything in order of `series`, most first.
    pub fn new(stacks: &Stacks, series: &Series) -> Sites {
        let profile = stacks.profile;
        let width = profile.value_types.len();
        let mut entries: Vec<Entry> = Vec::new();
        entries.resize_with(stacks.functions.len(), Entry::default);
        let mut seen = vec![usize::MAX; stacks.functions.len()];
        let mut by_stack: HashMap<&[u32], StackRow> = HashMap::new();
        let mut libraries: HashMap<String, Vec<i64>> = HashMap::new();
        let mut labels: HashMap<Labels, Vec<i64>> = HashMap::new();
        let mut totals = vec![0; width];
        for (number, sample) in profile.samples().enumerate() {
            let weight = sample.values[series.bytes].abs();
            add(&mut totals, sample.values);
            add_to(&mut labels, sample.labels, sample.values);
            let row = || StackRow { sample: number, values: vec![0; width] };
            add(&mut by_stack.entry(sample.stack).or_insert_with(row).values, sample.values);
            for function in stacks.functions_of(sample.stack) {
                if seen[function as usize] != number {
                    seen[function as usize] = number;
                    add(&mut entries[function as usize].with_callees, sample.values);
                }
            }
            let site = stacks.site(sample.stack);
            if let Some(site) = &site {
                let entry = &mut entries[site.function as usize];
                add(&mut entry.own, sample.values);
                *entry.lines.entry(site.place).or_default() += weight;
                *entry.vias.entry(site.via).or_default() += weight;
            }
            let library =
                site.map_or("", |site| &*stacks.functions[site.function as usize].library);
            match libraries.get_mut(library) {
                Some(values) => add(values, sample.values),
                None => drop(libraries.insert(library.to_owned(), sample.values.to_vec())),
            }
        }
        let name = |number: u32| profile.names[number as usize].to_string();
        let (mut threads, mut tags) = (HashMap::new(), HashMap::new());
        for (labels, values) in &labels {
            add_to(&mut threads, name(labels.thread), values);
            add_to(&mut tags, name(labels.tag), values);
        }
        let mut by_stack: Vec<StackRow> = by_stack.into_values().collect();
        by_stack.sort_by_key(|row| (Reverse(row.values[series.bytes].abs()), row.sample));
        Sites {
            rows: rows(stacks, entries, series),
            stacks: by_stack,
            libraries: sorted(libraries, series),
            threads: sorted(threads, series),
            tags: sorted(tags, series),
            totals,
        }
    }
}

fn rows(stacks: &Stacks, entries: Vec<Entry>, series: &Series) -> Vec<Row> {
    let width = stacks.profile.value_types.len();
    let mut rows: Vec<Row> = entries
        .into_iter()
        .zip(0..)
        .filter(|(entry, _)| !entry.with_callees.is_empty())
        .map(|(mut entry, function)| {
            entry.own.resize(width, 0);
            Row {
                function,
                line: heaviest(&entry.lines).and_then(|place| stacks.line(place)),
                via: heaviest(&entry.vias).flatten(),
                own: entry.own,
                with_callees: entry.with_callees,
            }
        })
        .collect();
    let weight = |values: &[i64]| Reverse(values[series.bytes].abs());
    rows.sort_by_cached_key(|row| {
        let function = &stacks.functions[row.function as usize];
        (
            weight(&row.own),
            weight(&row.with_callees),
            function.name.clone(),
            function.library.clone(),
        )
    });
    rows
}

fn heaviest<T: Copy + Ord>(weights: &HashMap<T, i64>) -> Option<T> {
    weights
        .iter()
        .max_by_key(|(value, weight)| (**weight, Reverse(**value)))
        .map(|(value, _)| *value)
}

fn sorted(values: HashMap<String, Vec<i64>>, series: &Series) -> Vec<(String, Vec<i64>)> {
    let mut sorted: Vec<(String, Vec<i64>)> = values.into_iter().collect();
    sorted.sort_by(|(a, x), (b, y)| {
        y[series.bytes].abs().cmp(&x[series.bytes].abs()).then_with(|| a.cmp(b))
    });
    sorted
}

fn add(sum: &mut Vec<i64>, values: &[i64]) {
    sum.resize(values.len(), 0);
    for (sum, value) in sum.iter_mut().zip(values) {
        // Estimates: at the end of the range, exactness is worth less than an answer.
        *sum = sum.saturating_add(*value);
    }
}

fn add_to<K: std::hash::Hash + Eq>(sums: &mut HashMap<K, Vec<i64>>, key: K, values: &[i64]) {
    add(sums.entry(key).or_default(), values);
}

#[cfg(test)]
mod tests {
    use super::super::{sample, series};
    use super::*;

    #[test]
    fn the_parts_make_the_whole() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let live = &series(&profile)[0];
        let sites = Sites::new(&stacks, live);
        let own: i64 = sites.rows.iter().map(|row| row.own[live.bytes]).sum();
        assert_eq!(own, sites.totals[live.bytes]);
        for parts in [&sites.libraries, &sites.threads, &sites.tags] {
            let sum: i64 = parts.iter().map(|(_, values)| values[live.bytes]).sum();
            assert_eq!(sum, own);
        }
        let by_stack: i64 = sites.stacks.iter().map(|row| row.values[live.bytes]).sum();
        assert_eq!(by_stack, own);
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let live = &series(&profile)[0];
        let sites = Sites::new(&stacks, live);
        let of = |name: &str| {
            let is_it = |row: &&Row| &*stacks.functions[row.function as usize].short_name == name;
            sites.rows.iter().find(is_it).unwrap()
        };
        assert_eq!(of("main").with_callees[live.bytes], sites.totals[live.bytes]);
        assert_eq!(of("parse").with_callees[live.bytes], of("parse").own[live.bytes]);
        assert_eq!(of("Cache::put").line.as_deref(), Some("cache.cc:42"));
        assert_eq!(of("main").own[live.bytes], 0);
    }
}
