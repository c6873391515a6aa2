//! The candidates in order, as rows of a table: what nothing beats first, and of equals that whose
//! time times memory is least.

use owo_colors::OwoColorize;

use super::Advice;
use super::choice::Standing;
use super::field::Field;
use super::words::TO_RUN;
use crate::measure::{FAULTS, MEMORY, QUICK_RUNS, TIME};
use crate::output::markdown::{code, words};
use crate::output::quantity::{ratio_text, spread_text};
use crate::output::report::Row;
use crate::output::table::{failures, listing, width_of, without_beginning, wrapped_to};
use crate::output::{Entry, Report};

const MARK: &str = "*";
const LEGEND: &str = "* nothing else is better in time or memory and no worse in the other";

/// A candidate's figures by their place, and what stands above.
type Columns = &'static [(usize, &'static str)];

/// What is shown of them: less where the terminal is too narrow for more.
const COLUMNS: [Columns; 4] = [
    &[(0, "TIME"), (1, "RATIO"), (2, ""), (3, "MEMORY"), (4, "RATIO"), (5, ""), (6, "FAULTS")],
    &[(0, "TIME"), (1, "RATIO"), (2, ""), (3, "MEMORY"), (4, "RATIO"), (5, "")],
    &[(0, "TIME"), (1, "RATIO"), (3, "MEMORY"), (4, "RATIO")],
    &[(1, "TIME"), (4, "MEMORY")],
];

/// One candidate, as all formats show it.
pub struct Ranked<'a> {
    pub name: &'a str,
    pub is_unbeaten: bool,
    /// Median, ratio to the reference, and spread of time and of peak memory, and the faults.
    pub figures: Vec<String>,
}

impl Advice<'_> {
    pub fn ranking(&self) -> Vec<Ranked<'_>> {
        let rows: Vec<Row> = self.report.rows().collect();
        let products = Field::of(self.report).products;
        let standings = &self.choice.standings;
        let mut order: Vec<usize> = (0..products.len()).collect();
        order.sort_by(|a, b| {
            let by_product = products[*a].median.total_cmp(&products[*b].median);
            standings[*a].cmp(&standings[*b]).then(by_product)
        });
        let ranked = |index: usize| Ranked {
            name: &self.report.entries[index].name,
            is_unbeaten: standings[index] == Standing::Unbeaten,
            // The others' figures are of later runs as well.
            figures: figures(&rows, index, standings[index] != Standing::LeftOut),
        };
        order.into_iter().map(ranked).collect()
    }

    /// Whose figures these are, each allocator once.
    pub fn versions(&self) -> String {
        let mut titles: Vec<String> = Vec::new();
        for title in self.report.entries.iter().map(Entry::allocator_title) {
            if !titles.contains(&title) {
                titles.push(title);
            }
        }
        titles.join(", ")
    }

    /// What the marks mean, and who did not run on.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.choice.standings.contains(&Standing::Unbeaten) {
            remarks.push(LEGEND.to_owned());
        }
        let in_finals = |one: &Report, entry: &Entry| {
            let [time, memory] = [TIME, MEMORY].map(|metric| ratio_text(one.ratio(entry, metric)));
            format!("{} ({time} time, {memory} memory)", entry.name)
        };
        let finalists: Vec<String> = self
            .finals
            .iter()
            .flat_map(|one| one.entries[1..].iter().map(move |entry| in_finals(one, entry)))
            .collect();
        if !finalists.is_empty() {
            remarks.push(format!(
                "ran once more beside {}, to see whether it was chance: {}",
                self.report.reference().name,
                finalists.join(", ")
            ));
        }
        let left_out = self.names(Standing::LeftOut);
        if !left_out.is_empty() {
            remarks.push(format!(
                "left out after {QUICK_RUNS} runs, far behind in time and memory: {}",
                left_out.join(", ")
            ));
        }
        remarks
    }
}

fn figures(rows: &[Row], index: usize, is_comparable: bool) -> Vec<String> {
    let compared = [TIME, MEMORY].into_iter().flat_map(|metric| {
        let (row, cell) = (&rows[metric], &rows[metric].cells[index]);
        let spread = spread_text(cell.summary);
        [
            row.scale.format(cell.summary.median),
            ratio_text(cell.ratio.filter(|_| is_comparable)),
            spread,
        ]
    });
    let faults = &rows[FAULTS];
    compared.chain([faults.scale.format(faults.cells[index].summary.median)]).collect()
}

/// For the terminal.
pub fn table(advice: &Advice, width: Option<usize>) -> String {
    let report = advice.report;
    let wrapped = |sentence: &str| wrapped_to(sentence, width);
    let caption = wrapped(&report.caption());
    let mut text = format!("{}\n{}\n", report.command.bold(), caption.dimmed());
    text += &format!("{}\n\n", wrapped(&advice.versions()).dimmed());
    text += &candidates(&advice.ranking(), width.unwrap_or(usize::MAX));
    for remark in advice.remarks() {
        text += &format!("{}\n", wrapped(&remark).dimmed());
    }
    text.push('\n');
    text += &failures(report);
    for sentence in advice.sentences() {
        // What is to be typed stays in one piece.
        let is_typed = sentence.contains(TO_RUN);
        text += &format!("{}\n", if is_typed { sentence } else { wrapped(&sentence) });
    }
    text
}

/// With as many columns as fit; where the last do not, names lose their beginnings.
fn candidates(ranking: &[Ranked], width: usize) -> String {
    let longest = ranking.iter().map(|ranked| ranked.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for columns in COLUMNS {
        text = listing_of(ranking, columns, longest);
        if width_of(&text) <= width {
            return text;
        }
    }
    let excess = width_of(&text) - width;
    listing_of(ranking, COLUMNS[COLUMNS.len() - 1], longest.saturating_sub(excess).max(1))
}

fn listing_of(ranking: &[Ranked], columns: Columns, name_width: usize) -> String {
    let header: Vec<&str> =
        ["", "CANDIDATE"].into_iter().chain(columns.iter().map(|c| c.1)).collect();
    let record = |ranked: &Ranked| {
        // The settings at its end tell more.
        let name = without_beginning(ranked.name, name_width);
        let (mark, name) = match ranked.is_unbeaten {
            true => (MARK, name.green().bold().to_string()),
            false => ("", name),
        };
        let figures = columns.iter().map(|(place, _)| ranked.figures[*place].clone());
        [mark.to_owned(), name].into_iter().chain(figures).collect()
    };
    let numbers: Vec<usize> = (2..header.len()).collect();
    listing(&header, &numbers, ranking.iter().map(record).collect())
}

pub fn markdown(advice: &Advice) -> String {
    let report = advice.report;
    let mut text =
        format!("{}: {}; {}\n\n", code(&report.command), report.caption(), advice.versions());
    text +=
        "| | candidate | time | ratio | spread | peak memory | ratio | spread | minor faults |\n";
    text += "|---|---|--:|--:|--:|--:|--:|--:|--:|\n";
    for ranked in advice.ranking() {
        let (mark, name) = match ranked.is_unbeaten {
            true => (words(MARK), format!("**{}**", words(ranked.name))),
            false => (String::new(), words(ranked.name)),
        };
        text += &format!("| {mark} | {name} | {} |\n", ranked.figures.join(" | "));
    }
    text.push('\n');
    let remarks = advice.remarks().into_iter();
    for sentence in remarks.chain(report.failures()).chain(advice.sentences()) {
        text += &match sentence.split_once(TO_RUN) {
            Some((who, command)) => format!("- {}{TO_RUN}{}\n", words(who), code(command)),
            None => format!("- {}\n", words(&sentence)),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::super::super::sample;
    use super::*;

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        let candidates = [("glibc", 1.0, 1.0), ("primalloc:cache_thread=256K", 0.7, 0.9)];
        let report = sample::report_of(0.01, &candidates);
        let advice = Advice::on(&report, &[], &[]);
        let whole = candidates_text(&advice, usize::MAX);
        assert_eq!(candidates_text(&advice, width_of(&whole)), whole);
        let seen = |width: usize| {
            let text = candidates_text(&advice, width);
            assert!(width_of(&text) <= width && text.contains("0.70×"), "{width}: {text}");
            ["FAULTS", "±", "RATIO", "*  primalloc:"].map(|what| text.contains(what))
        };
        assert_eq!(seen(80), [false, true, true, true]);
        assert_eq!(seen(66), [false, false, true, true]);
        assert_eq!(seen(46), [false, false, false, true]);
        assert_eq!(seen(40), [false; 4]);
        assert!(candidates_text(&advice, 40).contains("*  …loc:cache_thread=256K  0.70×"));
    }

    #[test]
    fn a_narrow_terminal_breaks_sentences_and_leaves_commands_whole() {
        let candidates = [("glibc", 1.0, 1.0), ("glibc:A=2", 0.9, 0.9)];
        let report = sample::report_of(0.01, &candidates);
        let text = strip_str(&table(&Advice::on(&report, &[], &[]), Some(40))).to_string();
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 40).collect();
        assert_eq!(long, ["To take glibc:A=2, run: A=2 sort -n 'big file'"], "{text}");
    }

    #[test]
    fn what_further_runs_gave_is_told() {
        let report = sample::report_of(0.01, &[("glibc", 1.0, 1.0), ("mimalloc", 0.77, 1.0)]);
        let finals = [sample::report_of(0.01, &[("glibc", 1.0, 1.0), ("mimalloc", 0.97, 1.0)])];
        let text = strip_str(&table(&Advice::on(&report, &finals, &[]), None)).to_string();
        assert!(text.contains("chance: mimalloc (0.97× time, 1.00× memory)\n"), "{text}");
    }

    #[test]
    fn what_to_type_is_code_in_markdown() {
        let candidates = [("glibc", 1.0, 1.0), ("glibc:A=2", 0.9, 0.9)];
        let mut report = sample::report_of(0.01, &candidates);
        report.command = "perl -e '$_*2*$_\n\n# `x`'".to_owned();
        let text = markdown(&Advice::on(&report, &[], &[]));
        assert!(text.starts_with("`` perl -e '$_*2*$_  # `x`' ``: "), "{text}");
        let last = "- To take glibc:A=2, run: `` A=2 perl -e '$_*2*$_  # `x`' ``";
        assert_eq!(text.lines().last(), Some(last));
    }

    fn candidates_text(advice: &Advice, width: usize) -> String {
        strip_str(&candidates(&advice.ranking(), width)).to_string()
    }
}
