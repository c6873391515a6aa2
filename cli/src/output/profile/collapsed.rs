//! Stacks as lines: functions from the outermost inward, and bytes.

use std::collections::{BTreeMap, HashMap};

use super::page::together;
use crate::output::printable;
use crate::profile::{Function, Series, Stacks};

pub fn collapsed(stacks: &Stacks, series: &Series) -> String {
    let sums = by_function(stacks, series.bytes);
    let sums = sums.iter().map(|(stack, bytes)| (stack.as_slice(), [*bytes]));
    lines(&stacks.functions, sums)
}

/// Both sides of a change: the earlier bytes and the later ones, as tools for differential flame
/// graphs read them.
pub fn changes_collapsed(before: (&Stacks, &Series), after: (&Stacks, &Series)) -> String {
    let (functions, lines_of_both) = together([before, after]);
    let sums = lines_of_both.iter().map(|line| (line.stack.as_slice(), [line.before, line.bytes]));
    lines(&functions, sums)
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

/// Stacks that are the same by their functions' names are one, as those of overloaded functions.
fn lines<'a, const N: usize>(
    functions: &[Function],
    sums: impl Iterator<Item = (&'a [u32], [i64; N])>,
) -> String {
    let names = names(functions);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut lines: Vec<(String, [i64; N])> = Vec::new();
    for (stack, values) in sums {
        let stack = joined(stack, &names);
        let place = *places.entry(stack.clone()).or_insert(lines.len());
        match lines.get_mut(place) {
            None => lines.push((stack, values)),
            Some((_, sums)) => {
                sums.iter_mut().zip(values).for_each(|(sum, v)| *sum = sum.saturating_add(v));
            }
        }
    }
    let said = lines.iter().filter(|(_, values)| values.iter().any(|value| *value != 0));
    let line = |(stack, values): &(String, [i64; N])| {
        let values: String = values.iter().map(|value| format!(" {value}")).collect();
        format!("{stack}{values}\n")
    };
    said.map(line).collect()
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
    use crate::profile::{Labels, sample, series};

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
    fn no_stack_has_two_lines() {
        let [mut before, mut after] = [sample::service(), sample::service_later()];
        before.locations[7].frames[0].function = "handle(Reply const&)".into();
        before.push([3, 2, 7, 0], [1; 8], Labels::default());
        let later = after.locations.iter_mut().flat_map(|location| &mut location.frames);
        later.filter(|f| &*f.library == "service").for_each(|f| f.library = "service-2".into());
        let stacks = (Stacks::new(&before), Stacks::new(&after));
        let live = (&series(&before)[0], &series(&after)[0]);
        let text = collapsed(&stacks.0, live.0);
        assert!(text.contains("main;handle;Cache::put;xmalloc 12582913\n"), "{text}");
        let text = changes_collapsed((&stacks.0, live.0), (&stacks.1, live.1));
        assert!(text.contains("main;handle;Cache::put;xmalloc 12582913 20971520\n"), "{text}");
        assert_eq!(text.matches("main;handle;Cache::put;xmalloc ").count(), 1, "{text}");
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
