//! What memory was used for over time, in a bounded number of moments.

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use crate::explain::{Explanation, Part, Use};

/// When there are more, each second one goes, and the others have twice the distance. Even, so that
/// the newest stays.
const MOMENTS_MAX: usize = 240;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    pub seconds: f64,
    pub resident_bytes: u64,
    pub threads: u64,
    pub parts: Vec<Part>,
}

pub struct Moments {
    pub interval: Duration,
    pub all: Vec<Moment>,
}

impl Moments {
    pub fn new(interval: Duration) -> Moments {
        Moments { interval, all: Vec::new() }
    }

    pub fn push(&mut self, at: Duration, seen: &Explanation) {
        self.all.push(Moment {
            seconds: at.as_secs_f64(),
            resident_bytes: seen.resident_bytes,
            threads: seen.threads,
            parts: seen.parts.clone(),
        });
        if self.all.len() > MOMENTS_MAX {
            self.all = self.all.iter().step_by(2).cloned().collect();
            // Looks that take long are farther apart than was asked for.
            let distance = at / (self.all.len() - 1) as u32;
            self.interval = (self.interval * 2).max(distance);
        }
    }

    /// All that memory was used for at any of them, in the order in which it is shown.
    pub fn uses(&self) -> Vec<Use> {
        let parts = self.all.iter().flat_map(|moment| &moment.parts);
        let mut uses: Vec<Use> = parts.map(|part| part.used_for).collect();
        uses.sort();
        uses.dedup();
        uses
    }

    /// Which moments lie in each of so many equal parts of the time. Each stands for the time
    /// around it, so that evenly distant ones are evenly many.
    pub fn parts_of_time(&self, count: usize) -> Vec<Range<usize>> {
        let last = self.all.len() - 1;
        let time = self.all[last].seconds;
        let around = time / last.max(1) as f64 / 2.0;
        let bound = |part: usize| {
            let seconds = (time + 2.0 * around) * part as f64 / count as f64 - around;
            self.all.partition_point(|moment| moment.seconds < seconds)
        };
        let part = |part| match part + 1 == count {
            true => bound(part)..self.all.len(),
            false => bound(part)..bound(part + 1),
        };
        (0..count).map(part).collect()
    }

    pub fn resident(&self) -> Vec<u64> {
        self.all.iter().map(|moment| moment.resident_bytes).collect()
    }

    pub fn bytes(&self, used_for: Use) -> Vec<u64> {
        let of_part = |part: &&Part| part.used_for == used_for;
        let bytes = |moment: &Moment| moment.parts.iter().find(of_part).map(|p| p.resident_bytes);
        self.all.iter().map(|moment| bytes(moment).unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::sample::explanation;

    #[test]
    fn however_long_it_takes_they_are_not_more() {
        let mut moments = Moments::new(Duration::from_secs(1));
        for second in 0..10_000 {
            if second % moments.interval.as_secs() != 0 {
                continue;
            }
            moments.push(Duration::from_secs(second), &explanation(&[(Use::Blocks, second, None)]));
            assert!(moments.all.len() <= MOMENTS_MAX);
            assert_eq!(moments.all[0].seconds, 0.0);
            assert_eq!(moments.bytes(Use::Blocks).last(), Some(&(second << 20)));
        }
        assert!(moments.interval > Duration::from_secs(10_000 / MOMENTS_MAX as u64));
    }

    #[test]
    fn looks_that_take_long_are_evenly_distant_too() {
        let mut moments = Moments::new(Duration::from_millis(50));
        let mut at = Duration::ZERO;
        for _ in 0..1000 {
            moments.push(at, &explanation(&[(Use::Blocks, 1, None)]));
            at += moments.interval.max(Duration::from_secs(2));
        }
        let distance = |pair: &[Moment]| pair[1].seconds - pair[0].seconds;
        let distances: Vec<f64> = moments.all.windows(2).map(distance).collect();
        assert!(distances.iter().all(|found| *found == distances[0]), "{distances:?}");
        assert!(distances[0] > 2.0);
    }

    #[test]
    fn moments_lie_in_parts_of_the_time() {
        let of = |seconds: &[u64], count| {
            let mut moments = Moments::new(Duration::from_secs(1));
            for second in seconds {
                moments.push(Duration::from_secs(*second), &explanation(&[]));
            }
            moments.parts_of_time(count)
        };
        for count in 8..40 {
            let even: Vec<u64> = (0..count).collect();
            assert!(of(&even, 8).iter().all(|part| !part.is_empty()), "{count}");
        }
        assert_eq!(of(&[0, 1, 2, 3], 2), [0..2, 2..4]);
        assert_eq!(of(&[0, 1, 2, 3, 12], 3), [0..4, 4..4, 4..5]);
        assert_eq!(of(&[0], 8)[7], 0..1);
    }

    #[test]
    fn what_is_not_there_yet_holds_nothing() {
        let mut moments = Moments::new(Duration::from_secs(1));
        moments.push(Duration::ZERO, &explanation(&[(Use::Files, 1, None)]));
        moments
            .push(Duration::ZERO, &explanation(&[(Use::Blocks, 2, None), (Use::Files, 1, None)]));
        assert_eq!(moments.uses(), [Use::Blocks, Use::Files]);
        assert_eq!(moments.bytes(Use::Blocks), [0, 2 << 20]);
        assert_eq!(moments.resident(), [1 << 20, 3 << 20]);
    }
}
