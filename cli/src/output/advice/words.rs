//! The choice in sentences: the fastest, the smallest, what to take for both, how to set it.

use std::ffi::OsString;

use serde::Serialize;

use super::Advice;
use super::choice::{Obstacle, Pick};
use super::field::{Field, WORTH_CHANGING};
use crate::allocators::{PRIMALLOC, name_of_library};
use crate::environment::{self, LD_PRELOAD, Setting};
use crate::measure::{MEMORY, RUNS_FOR_SPREAD, RUNS_TO_TELL, Summary, TIME};
use crate::output::{Entry, Report, shell_word};

/// More than so many that are level with a candidate are only counted.
const NAMES_MAX: usize = 3;

/// Between a candidate and what to type for it.
pub const TO_RUN: &str = ", run: ";

/// A candidate and what to type for it.
#[derive(Serialize)]
pub struct Advised<'a> {
    name: &'a str,
    level_with: Vec<&'a str>,
    command: String,
}

impl Advice<'_> {
    pub fn sentences(&self) -> Vec<String> {
        let choice = &self.choice;
        if let Some(obstacle) = choice.obstacle {
            return vec![self.obstacle_text(obstacle)];
        }
        let field = Field::of(self.report);
        let reference = &self.report.reference().name;
        let (fastest, smallest) = match (&choice.fastest, &choice.smallest) {
            (None, None) => {
                let nothing = self.nothing_is("faster or smaller", &[&field.times, &field.peaks]);
                let keep = format!("{nothing}: keep {reference}.");
                return [keep].into_iter().chain(self.doubt()).collect();
            }
            (Some(fastest), Some(smallest)) if fastest.index == smallest.index => {
                let is_level = |index: &usize| smallest.level_with.contains(index);
                let index = fastest.index;
                let level_with = fastest.level_with.iter().copied().filter(is_level).collect();
                let one = Pick { index, level_with, is_confirmed: fastest.is_confirmed };
                let sentence = format!("The fastest and the smallest is {}.", self.described(&one));
                return vec![sentence, self.how_to_take(&one)];
            }
            both => both,
        };
        let best = |word: &str, found: &Option<Pick>, comparative: &str, of: &[Summary]| match found
        {
            Some(pick) => format!("The {word} is {}.", self.described(pick)),
            None => format!("{}.", self.nothing_is(comparative, &[of])),
        };
        let mut sentences = vec![
            best("fastest", fastest, "faster", &field.times),
            best("smallest", smallest, "smaller", &field.peaks),
        ];
        sentences.extend(self.doubt());
        let is_described =
            |pick: &Pick| [fastest, smallest].into_iter().flatten().any(|p| p.index == pick.index);
        let Some(pick) = &choice.both else {
            // What the one costs in the other is said of it.
            let picks = fastest.iter().chain(smallest);
            sentences.extend(picks.map(|pick| self.how_to_take(pick)));
            return sentences;
        };
        let text = match is_described(pick) {
            true => self.report.entries[pick.index].name.clone(),
            false => self.described(pick),
        };
        sentences.push(format!("For both, take {text}."));
        sentences.push(self.how_to_take(pick));
        sentences
    }

    /// What is none as far as it was seen, or too little to act on.
    fn nothing_is(&self, comparative: &str, figures: &[&[Summary]]) -> String {
        let field = Field::of(self.report);
        let reference = &self.report.reference().name;
        match figures.iter().any(|of| field.has_small_gain(of)) {
            true => format!(
                "Nothing is {comparative} than {reference} by {:.0} % or more",
                100.0 * WORTH_CHANGING
            ),
            false => format!("Nothing is {comparative} than {reference} beyond chance"),
        }
    }

    /// The table may look as if something were better than the sentences say. Of those that had
    /// further runs, these have told.
    fn doubt(&self) -> Option<String> {
        let (runs, field) = (self.report.runs, Field::of(self.report));
        let is_untold = |index: usize| self.again(index).is_none();
        let is_open = |pick: &Option<Pick>, of: &[Summary]| {
            pick.is_none() && field.looking_better(of).any(is_untold)
        };
        let is_any_open = is_open(&self.choice.fastest, &field.times)
            || is_open(&self.choice.smallest, &field.peaks);
        (runs < RUNS_FOR_SPREAD && is_any_open).then(|| {
            format!(
                "What looks better may be so: {runs} runs are few to tell it from chance, \
                 --runs {RUNS_FOR_SPREAD} tells more."
            )
        })
    }

    fn obstacle_text(&self, obstacle: Obstacle) -> String {
        let reference = &self.report.reference().name;
        match obstacle {
            Obstacle::OneCandidate => {
                format!("There is nothing to choose from: {reference} is the only candidate.")
            }
            Obstacle::FewRuns => {
                format!("Too few runs to advise anything: {RUNS_TO_TELL} at least are needed.")
            }
            Obstacle::ReferenceVaries => format!(
                "Nothing can be advised, for under {reference} the program does not always end \
                 the same way."
            ),
        }
    }

    /// The name, what is as good, and how it differs from the reference: in the further runs where
    /// it had some, for in the first it was ahead of the others by chance as well.
    fn described(&self, pick: &Pick) -> String {
        let Advised { name, level_with, .. } = self.advised(pick);
        let level_with = match level_with.len() {
            0 => String::new(),
            1..=NAMES_MAX => format!(" (level with {})", level_with.join(", ")),
            many => format!(" (level with {many} others)"),
        };
        let first = (self.report, &self.report.entries[pick.index]);
        let (report, entry) = self.again(pick.index).unwrap_or(first);
        let differences = report.differences(entry, [TIME, MEMORY]).join(", ");
        match differences.is_empty() {
            true => format!("{name}{level_with}"),
            false => {
                format!("{name}{level_with}: {differences} than {}", self.report.reference().name)
            }
        }
    }

    /// A candidate's further runs, with those of the reference beside them.
    fn again(&self, index: usize) -> Option<(&Report, &Entry)> {
        let name = &self.report.entries[index].name;
        self.finals.iter().find_map(|one| {
            let entry = one.entries.iter().find(|entry| entry.name == *name)?;
            Some((one, entry))
        })
    }

    fn how_to_take(&self, pick: &Pick) -> String {
        let Advised { name, command, .. } = self.advised(pick);
        format!("To take {name}{TO_RUN}{command}")
    }

    pub fn advised(&self, pick: &Pick) -> Advised<'_> {
        let entry = &self.report.entries[pick.index];
        let name = |index: &usize| self.report.entries[*index].name.as_str();
        Advised {
            name: &entry.name,
            level_with: pick.level_with.iter().map(name).collect(),
            command: self.command_line(entry),
        }
    }

    /// What the candidate ran with, as it could be typed in a shell.
    fn command_line(&self, entry: &Entry) -> String {
        let preloads = environment::preloads_with(entry.library.as_deref());
        let mut words = Vec::new();
        if preloads != environment::preloads() {
            words.push(assignment(LD_PRELOAD, preloads));
        }
        let is_other = |option: &&Setting| entry.settings.iter().all(|s| s.name() != option.name());
        let is_heeded = entry.library.as_ref().and_then(name_of_library) == Some(PRIMALLOC);
        let of_all = self.options.iter().filter(|_| is_heeded).filter(is_other);
        for setting in of_all.chain(&entry.settings) {
            words.push(assignment(&setting.variable_name(), setting.value().into()));
        }
        words.push(self.report.command.clone());
        words.join(" ")
    }
}

/// The shell takes a word for an assignment only if its name is not quoted.
fn assignment(name: &str, value: OsString) -> String {
    format!("{name}={}", shell_word(&value))
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    fn sentences(noise: f64, candidates: &[(&str, f64, f64)]) -> String {
        let report = sample::report_of(noise, candidates);
        Advice::on(&report, &[], &[]).sentences().join("\n")
    }

    #[test]
    fn three_that_differ_and_how_to_set_what_to_take() {
        let candidates = [
            ("glibc", 1.0, 1.0),
            ("primalloc", 0.9, 0.9),
            ("primalloc:thp=always", 0.7, 1.4),
            ("primalloc:purge_delay=0", 1.1, 0.5),
        ];
        insta::assert_snapshot!(sentences(0.01, &candidates), @r"
        The fastest is primalloc:thp=always: 30 % less time, 40 % more memory than glibc.
        The smallest is primalloc:purge_delay=0: 10 % more time, 50 % less memory than glibc.
        For both, take primalloc: 10 % less time, 10 % less memory than glibc.
        To take primalloc, run: LD_PRELOAD=/lib/libprimalloc.so sort -n 'big file'
        ");
    }

    #[test]
    fn one_that_is_best_in_both() {
        let candidates = [("glibc", 1.0, 1.0), ("glibc:A=2", 0.9, 0.9)];
        insta::assert_snapshot!(sentences(0.01, &candidates), @r"
        The fastest and the smallest is glibc:A=2: 10 % less time, 10 % less memory than glibc.
        To take glibc:A=2, run: A=2 sort -n 'big file'
        ");
    }

    #[test]
    fn what_is_better_in_one_alone() {
        let candidates = [("glibc", 1.0, 1.0), ("jemalloc", 1.0, 0.9), ("mimalloc", 1.001, 0.9)];
        insta::assert_snapshot!(sentences(0.01, &candidates), @r"
        Nothing is faster than glibc beyond chance.
        The smallest is jemalloc (level with mimalloc): 10 % less memory than glibc.
        For both, take jemalloc.
        To take jemalloc, run: LD_PRELOAD=/lib/libjemalloc.so sort -n 'big file'
        ");
        let candidates = [("glibc", 1.0, 1.0), ("jemalloc", 0.9, 1.1), ("mimalloc", 1.1, 0.9)];
        insta::assert_snapshot!(sentences(0.01, &candidates), @r"
        The fastest is jemalloc: 10 % less time, 10 % more memory than glibc.
        The smallest is mimalloc: 10 % more time, 10 % less memory than glibc.
        To take jemalloc, run: LD_PRELOAD=/lib/libjemalloc.so sort -n 'big file'
        To take mimalloc, run: LD_PRELOAD=/lib/libmimalloc.so sort -n 'big file'
        ");
    }

    #[test]
    fn what_the_finals_do_not_show_again_is_not_said() {
        let report = sample::report_of(0.01, &[("glibc", 1.0, 1.0), ("jemalloc", 0.9, 0.9)]);
        let finals = [sample::report_of(0.01, &[("glibc", 1.0, 1.0), ("jemalloc", 1.0, 0.9)])];
        insta::assert_snapshot!(Advice::on(&report, &finals, &[]).sentences().join("\n"), @r"
        Nothing is faster than glibc beyond chance.
        The smallest is jemalloc: 10 % less memory than glibc.
        For both, take jemalloc.
        To take jemalloc, run: LD_PRELOAD=/lib/libjemalloc.so sort -n 'big file'
        ");
    }

    #[test]
    fn what_is_said_is_what_the_finals_have_shown() {
        let report = sample::report_of(0.01, &[("glibc", 1.0, 1.0), ("jemalloc", 0.7, 1.0)]);
        let finals = [sample::report_of(0.01, &[("glibc", 2.0, 1.0), ("jemalloc", 1.8, 1.1)])];
        let advice = Advice::on(&report, &finals, &[]);
        insta::assert_snapshot!(advice.sentences()[0],
            @"The fastest is jemalloc: 10 % less time, 10 % more memory than glibc.");
    }

    #[test]
    fn what_the_table_seems_to_say_is_explained() {
        insta::assert_snapshot!(sentences(0.2, &[("glibc", 1.0, 1.0), ("other", 0.8, 1.0)]), @r"
        Nothing is faster or smaller than glibc beyond chance: keep glibc.
        What looks better may be so: 5 runs are few to tell it from chance, --runs 8 tells more.
        ");
        insta::assert_snapshot!(sentences(0.01, &[("glibc", 1.0, 1.0), ("other", 0.9, 0.98)]), @r"
        The fastest is other: 10 % less time, 2 % less memory than glibc.
        Nothing is smaller than glibc by 3 % or more.
        For both, take other.
        To take other, run: LD_PRELOAD=/lib/libother.so sort -n 'big file'
        ");
    }

    #[test]
    fn nothing_to_advise() {
        let candidates = [("glibc", 1.0, 1.0), ("primalloc", 0.95, 1.0), ("jemalloc", 1.3, 1.3)];
        insta::assert_snapshot!(sentences(0.1, &candidates),
            @"Nothing is faster or smaller than glibc beyond chance: keep glibc.");
        insta::assert_snapshot!(sentences(0.1, &candidates[..1]),
            @"There is nothing to choose from: glibc is the only candidate.");
        let mut report: Report = sample::report_of(0.1, &candidates);
        report.runs = 3;
        insta::assert_snapshot!(Advice::on(&report, &[], &[]).sentences().join("\n"),
            @"Too few runs to advise anything: 4 at least are needed.");
    }

    #[test]
    fn what_is_set_for_all_is_set_for_primalloc_only() {
        let candidates =
            [("glibc", 1.0, 1.0), ("glibc:A=b c", 0.9, 0.9), ("primalloc:thp=never", 0.9, 0.9)];
        let report = sample::report_of(0.01, &candidates);
        let options = ["thp=always", "purge=0"].map(|text| text.parse().unwrap());
        let advice = Advice::on(&report, &[], &options);
        let command = |index| advice.command_line(&report.entries[index]);
        assert_eq!(command(1), "A='b c' sort -n 'big file'");
        let ours = command(2);
        let (library, others) = ours.split_once(' ').unwrap();
        assert_eq!(library, "LD_PRELOAD=/lib/libprimalloc.so");
        assert_eq!(others, "PRIMALLOC_PURGE=0 PRIMALLOC_THP=never sort -n 'big file'");
    }
}
