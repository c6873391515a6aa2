//! Who need not run on: after a few runs some candidates are so far behind that more would tell
//! nothing.

use super::Run;

/// So many runs of each come first.
pub const QUICK_RUNS: usize = 2;

/// Far behind is so much slower and larger, in every run, than another is in any.
const FAR_SLOWER: f64 = 1.25;
const FAR_LARGER: f64 = 1.1;

/// Which candidates another has left far behind in both time and memory. The first never is, as
/// all are compared with it; and one under which the program ends in another way, perhaps sooner,
/// neither leaves others behind nor is left.
pub fn far_behind(runs: &[Vec<Run>]) -> Vec<bool> {
    let ends_alike = |of: &[Run]| of.iter().all(|run| run.outcome == runs[0][0].outcome);
    let is_left_behind =
        |own: &[Run]| runs.iter().any(|other| ends_alike(other) && is_far_better(other, own));
    let is_far_behind =
        |(index, own): (usize, &Vec<Run>)| index > 0 && ends_alike(own) && is_left_behind(own);
    runs.iter().enumerate().map(is_far_behind).collect()
}

fn is_far_better(other: &[Run], own: &[Run]) -> bool {
    let is_apart = |value: fn(&Run) -> f64, factor: f64| {
        let highest = other.iter().map(value).fold(0.0, f64::max);
        let lowest = own.iter().map(value).fold(f64::INFINITY, f64::min);
        lowest >= factor * highest
    };
    is_apart(|run| run.wall_seconds, FAR_SLOWER)
        && is_apart(|run| run.peak_resident_bytes, FAR_LARGER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Outcome;

    fn runs(times: [f64; 2], peak: f64, outcome: Outcome) -> Vec<Run> {
        times.map(|wall| Run { outcome, ..Run::made_up(wall, peak, 0.0) }).into()
    }

    const WELL: Outcome = Outcome::Exited(0);

    #[test]
    fn far_behind_is_slower_and_larger_in_every_run() {
        let found = far_behind(&[
            runs([2.0, 2.1], 200.0, WELL), // the reference stays
            runs([1.0, 1.1], 100.0, WELL),
            runs([1.4, 1.5], 120.0, WELL),
            runs([1.3, 1.5], 120.0, WELL), // one run is not slow enough
            runs([1.4, 1.5], 105.0, WELL), // not large enough
            runs([1.4, 1.5], 90.0, WELL),
        ]);
        assert_eq!(found, [false, false, true, false, false, false]);
    }

    #[test]
    fn a_program_that_ends_early_leaves_nobody_behind() {
        let found = far_behind(&[
            runs([2.0, 2.1], 200.0, WELL),
            runs([0.1, 0.1], 10.0, Outcome::Killed(11)),
            runs([2.0, 2.1], 200.0, WELL),
        ]);
        assert_eq!(found, [false; 3]);
        let failing = Outcome::Exited(3);
        let found = far_behind(&[runs([2.0, 2.0], 2.0, failing), runs([1.0, 1.0], 1.0, failing)]);
        assert_eq!(found, [false; 2], "the reference is never left out");
    }
}
