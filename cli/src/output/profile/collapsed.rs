//! Stacks as lines: functions from the outermost inward, and bytes.

use std::collections::BTreeMap;

use super::page::together;
use crate::output::printable;
use crate::profile::{Function, Series, Stacks};

pub fn collapsed(stacks: &Stacks, series: &Series) -> String {
    lines(stacks, series).map(|(stack, bytes)| format!("{stack} {bytes}\n")).collect()
}

/// Both sides of a change: the earlier bytes and the later ones, as tools for differential flame
/// graphs read them.
pub fn changes_collapsed(before: (&Stacks, &Series), after: (&Stacks, &Series)) -> String {
    let (functions, lines) = together([before, after]);
    let names = names(&functions);
    let changed = lines.iter().filter(|line| line.before != 0 || line.bytes != 0);
    changed
        .map(|line| format!("{} {} {}\n", joined(&line.stack, &names), line.before, line.bytes))
        .collect()
}

/// One of the values of each stack of functions, from the outermost inward.
pub fn by_function(stacks: &Stacks, value: usize) -> BTreeMap<Vec<u32>, i64> {
    let mut sums: BTreeMap<Vec<u32>, i64> = BTreeMap::new();
    for sample in stacks.profile.samples() {
        let mut functions: Vec<u32> = stacks.functions_of(sample.stack).collect();
        functions.reverse();
        let sum = sums.entry(functions).or_default();
        *sum = sum.saturating_add(sample.values[value]);
    }
    sums
}

/// Stacks that are the same by their functions' names are one.
fn lines(stacks: &Stacks, series: &Series) -> impl Iterator<Item = (String, i64)> {
    let names = names(&stacks.functions);
    let sums = by_function(stacks, series.bytes).into_iter();
    sums.filter(|(_, bytes)| *bytes != 0)
        .map(move |(functions, bytes)| (joined(&functions, &names), bytes))
}

/// What separates frames must not be in their names, nor what commands a terminal.
fn names(functions: &[Function]) -> Vec<String> {
    functions.iter().map(|f| printable(&f.short_name.replace(';', ":"))).collect()
}

fn joined(stack: &[u32], names: &[String]) -> String {
    let stack: Vec<&str> = stack.iter().map(|&f| names[f as usize].as_str()).collect();
    if stack.is_empty() { "(unknown)".to_owned() } else { stack.join(";") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{sample, series};

    #[test]
    fn a_line_for_each_stack() {
        let profile = sample::service();
        let text = collapsed(&Stacks::new(&profile), &series(&profile)[0]);
        assert!(text.contains("main;handle;Cache::put;xmalloc 12582912\n"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn names_stay_in_their_frame() {
        let mut profile = sample::service();
        profile.locations[0].frames[0].function = "a;b\nc\r\x1b[2J".into();
        let text = collapsed(&Stacks::new(&profile), &series(&profile)[0]);
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("\na:b\u{fffd}c\u{fffd}\u{fffd}[2J;handle;"), "{text}");
    }

    #[test]
    fn changes_have_both_sides() {
        let (before, after) = (sample::service(), sample::service_later());
        let stacks = (Stacks::new(&before), Stacks::new(&after));
        let live = (&series(&before)[0], &series(&after)[0]);
        let text = changes_collapsed((&stacks.0, live.0), (&stacks.1, live.1));
        assert!(text.contains("main;handle;Cache::put;xmalloc 12582912 20971520\n"), "{text}");
        assert!(text.contains("main;handle;log_line 0 4096\n"), "{text}");
    }
}
