//! What all formats show of a comparison.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use super::quantity::Scale;
use crate::allocators::Candidate;
use crate::child::Outcome;
use crate::environment::Setting;
use crate::measure::{METRICS, Metric, RUNS_TO_TELL, Run, Summary, can_tell, is_beyond_spread};

pub struct Report {
    pub command: String,
    pub host: Host,
    pub runs: usize,
    pub warmup: usize,
    /// The first entry is what the others are compared with.
    pub entries: Vec<Entry>,
}

pub struct Entry {
    /// As it was written, with the settings.
    pub name: String,
    pub allocator: String,
    pub settings: Vec<Setting>,
    pub library: Option<PathBuf>,
    pub version: Option<String>,
    /// In the order of METRICS.
    pub figures: Vec<Figures>,
    /// How often the program ended how.
    pub outcomes: Vec<(Outcome, usize)>,
    /// What the program said when it failed.
    pub messages: String,
}

/// One metric under one candidate.
pub struct Figures {
    pub values: Vec<f64>,
    pub summary: Summary,
}

/// One metric under all candidates.
pub struct Row<'a> {
    pub index: usize,
    pub metric: &'a Metric,
    pub scale: Scale,
    pub cells: Vec<Cell<'a>>,
}

pub struct Cell<'a> {
    pub summary: &'a Summary,
    pub ratio: Option<f64>,
    pub is_best: bool,
}

#[derive(Clone, Serialize)]
pub struct Host {
    pub processor: String,
    pub processors: usize,
    pub kernel: String,
    pub libc: String,
}

impl Entry {
    pub fn new(candidate: &Candidate, version: Option<String>, runs: &[Run]) -> Entry {
        let figures = METRICS.iter().map(|metric| {
            let values: Vec<f64> = runs.iter().map(metric.value).collect();
            Figures { summary: Summary::of(&values), values }
        });
        let failed = runs.iter().find(|run| !run.outcome.is_success());
        Entry {
            name: candidate.name.clone(),
            allocator: candidate.allocator.name.clone(),
            settings: candidate.settings.clone(),
            library: candidate.allocator.library.clone(),
            version,
            figures: figures.collect(),
            outcomes: count_outcomes(runs),
            messages: failed.map(|run| run.messages.clone()).unwrap_or_default(),
        }
    }

    /// The allocator with its version, where there is one, and the settings.
    pub fn title(&self) -> String {
        let settings = self.settings.iter().map(|setting| format!(" {setting}"));
        self.allocator_title() + &settings.collect::<String>()
    }

    pub fn allocator_title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.allocator),
            None => self.allocator.clone(),
        }
    }

    fn outcomes_text(&self) -> String {
        let counted = |&(outcome, count): &(Outcome, usize)| match count {
            1 => format!("{outcome} (once)"),
            _ => format!("{outcome} ({count} times)"),
        };
        match self.outcomes.as_slice() {
            [(outcome, _)] => outcome.to_string(),
            several => several.iter().map(counted).collect::<Vec<_>>().join(", "),
        }
    }
}

fn count_outcomes(runs: &[Run]) -> Vec<(Outcome, usize)> {
    let mut counts: Vec<(Outcome, usize)> = Vec::new();
    runs.iter().for_each(|run| add_outcome(&mut counts, run.outcome, 1));
    counts
}

fn add_outcome(counts: &mut Vec<(Outcome, usize)>, outcome: Outcome, more: usize) {
    match counts.iter_mut().find(|(present, _)| *present == outcome) {
        Some((_, count)) => *count += more,
        None => counts.push((outcome, more)),
    }
}

impl Report {
    pub fn reference(&self) -> &Entry {
        &self.entries[0]
    }

    /// How the figures came about, in half a sentence.
    pub fn caption(&self) -> String {
        let runs = match self.runs {
            1 => "one run".to_owned(),
            runs => format!("median of {runs} runs"),
        };
        let warmup = match self.warmup {
            0 => String::new(),
            1 => " after one to warm up".to_owned(),
            warmup => format!(" after {warmup} to warm up"),
        };
        format!("{runs}{warmup}, in turns")
    }

    /// The figures by metric: the rows of a table.
    pub fn rows<'a>(&'a self) -> impl Iterator<Item = Row<'a>> {
        METRICS.iter().enumerate().map(|(index, metric)| {
            let cell = |entry: &'a Entry| Cell {
                summary: &entry.figures[index].summary,
                ratio: self.ratio(entry, index),
                is_best: self.is_best(entry, index),
            };
            let cells: Vec<Cell<'a>> = self.entries.iter().map(cell).collect();
            let medians = || cells.iter().map(|cell| cell.summary.median);
            let lowest = medians().filter(|&median| median > 0.0).fold(f64::INFINITY, f64::min);
            let highest = medians().fold(0.0, f64::max);
            let scale = Scale::for_range(metric.unit, lowest, highest);
            Row { index, metric, scale, cells }
        })
    }

    pub fn ratio(&self, entry: &Entry, metric: usize) -> Option<f64> {
        entry.figures[metric].summary.ratio_to(&self.reference().figures[metric].summary)
    }

    /// Whether nobody needs less of it; where all need the same, nobody is best. Who does not do
    /// the same is none of them.
    pub fn is_best(&self, entry: &Entry, metric: usize) -> bool {
        let compared = || self.entries.iter().filter(|entry| self.ends_alike(entry));
        let summaries = || compared().map(|entry| &entry.figures[metric].summary);
        let lowest = summaries().min_by(|a, b| a.median.total_cmp(&b.median));
        let Some(lowest) = lowest else { return false };
        let is_level = |summary: &Summary| !is_beyond_spread(summary, lowest);
        self.ends_alike(entry)
            && is_level(&entry.figures[metric].summary)
            && !summaries().all(is_level)
    }

    /// One sentence for each allocator other than the first.
    pub fn conclusions(&self) -> Vec<String> {
        self.entries[1..].iter().map(|entry| self.conclusion(entry)).collect()
    }

    /// From the reference, in words: what of these metrics lies beyond the spread.
    pub fn differences(
        &self,
        entry: &Entry,
        metrics: impl IntoIterator<Item = usize>,
    ) -> Vec<String> {
        let difference = |index: usize| {
            let (ours, theirs) = (&entry.figures[index], &self.reference().figures[index]);
            let differs = is_beyond_spread(&ours.summary, &theirs.summary);
            let ratio = self.ratio(entry, index).filter(|_| differs)?;
            difference_text(&METRICS[index], ratio)
        };
        metrics.into_iter().filter_map(difference).collect()
    }

    fn conclusion(&self, entry: &Entry) -> String {
        let reference = self.reference();
        if !self.ends_alike(reference) || !self.ends_alike(entry) {
            return format!(
                "{}: nothing can be concluded, for the program did not always end the same way.",
                entry.name
            );
        }
        let differences = self.differences(entry, 0..METRICS.len());
        let is_told = |index: usize| {
            can_tell(&entry.figures[index].summary, &reference.figures[index].summary)
        };
        let concluded = |index: &usize| METRICS[*index].verdict.is_some();
        if !(0..METRICS.len()).filter(concluded).all(is_told) {
            return too_few_runs(&entry.name, &reference.name, &differences);
        }
        if differences.is_empty() {
            return format!(
                "{}: no difference from {} beyond the spread in time, memory or page faults.",
                entry.name, reference.name
            );
        }
        format!("{}: {} than {}.", entry.name, differences.join(", "), reference.name)
    }

    /// Whether the program ended the same way under every allocator.
    pub fn outcomes_agree(&self) -> bool {
        self.entries.iter().all(|entry| self.ends_alike(entry))
    }

    /// Whether it always ended under this one as under the reference at first.
    pub fn ends_alike(&self, entry: &Entry) -> bool {
        let expected = self.reference().outcomes[0].0;
        entry.outcomes.iter().all(|(outcome, _)| *outcome == expected)
    }

    /// Whether it had fewer runs than the others.
    pub fn is_left_out(&self, entry: &Entry) -> bool {
        entry.outcomes.iter().map(|(_, count)| count).sum::<usize>() < self.runs
    }

    /// Counts how the program ended in further runs.
    pub fn add_outcomes(&mut self, more: &Report) {
        for added in &more.entries {
            let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == added.name) else {
                continue;
            };
            for &(outcome, count) in &added.outcomes {
                add_outcome(&mut entry.outcomes, outcome, count);
            }
            if entry.messages.is_empty() {
                entry.messages.clone_from(&added.messages);
            }
        }
    }

    /// What to say of a program that did not end well, and the messages it left.
    pub fn failures(&self) -> Vec<String> {
        if self.outcomes_agree() {
            let outcome = self.reference().outcomes[0].0;
            return match outcome.is_success() {
                true => Vec::new(),
                false => vec![format!("The program failed in every run: {outcome}.")],
            };
        }
        let each: Vec<String> = self
            .entries
            .iter()
            .map(|entry| format!("{}: {}", entry.name, entry.outcomes_text()))
            .collect();
        vec![format!("The program did not always end the same way. {}.", each.join("; "))]
    }

    pub fn failure_messages(&self) -> Option<(&str, &str)> {
        let failed = self.entries.iter().find(|entry| !entry.messages.is_empty())?;
        Some((&failed.name, &failed.messages))
    }
}

/// What can be said all the same is what was the same in every run.
fn too_few_runs(name: &str, reference: &str, differences: &[String]) -> String {
    let why = format!("too few runs to tell, {RUNS_TO_TELL} at least are needed");
    match differences {
        [] => format!("{name}: no difference from {reference} can be stated: {why}."),
        exact => format!("{name}: {} than {reference}; of all else {why}.", exact.join(", ")),
    }
}

/// "18 % less memory", "40 % more page faults".
fn difference_text(metric: &Metric, ratio: f64) -> Option<String> {
    let verdict = metric.verdict.as_ref()?;
    let comparative = if ratio > 1.0 { "more" } else { verdict.less };
    // All of it is less by 100 only where nothing is left.
    let most = if ratio > 0.0 && ratio < 1.0 { 99.0 } else { f64::INFINITY };
    let percent = ((ratio - 1.0).abs() * 100.0).min(most);
    Some(format!("{percent:.0} % {comparative} {}", verdict.noun))
}

impl Host {
    pub fn of_this_machine() -> Host {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Host {
            processor: processor_model(&read("/proc/cpuinfo")),
            processors,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            libc: crate::allocators::glibc_version(),
        }
    }
}

fn processor_model(cpuinfo: &str) -> String {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::measure::{FAULTS, TIME};

    fn keep_runs(report: &mut Report, count: usize) {
        report.entries.iter_mut().for_each(|entry| sample::keep_runs(entry, count));
    }

    #[test]
    fn the_conclusion_names_what_differs() {
        let report = sample::report();
        insta::assert_snapshot!(report.conclusions().join("\n"), @r"
        primalloc: 20 % less time, 16 % less memory, 97 % fewer page faults than glibc.
        jemalloc: 129 % more memory, 78 % fewer page faults than glibc.
        ");
    }

    #[test]
    fn what_is_left_is_not_rounded_to_nothing() {
        let text = |ratio: f64| difference_text(&METRICS[FAULTS], ratio).unwrap();
        assert_eq!(text(0.003), "99 % fewer page faults");
        assert_eq!(text(0.0), "100 % fewer page faults");
        assert_eq!(text(31.0), "3000 % more page faults");
    }

    #[test]
    fn of_few_runs_only_what_is_exact_is_concluded() {
        let mut report = sample::report();
        keep_runs(&mut report, 3);
        assert_eq!(
            report.conclusions()[0],
            "primalloc: 16 % less memory, 97 % fewer page faults than glibc; of all else too few \
             runs to tell, 4 at least are needed."
        );
        keep_runs(&mut report, 1);
        assert_eq!(
            report.conclusions()[0],
            "primalloc: no difference from glibc can be stated: too few runs to tell, 4 at least \
             are needed."
        );
        assert!(!report.entries.iter().any(|entry| report.is_best(entry, 0)));
    }

    #[test]
    fn outcomes_that_differ_are_told() {
        let mut report = sample::report();
        assert!(report.outcomes_agree());
        assert!(report.failures().is_empty());
        report.entries[1].outcomes = vec![(Outcome::Exited(0), 4), (Outcome::Killed(11), 1)];
        assert!(!report.outcomes_agree());
        assert_eq!(
            report.failures(),
            ["The program did not always end the same way. glibc: exit status 0; \
              primalloc: exit status 0 (4 times), killed by SIGSEGV (once); \
              jemalloc: exit status 0."]
        );
        let conclusions = report.conclusions();
        assert!(conclusions[0].starts_with("primalloc: nothing can be concluded, for the program"));
        assert!(conclusions[1].starts_with("jemalloc: 129 % more memory"));
        assert!(!report.is_best(&report.entries[1], TIME), "though it was the fastest");
        report.entries[0].outcomes = report.entries[1].outcomes.clone();
        assert!(report.conclusions()[1].starts_with("jemalloc: nothing can be concluded"));
    }

    #[test]
    fn outcomes_of_further_runs_count() {
        let mut report = sample::report();
        let mut more = sample::report();
        more.entries.remove(1);
        more.entries[1].outcomes = vec![(Outcome::Exited(0), 4), (Outcome::Killed(11), 1)];
        report.add_outcomes(&more);
        assert_eq!(report.entries[0].outcomes, [(Outcome::Exited(0), 10)]);
        assert_eq!(report.entries[1].outcomes, [(Outcome::Exited(0), 5)]);
        let expected = [(Outcome::Exited(0), 9), (Outcome::Killed(11), 1)];
        assert_eq!(report.entries[2].outcomes, expected);
        assert!(!report.outcomes_agree());
    }

    #[test]
    fn what_is_level_with_the_lowest_is_best_too() {
        let report = sample::report();
        let best: Vec<bool> = report.entries.iter().map(|entry| report.is_best(entry, 0)).collect();
        assert_eq!(best, [false, true, false]);
        let major_faults = 5;
        assert!(!report.entries.iter().any(|entry| report.is_best(entry, major_faults)));
    }
}
