//! Two profiles side by side: who holds more in the second, and who less.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use super::sites::{Row, Sites};
use super::stacks::{Function, Stacks};
use super::views::Series;

/// A function in both profiles; where it is in one only, the other has nothing of it.
#[derive(Clone, Debug)]
pub struct Change {
    pub function: Function,
    pub line: Option<String>,
    pub bytes: (i64, i64),
    pub objects: (i64, i64),
}

impl Change {
    pub fn growth(&self) -> i64 {
        self.bytes.1 - self.bytes.0
    }
}

/// Values of the earlier and the later profile.
pub struct Comparison {
    pub changes: Vec<Change>,
    pub bytes: (i64, i64),
    pub objects: (i64, i64),
}

impl Comparison {
    pub fn new(before: (&Stacks, &Series), after: (&Stacks, &Series)) -> Comparison {
        let sites = [before, after].map(|(stacks, series)| Sites::new(stacks, series));
        let mut changes: HashMap<(Rc<str>, Rc<str>), Change> = HashMap::new();
        for (sites, ((stacks, series), is_after)) in
            sites.iter().zip([(before, false), (after, true)])
        {
            for row in &sites.rows {
                let function = &stacks.functions[row.function as usize];
                let key = (function.name.clone(), function.library.clone());
                let change = changes.entry(key).or_insert_with(|| nothing(function));
                take(change, row, series, is_after);
            }
        }
        let mut changes: Vec<Change> = changes
            .into_values()
            .filter(|c| c.growth() != 0 || c.objects.0 != c.objects.1)
            .collect();
        changes.sort_by_key(|change| {
            (Reverse(change.growth().abs()), Reverse(change.bytes.1), change.function.name.clone())
        });
        let total = |of: fn(&Series) -> Option<usize>| {
            let sum = |sites: &Sites, series| of(series).map_or(0, |value| sites.totals[value]);
            (sum(&sites[0], before.1), sum(&sites[1], after.1))
        };
        Comparison {
            changes,
            bytes: total(|series| Some(series.bytes)),
            objects: total(|series| series.objects),
        }
    }
}

fn nothing(function: &Function) -> Change {
    Change { function: function.clone(), line: None, bytes: (0, 0), objects: (0, 0) }
}

fn take(change: &mut Change, row: &Row, series: &Series, is_after: bool) {
    let objects = series.objects.map_or(0, |value| row.own[value]);
    let bytes = row.own[series.bytes];
    if is_after {
        (change.bytes.1, change.objects.1) = (bytes, objects);
    } else {
        (change.bytes.0, change.objects.0) = (bytes, objects);
    }
    // Of the later profile where it has one: that is the source that people look at.
    change.line = row.line.clone().or(change.line.take());
}

#[cfg(test)]
mod tests {
    use super::super::{sample, series};
    use super::*;

    #[test]
    fn what_is_in_one_profile_only_counts_from_nothing() {
        let (before, after) = (sample::service(), sample::service_later());
        let stacks = (Stacks::new(&before), Stacks::new(&after));
        let live = (series(&before).remove(0), series(&after).remove(0));
        let found = Comparison::new((&stacks.0, &live.0), (&stacks.1, &live.1));
        let grown: i64 = found.changes.iter().map(Change::growth).sum();
        assert_eq!(grown, found.bytes.1 - found.bytes.0);
        let first = &found.changes[0];
        assert_eq!((&*first.function.short_name, first.growth()), ("Cache::put", 8 << 20));
        let fresh = found.changes.iter().find(|c| &*c.function.short_name == "log_line").unwrap();
        assert_eq!(fresh.bytes, (0, 4096));
    }

    #[test]
    fn a_profile_does_not_differ_from_itself() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let live = &series(&profile)[0];
        assert!(Comparison::new((&stacks, live), (&stacks, live)).changes.is_empty());
    }
}
