//! Which candidate to take: what nothing beats, the fastest, the smallest, the best of both.
//!
//! A difference counts where it is beyond the spread, and nowhere else; and nothing is advised for
//! less than is worth a change. Of those that are level one without settings is taken before one
//! with: nobody should set what changes nothing. And where one is level in both, it is the same in
//! all sentences.

use std::collections::BTreeSet;

use super::field::Field;
use crate::measure::{RUNS_TO_TELL, Summary, is_beyond_spread};
use crate::output::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing else is better in time or memory and no worse in the other.
    Unbeaten,
    Beaten,
    /// It was far behind after the quick round, and did not run on.
    LeftOut,
    /// The program does not end under it as it does under the reference.
    Failed,
}

/// Why no candidate can be told from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    OneCandidate,
    FewRuns,
    ReferenceVaries,
}

/// Nothing is advised for what it does no better than the reference.
#[derive(Debug, PartialEq)]
pub struct Choice {
    pub standings: Vec<Standing>,
    pub obstacle: Option<Obstacle>,
    pub fastest: Option<Pick>,
    pub smallest: Option<Pick>,
    /// Better than the reference in time or memory, no worse in the other, and of those the one
    /// whose time times memory is least.
    pub both: Option<Pick>,
}

/// Candidates by their place in the report.
#[derive(Debug, PartialEq)]
pub struct Pick {
    pub index: usize,
    /// Those that do not differ from it beyond the spread.
    pub level_with: Vec<usize>,
    /// Whether runs have shown it that it was not picked by.
    pub is_confirmed: bool,
}

/// What is to be true of a candidate to be advised.
type Claim = fn(&Field, usize) -> bool;

impl Choice {
    /// The finals are apart from the report: the machine may have become slower or faster by then,
    /// which does not meet all candidates.
    pub fn from(report: &Report, finals: &[Report]) -> Choice {
        let obstacle = obstacle(report);
        let field = Field::of(report);
        let standings: Vec<Standing> = (0..report.entries.len())
            .map(|index| match field.standing_of(report, index) {
                Standing::Unbeaten if obstacle.is_some() => Standing::Beaten,
                standing => standing,
            })
            .collect();
        if obstacle.is_some() {
            return Choice { standings, obstacle, fastest: None, smallest: None, both: None };
        }
        let in_finals = |index: usize| {
            let name = &report.entries[index].name;
            finals.iter().find_map(|one| {
                let place = one.entries.iter().position(|entry| entry.name == *name)?;
                Some((Field::of(one), place))
            })
        };
        // What nothing beats, before what something does, and of these what has no settings.
        let rank = |index: usize| (standings[index], !report.entries[index].settings.is_empty());
        let pick = |goal: &[Summary], claim: Claim, liked: Option<usize>| {
            let is_so = |field: &Field, index| field.is_open[index] && claim(field, index);
            let holds = |index: &usize| {
                is_so(&field, *index)
                    && in_finals(*index).is_none_or(|(field, at)| is_so(&field, at))
            };
            let claimants: Vec<usize> = (1..standings.len()).filter(holds).collect();
            let liked_first = |index: usize| (liked != Some(index), rank(index));
            let index = best_of(goal, &claimants, liked_first)?;
            let is_level = |other: &usize| {
                let is_apart = is_beyond_spread(&goal[*other], &goal[index]);
                field.is_open[*other] && *other != index && !is_apart
            };
            Some(Pick {
                index,
                level_with: (1..standings.len()).filter(is_level).collect(),
                is_confirmed: in_finals(index).is_some(),
            })
        };
        let beats = |field: &Field, index| {
            field.beats(index, 0) && (field.saves_time(index) || field.saves_memory(index))
        };
        let both = pick(&field.products, beats, None);
        let liked = both.as_ref().map(|pick| pick.index);
        Choice {
            obstacle,
            fastest: pick(&field.times, Field::saves_time, liked),
            smallest: pick(&field.peaks, Field::saves_memory, liked),
            both,
            standings,
        }
    }

    /// Those who have still to show once more what they are picked for, with the reference: of many
    /// candidates one or the other is ahead by chance.
    pub fn finalists(&self) -> Vec<usize> {
        let picks = [&self.fastest, &self.smallest, &self.both].into_iter().flatten();
        let open: BTreeSet<usize> =
            picks.filter(|pick| !pick.is_confirmed).map(|pick| pick.index).collect();
        match open.is_empty() {
            true => Vec::new(),
            false => [0].into_iter().chain(open).collect(),
        }
    }
}

/// Of those that are level with the least, the first in rank.
fn best_of<Rank: Ord>(
    goal: &[Summary],
    claimants: &[usize],
    rank: impl Fn(usize) -> Rank,
) -> Option<usize> {
    let by_median = |a: &usize, b: &usize| goal[*a].median.total_cmp(&goal[*b].median);
    let least = claimants.iter().copied().min_by(by_median)?;
    let is_level = |index: &usize| !is_beyond_spread(&goal[*index], &goal[least]);
    let level = claimants.iter().copied().filter(is_level);
    level.min_by(|a, b| rank(*a).cmp(&rank(*b)).then(by_median(a, b)))
}

fn obstacle(report: &Report) -> Option<Obstacle> {
    if report.entries.len() == 1 {
        return Some(Obstacle::OneCandidate);
    }
    if report.runs < RUNS_TO_TELL {
        return Some(Obstacle::FewRuns);
    }
    (report.reference().outcomes.len() > 1).then_some(Obstacle::ReferenceVaries)
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;
    use crate::child::Outcome;

    /// Candidates by name, time and memory in parts of the reference; each run of the times is so
    /// far from the others as `noise` says.
    fn report(noise: f64, candidates: &[(&str, f64, f64)]) -> Report {
        sample::report_of(noise, candidates)
    }

    /// The names of the fastest, the smallest and the best of both.
    fn chosen<'a>(report: &'a Report, choice: &Choice) -> [Option<&'a str>; 3] {
        let picks = [&choice.fastest, &choice.smallest, &choice.both];
        picks.map(|pick| pick.as_ref().map(|pick| report.entries[pick.index].name.as_str()))
    }

    fn unbeaten<'a>(report: &'a Report, choice: &Choice) -> Vec<&'a str> {
        let is_so = |index: &usize| choice.standings[*index] == Standing::Unbeaten;
        let found = (0..report.entries.len()).filter(is_so);
        found.map(|index| report.entries[index].name.as_str()).collect()
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let report = report(
            0.01,
            &[
                ("glibc", 1.0, 1.0),
                ("fast", 0.7, 1.4),
                ("small", 1.2, 0.5),
                ("both", 0.85, 0.8),
                ("dominated", 0.95, 0.9),
                ("worst", 1.5, 1.6),
            ],
        );
        let choice = Choice::from(&report, &[]);
        assert_eq!(unbeaten(&report, &choice), ["fast", "small", "both"]);
        assert_eq!(chosen(&report, &choice), [Some("fast"), Some("small"), Some("both")]);
    }

    #[test]
    fn chance_is_no_advice() {
        let report =
            report(0.1, &[("glibc", 1.0, 1.0), ("primalloc", 0.95, 1.0), ("other", 0.9, 1.0)]);
        let choice = Choice::from(&report, &[]);
        assert_eq!(chosen(&report, &choice), [None; 3]);
        assert_eq!(unbeaten(&report, &choice).len(), 3);
    }

    #[test]
    fn of_those_that_are_level_the_simplest_is_taken() {
        let level = [("glibc", 1.0, 1.0), ("plain", 0.803, 0.9), ("plain:thp=never", 0.8, 0.9)];
        let level = report(0.02, &level);
        let choice = Choice::from(&level, &[]);
        assert_eq!(chosen(&level, &choice), [Some("plain"); 3]);
        assert_eq!(choice.fastest.unwrap().level_with, [2]);
        // Where one of them is better in something else, it is that one.
        let smaller = [("glibc", 1.0, 1.0), ("plain", 0.8, 0.9), ("plain:thp=never", 0.803, 0.7)];
        let smaller = report(0.02, &smaller);
        assert_eq!(chosen(&smaller, &Choice::from(&smaller, &[])), [Some("plain:thp=never"); 3]);
    }

    #[test]
    fn a_small_gain_is_no_reason_to_change() {
        let report = report(0.001, &[("glibc", 1.0, 1.0), ("a", 0.98, 0.98), ("b", 0.96, 0.98)]);
        let choice = Choice::from(&report, &[]);
        assert_eq!(chosen(&report, &choice), [Some("b"), None, Some("b")]);
    }

    #[test]
    fn the_same_is_named_where_it_is_level() {
        let of_two = |noise: f64| {
            let report =
                report(noise, &[("glibc", 1.0, 1.0), ("a", 0.99, 0.9), ("b", 0.92, 0.905)]);
            let choice = Choice::from(&report, &[]);
            chosen(&report, &choice).map(|name| name.map(str::to_owned))
        };
        assert_eq!(of_two(0.1), [None, Some("b".into()), Some("b".into())], "in memory, too");
    }

    #[test]
    fn what_costs_something_is_not_for_both() {
        let report = report(0.01, &[("glibc", 1.0, 1.0), ("fast", 0.9, 1.2), ("small", 1.1, 0.3)]);
        let choice = Choice::from(&report, &[]);
        assert_eq!(chosen(&report, &choice), [Some("fast"), Some("small"), None]);
        assert_eq!(unbeaten(&report, &choice), ["glibc", "fast", "small"]);
    }

    #[test]
    fn a_smaller_one_is_for_both_though_times_are_uncertain() {
        let report = report(0.2, &[("glibc", 1.0, 1.0), ("less", 0.99, 0.9), ("least", 1.0, 0.7)]);
        let choice = Choice::from(&report, &[]);
        assert_eq!(chosen(&report, &choice), [None, Some("least"), Some("least")]);
    }

    #[test]
    fn what_looks_faster_is_not_beaten_by_what_is_smaller() {
        let report = report(0.2, &[("glibc", 1.0, 1.0), ("quick", 0.8, 1.0), ("small", 1.0, 0.9)]);
        assert_eq!(unbeaten(&report, &Choice::from(&report, &[])), ["quick", "small"]);
    }

    #[test]
    fn the_reference_may_be_the_best() {
        let report = report(0.01, &[("glibc", 1.0, 1.0), ("primalloc", 1.1, 1.1)]);
        let choice = Choice::from(&report, &[]);
        assert_eq!(chosen(&report, &choice), [None; 3]);
        assert_eq!(unbeaten(&report, &choice), ["glibc"]);
    }

    #[test]
    fn who_fails_or_is_left_out_is_not_advised_and_beats_nobody() {
        let mut report = report(
            0.01,
            &[("glibc", 1.0, 1.0), ("crashing", 0.1, 0.1), ("out", 0.5, 0.5), ("good", 0.9, 1.0)],
        );
        report.entries[1].outcomes = vec![(Outcome::Exited(0), 4), (Outcome::Killed(11), 1)];
        sample::keep_runs(&mut report.entries[2], 2);
        let choice = Choice::from(&report, &[]);
        assert_eq!(choice.standings[1..3], [Standing::Failed, Standing::LeftOut]);
        assert_eq!(chosen(&report, &choice), [Some("good"), None, Some("good")]);
        assert_eq!(unbeaten(&report, &choice), ["good"]);
    }

    #[test]
    fn what_the_finals_do_not_confirm_is_not_advised() {
        let first = report(0.01, &[("glibc", 1.0, 1.0), ("ahead", 0.8, 1.0), ("next", 0.9, 1.0)]);
        let choice = |finals: &[(f64, f64)]| {
            let finals = finals.iter().map(|&(ahead, reference)| {
                // Slower or faster than at first, as the machine may be.
                report(0.01, &[("glibc", reference, 1.0), ("ahead", ahead, 1.0)])
            });
            Choice::from(&first, &finals.collect::<Vec<_>>())
        };
        assert_eq!(choice(&[]).finalists(), [0, 1]);

        let confirmed = choice(&[(1.6, 2.0)]);
        assert!(confirmed.finalists().is_empty());
        assert_eq!(chosen(&first, &confirmed), [Some("ahead"), None, Some("ahead")]);

        let refuted = choice(&[(1.0, 1.0)]);
        assert_eq!(refuted.finalists(), [0, 2], "now the next has to show it");
        assert_eq!(chosen(&first, &refuted), [Some("next"), None, Some("next")]);
    }

    #[test]
    fn without_grounds_there_is_no_choice() {
        let obstacle = |report: &Report| {
            let choice = Choice::from(report, &[]);
            assert_eq!(chosen(report, &choice), [None; 3]);
            assert!(unbeaten(report, &choice).is_empty());
            choice.obstacle
        };
        let alone = report(0.01, &[("glibc", 1.0, 1.0)]);
        assert_eq!(obstacle(&alone), Some(Obstacle::OneCandidate));
        let mut few = report(0.01, &[("glibc", 1.0, 1.0), ("other", 0.5, 0.5)]);
        few.entries.iter_mut().for_each(|entry| sample::keep_runs(entry, 3));
        few.runs = 3;
        assert_eq!(obstacle(&few), Some(Obstacle::FewRuns));
        let mut varying = report(0.01, &[("glibc", 1.0, 1.0), ("other", 0.5, 0.5)]);
        varying.entries[0].outcomes = vec![(Outcome::Exited(0), 4), (Outcome::Exited(1), 1)];
        assert_eq!(obstacle(&varying), Some(Obstacle::ReferenceVaries));
    }
}
