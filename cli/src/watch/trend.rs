//! What became of each part of the memory, and whether it still grows.

use std::ops::Range;

use serde::Serialize;

use super::Watched;
use crate::explain::{SizeRow, Use};

/// Of fewer moments nobody can tell what goes on.
const MOMENTS_MIN: usize = 8;
const QUARTERS: usize = 4;
/// Of a whole rise, the least part that each quarter adds to the one before in what still grows,
/// and that the second half of each adds to its first.
const QUARTER_STEP_MIN: f64 = 0.1;
const HALF_STEP_MIN: f64 = 0.05;
/// What changes less has not changed.
const CHANGE_MIN_BYTES: i64 = 256 << 10;
const CHANGE_MIN_SHARE: f64 = 0.01;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// Nothing: of all together.
    #[serde(rename = "use")]
    pub used_for: Option<Use>,
    pub first_bytes: u64,
    pub last_bytes: u64,
    pub change_bytes: i64,
    /// It has grown, and by more than others that are as large change by themselves.
    pub has_grown: bool,
    /// It has grown in every quarter of the time.
    pub still_grows: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeTrend {
    pub block_bytes: u64,
    pub first_blocks: u64,
    pub last_blocks: u64,
    pub change_bytes: i64,
}

impl Watched {
    pub fn whole(&self) -> Trend {
        self.trend(None, &self.moments.resident())
    }

    pub fn trends(&self) -> Vec<Trend> {
        let of_use = |used_for| self.trend(Some(used_for), &self.moments.bytes(used_for));
        self.moments.uses().into_iter().map(of_use).collect()
    }

    fn trend(&self, used_for: Option<Use>, values: &[u64]) -> Trend {
        let first_bytes = values.first().copied().unwrap_or(0);
        let last_bytes = values.last().copied().unwrap_or(0);
        let change_bytes = last_bytes as i64 - first_bytes as i64;
        let has_grown = change_bytes >= self.change_min();
        let still_grows = has_grown && self.grows_throughout(values);
        Trend { used_for, first_bytes, last_bytes, change_bytes, has_grown, still_grows }
    }

    /// Whether it was seen often enough, and in each quarter of the time.
    pub fn is_seen_throughout(&self) -> bool {
        let quarters = self.moments.parts_of_time(QUARTERS);
        self.moments.all.len() >= MOMENTS_MIN && quarters.iter().all(|part| !part.is_empty())
    }

    /// A program that warms up grows as well, but comes to rest; and one may rest first. So each
    /// quarter of the time counts, and both its halves, for a part of one is enough to raise it.
    fn grows_throughout(&self, values: &[u64]) -> bool {
        if !self.is_seen_throughout() {
            return false;
        }
        let eighths = self.moments.parts_of_time(2 * QUARTERS);
        let whole = |pair: &[Range<usize>]| median(&values[pair[0].start..pair[1].end]);
        let quarters: Vec<f64> = eighths.chunks(2).map(whole).collect();
        let rise = quarters[quarters.len() - 1] - quarters[0];
        // Of a half that nobody has seen the level of the quarter tells.
        let half = |part: &Range<usize>| median(&values[part.clone()]);
        let has_risen = |first: &Range<usize>, second: &Range<usize>| {
            let is_seen = !first.is_empty() && !second.is_empty();
            !is_seen || half(second) - half(first) >= HALF_STEP_MIN * rise
        };
        rise > 0.0
            && quarters.windows(2).all(|pair| pair[1] - pair[0] >= QUARTER_STEP_MIN * rise)
            && eighths.chunks(2).all(|pair| has_risen(&pair[0], &pair[1]))
    }

    /// The least change that counts.
    pub fn change_min(&self) -> i64 {
        CHANGE_MIN_BYTES.max((self.first.resident_bytes as f64 * CHANGE_MIN_SHARE) as i64)
    }

    /// The sizes whose blocks in use have changed most come first; only what counts.
    pub fn sizes(&self) -> Vec<SizeTrend> {
        let mut sizes: Vec<u64> = Vec::new();
        sizes.extend(self.first.sizes.iter().chain(&self.last.sizes).map(|row| row.block_bytes));
        sizes.sort_unstable();
        sizes.dedup();
        let mut trends: Vec<SizeTrend> =
            sizes.into_iter().map(|block_bytes| self.size_trend(block_bytes)).collect();
        trends.retain(|trend| trend.change_bytes.abs() >= CHANGE_MIN_BYTES);
        trends.sort_by_key(|trend| std::cmp::Reverse(trend.change_bytes.abs()));
        trends
    }

    fn size_trend(&self, block_bytes: u64) -> SizeTrend {
        let row = |rows: &[SizeRow]| {
            let found = rows.iter().find(|row| row.block_bytes == block_bytes);
            found.map_or((0, 0), |row| (row.blocks, row.in_use_bytes as i64))
        };
        let (first_blocks, first_bytes) = row(&self.first.sizes);
        let (last_blocks, last_bytes) = row(&self.last.sizes);
        SizeTrend { block_bytes, first_blocks, last_blocks, change_bytes: last_bytes - first_bytes }
    }
}

fn median(values: &[u64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2] as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::watch::Moments;
    use crate::watch::sample::{at_rest, leaking};

    #[test]
    fn who_warms_up_comes_to_rest() {
        let found = leaking();
        let of = |used_for| {
            let trends = found.trends();
            trends.into_iter().find(|trend| trend.used_for == Some(used_for)).unwrap()
        };
        let blocks = of(Use::Blocks);
        assert!(blocks.has_grown && blocks.still_grows && blocks.change_bytes == 31 << 20);
        let pages = of(Use::FreePages);
        assert!(pages.has_grown && !pages.still_grows, "{pages:?}");
        let anonymous = of(Use::Anonymous);
        assert!(!anonymous.has_grown && !anonymous.still_grows);
        assert_eq!(found.whole().change_bytes, 47 << 20);
    }

    /// Of what holds so many bytes at each second.
    fn grows(values: impl IntoIterator<Item = u64>) -> bool {
        grows_at((0..).zip(values))
    }

    fn grows_at(looks: impl IntoIterator<Item = (u64, u64)>) -> bool {
        let mut found = at_rest();
        found.moments = Moments::new(Duration::from_secs(1));
        let (seconds, values): (Vec<u64>, Vec<u64>) = looks.into_iter().unzip();
        for second in seconds {
            found.moments.push(Duration::from_secs(second), &found.first);
        }
        found.grows_throughout(&values)
    }

    #[test]
    fn a_rise_has_to_go_on() {
        assert!(grows((0..40).map(|index| index * index % 7 + index * 10)));
        assert!(!grows((0..40).map(|index: u64| index.min(20))));
        assert!(!grows((0..40).map(|index| index % 10)), "waves");
        assert!(grows(1..=8) && !grows(1..=7));
        assert!(!grows([5; 40]));
    }

    #[test]
    fn what_rests_for_a_quarter_does_not_grow_throughout() {
        for start in [0, 25, 50, 75] {
            let rest = |second: u64| second.min(start) + second.saturating_sub(start + 25);
            assert!(!grows((0..=100).map(rest)), "from {start} on");
        }
        assert!(grows((0..=100).map(|second| second.min(95))));
        let warming_up = |second: u32| 1e6 * (1.0 - (f64::from(second) / -33.0).exp());
        assert!(!grows((0..=100).map(|second| warming_up(second) as u64)));
    }

    #[test]
    fn it_is_the_time_that_counts_not_the_looks() {
        // The more there is, the longer a look takes: most of them see the beginning.
        let seconds = (0..120).map(|look| (1.05_f64.powi(look) * 20.0) as u64 - 20);
        assert!(grows_at(seconds.map(|second| (second, second))));
        // Most see the end, in which alone it grows.
        let seconds = (0..10).map(|look| 100 * look).chain(901..1000);
        assert!(!grows_at(seconds.map(|second: u64| (second, second.max(800)))));
        // None has seen the third eighth of it; the second quarter.
        assert!(grows_at((0..25).chain(38..100).map(|second| (second, second))));
        assert!(!grows_at((0..25).chain(51..100).map(|second| (second, second))));
    }

    #[test]
    fn sizes_tell_what_blocks_grow() {
        let sizes = leaking().sizes();
        let grown = SizeTrend {
            block_bytes: 1024,
            first_blocks: 20_000,
            last_blocks: 20_000 + 31 * 1024,
            change_bytes: 31 << 20,
        };
        assert_eq!(sizes, [grown]);
        assert_eq!(at_rest().sizes(), []);
    }
}
