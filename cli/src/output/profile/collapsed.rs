//! Stacks as lines: functions from the outermost inward, and bytes.

use std::collections::BTreeMap;

use crate::profile::{Series, Stacks};

pub fn collapsed(stacks: &Stacks, series: &Series) -> String {
    lines(stacks, series).map(|(stack, bytes)| format!("{stack} {bytes}\n")).collect()
}

/// Stacks that are the same by their functions' names are one.
pub fn lines(stacks: &Stacks, series: &Series) -> impl Iterator<Item = (String, i64)> {
    let mut sums: BTreeMap<Vec<u32>, i64> = BTreeMap::new();
    for sample in stacks.profile.samples() {
        let mut functions: Vec<u32> = stacks.functions_of(sample.stack).collect();
        functions.reverse();
        let sum = sums.entry(functions).or_default();
        *sum = sum.saturating_add(sample.values[series.bytes]);
    }
    // What separates frames must not be in their names.
    let names: Vec<String> = stacks
        .functions
        .iter()
        .map(|f| f.short_name.replace(';', ":").replace('\n', " "))
        .collect();
    sums.into_iter().filter(|(_, bytes)| *bytes != 0).map(move |(functions, bytes)| {
        let stack: Vec<&str> = functions.iter().map(|&f| names[f as usize].as_str()).collect();
        let stack = if stack.is_empty() { "(unknown)".to_owned() } else { stack.join(";") };
        (stack, bytes)
    })
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
}
