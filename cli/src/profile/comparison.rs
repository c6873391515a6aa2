//! Two profiles side by side: who holds more in the second, and who less.

use std::cmp::Reverse;

use super::common::Common;
use super::sites::{Row, Sites};
use super::stacks::{Function, Stacks};
use super::views::Series;

/// A function in both profiles; where it is in one only, the other has nothing of it.
#[derive(Clone, Debug)]
pub struct Change {
    pub function: Function,
    pub line: Option<String>,
    pub bytes: (i64, i64),
    /// Where both profiles count them; else one could not be held against the other.
    pub objects: Option<(i64, i64)>,
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
    pub objects: Option<(i64, i64)>,
}

impl Comparison {
    pub fn new(before: (&Stacks, &Series), after: (&Stacks, &Series)) -> Comparison {
        let sites = [before, after].map(|(stacks, series)| Sites::new(stacks, series));
        let counts_objects = before.1.objects.is_some() && after.1.objects.is_some();
        let common = Common::new(before.0, after.0);
        let nothing = |function: Function| Change {
            function,
            line: None,
            bytes: (0, 0),
            objects: counts_objects.then_some((0, 0)),
        };
        let mut changes: Vec<Change> = common.functions.into_iter().map(nothing).collect();
        for (side, series) in [before.1, after.1].into_iter().enumerate() {
            for row in &sites[side].rows {
                let number = common.numbers[side][row.function as usize];
                take(&mut changes[number as usize], row, series, side == 1);
            }
        }
        let is_changed =
            |c: &Change| c.growth() != 0 || c.objects.is_some_and(|objects| objects.0 != objects.1);
        changes.retain(is_changed);
        changes.sort_by_key(|change| {
            (Reverse(change.growth().abs()), Reverse(change.bytes.1), change.function.name.clone())
        });
        let totals =
            |before: usize, after: usize| (sites[0].totals[before], sites[1].totals[after]);
        Comparison {
            changes,
            bytes: totals(before.1.bytes, after.1.bytes),
            objects: before.1.objects.zip(after.1.objects).map(|(b, a)| totals(b, a)),
        }
    }
}

fn take(change: &mut Change, row: &Row, series: &Series, is_after: bool) {
    let side = |pair: &mut (i64, i64), value: usize| {
        *(if is_after { &mut pair.1 } else { &mut pair.0 }) = row.own[value];
    };
    side(&mut change.bytes, series.bytes);
    if let Some((pair, value)) = change.objects.as_mut().zip(series.objects) {
        side(pair, value);
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
