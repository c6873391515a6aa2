//! What became of each part of the memory, and whether it still grows.

use serde::Serialize;

use super::Watched;
use crate::explain::{SizeRow, Use};

/// Of fewer moments nobody can tell what goes on.
pub const MOMENTS_MIN: usize = 8;
const QUARTERS: usize = 4;
/// Of a whole rise, the least part that each quarter adds to the one before in what still grows.
const STEP_MIN: f64 = 0.1;
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
        let still_grows = has_grown && grows_to_the_end(values);
        Trend { used_for, first_bytes, last_bytes, change_bytes, has_grown, still_grows }
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

/// A program that warms up grows as well, but comes to rest: so each quarter counts.
fn grows_to_the_end(values: &[u64]) -> bool {
    if values.len() < MOMENTS_MIN {
        return false;
    }
    let bound = |quarter: usize| quarter * values.len() / QUARTERS;
    let medians: Vec<f64> = (0..QUARTERS)
        .map(|quarter| median(&values[bound(quarter)..bound(quarter + 1)]) as f64)
        .collect();
    let step = (medians[QUARTERS - 1] - medians[0]) * STEP_MIN;
    step > 0.0 && medians.windows(2).all(|pair| pair[1] - pair[0] >= step)
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_rise_has_to_go_on() {
        let steady: Vec<u64> = (0..40).map(|index| index * index % 7 + index * 10).collect();
        assert!(grows_to_the_end(&steady));
        let first_then_rest: Vec<u64> = (0..40).map(|index: u64| index.min(20)).collect();
        assert!(!grows_to_the_end(&first_then_rest));
        let waves: Vec<u64> = (0..40).map(|index| index % 10).collect();
        assert!(!grows_to_the_end(&waves));
        assert!(!grows_to_the_end(&[1, 2, 3, 4, 5, 6, 7]));
        assert!(!grows_to_the_end(&[5; 40]));
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
