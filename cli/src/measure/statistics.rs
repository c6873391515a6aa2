//! Median and spread, and when a difference between two allocators is one.

use serde::Serialize;

/// Fewer runs than this tell nothing of what varies: two groups of three lie apart by chance in one
/// of ten comparisons, two of four in one of 35.
pub const RUNS_TO_TELL: usize = 4;

/// Fewer runs than this have too poor a spread to judge by it: they have to lie apart altogether.
pub const RUNS_FOR_SPREAD: usize = 8;

/// From so many on the one is less in this part of all pairs of a run of each. The spread alone
/// does not tell of a program that runs in two ways: by chance six of ten runs are the one way here
/// and the other way there, and the medians are those of the ways. With the pairs two groups of
/// eight differ by chance about as often as two of four lie apart altogether, whatever their runs
/// look like.
const PAIRS_TO_TELL: f64 = 0.8;

/// A difference smaller than this part is none, however quiet the machine.
const SMALLEST_DIFFERENCE: f64 = 0.01;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub median: f64,
    /// The median absolute deviation: half of the runs are at most this far from the median.
    pub spread: f64,
    pub min: f64,
    pub max: f64,
    pub count: usize,
    #[serde(skip)]
    sorted: Vec<f64>,
}

impl Summary {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Summary {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = median_of_sorted(&sorted);
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        Summary {
            median: middle,
            spread: median_of_sorted(&deviations),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
            count: values.len(),
            sorted,
        }
    }

    /// The median in parts of another's; nothing is no part of nothing.
    pub fn ratio_to(&self, reference: &Summary) -> Option<f64> {
        (reference.median > 0.0).then(|| self.median / reference.median)
    }

    /// In what part of the pairs of a run of each this one is less.
    fn part_below(&self, other: &Summary) -> f64 {
        let above = |own: &f64| other.count - other.sorted.partition_point(|value| value <= own);
        let pairs: usize = self.sorted.iter().map(above).sum();
        pairs as f64 / (self.count as f64 * other.count as f64)
    }
}

fn median_of_sorted(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Whether there are runs enough to tell these two apart. What was the same in every run of each
/// needs no more than two.
pub fn can_tell(a: &Summary, b: &Summary) -> bool {
    let is_exact = |summary: &Summary| summary.count > 1 && summary.min == summary.max;
    a.count.min(b.count) >= RUNS_TO_TELL || (is_exact(a) && is_exact(b))
}

/// Whether the medians lie further apart than both spreads together, and most runs of the one below
/// most of the other. After a few runs only, no run of the one may lie among those of the other.
pub fn is_beyond_spread(a: &Summary, b: &Summary) -> bool {
    let (low, high) = if a.median < b.median { (a, b) } else { (b, a) };
    let difference = high.median - low.median;
    let has_enough_runs = a.count.min(b.count) >= RUNS_FOR_SPREAD;
    can_tell(a, b)
        && difference > a.spread + b.spread
        && difference >= SMALLEST_DIFFERENCE * high.median
        && low.part_below(high) >= if has_enough_runs { PAIRS_TO_TELL } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_odd_and_even_numbers_of_values() {
        let odd = Summary::of(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.spread, odd.min, odd.max), (2.0, 1.0, 1.0, 3.0));
        let even = Summary::of(&[4.0, 1.0, 2.0, 3.0]);
        assert_eq!((even.median, even.spread), (2.5, 1.0));
        assert_eq!(Summary::of(&[7.0]).spread, 0.0);
    }

    #[test]
    fn ratios_need_a_reference() {
        let some = Summary::of(&[3.0]);
        assert_eq!(some.ratio_to(&Summary::of(&[2.0])), Some(1.5));
        assert_eq!(some.ratio_to(&Summary::of(&[0.0])), None);
    }

    #[test]
    fn a_difference_must_exceed_the_spread() {
        let runs = |middle: f64| {
            let noise = [-2.0, -1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 2.0];
            Summary::of(&noise.map(|noise| middle + noise))
        };
        assert!(!is_beyond_spread(&runs(10.0), &runs(11.5)));
        assert!(
            is_beyond_spread(&runs(10.0), &runs(13.0)),
            "though some runs are among the other's"
        );
    }

    #[test]
    fn two_ways_to_run_are_no_difference() {
        let of_ways = |first: usize, all: usize| {
            let way = |run: usize| if run < first { 10.0 } else { 20.0 };
            Summary::of(&(0..all).map(way).collect::<Vec<_>>())
        };
        assert!(!is_beyond_spread(&of_ways(6, 10), &of_ways(4, 10)), "the spread of both is 0");
        assert!(!is_beyond_spread(&of_ways(5, 8), &of_ways(3, 8)));
        assert!(is_beyond_spread(&of_ways(9, 10), &of_ways(1, 10)));
    }

    #[test]
    fn a_few_runs_must_lie_apart_altogether() {
        let a = Summary::of(&[10.0, 10.1, 10.2, 14.0]);
        let b = Summary::of(&[12.0, 12.1, 12.1, 12.2]);
        assert!(!is_beyond_spread(&a, &b));
        assert!(is_beyond_spread(&Summary::of(&[10.0, 10.1, 10.2, 11.0]), &b));
    }

    #[test]
    fn very_few_runs_tell_only_what_is_exact() {
        let one = |value: f64| Summary::of(&[value]);
        assert!(!is_beyond_spread(&one(10.0), &one(20.0)), "one run has no spread at all");
        let varying = Summary::of(&[10.0, 10.1, 10.2]);
        assert!(!is_beyond_spread(&varying, &Summary::of(&[20.0, 20.1, 20.2])));
        assert!(!is_beyond_spread(&varying, &Summary::of(&[20.0; 3])));
        assert!(is_beyond_spread(&Summary::of(&[10.0; 2]), &Summary::of(&[20.0; 2])));
    }

    #[test]
    fn less_than_a_hundredth_is_no_difference() {
        assert!(!is_beyond_spread(&Summary::of(&[1000.0; 9]), &Summary::of(&[1001.0; 9])));
    }
}
