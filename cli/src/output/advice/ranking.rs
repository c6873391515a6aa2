//! The candidates in order, as rows of a table: what nothing beats first, and of equals that whose
//! time times memory is least.

use owo_colors::OwoColorize;

use super::Advice;
use super::choice::Standing;
use super::field::Field;
use crate::measure::{FAULTS, MEMORY, QUICK_RUNS, TIME};
use crate::output::Entry;
use crate::output::markdown::{cell, code};
use crate::output::quantity::{ratio_text, spread_text};
use crate::output::report::Row;
use crate::output::table::{failures, listing};

const MARK: &str = "*";
const LEGEND: &str = "* nothing else is better in time or memory and no worse in the other";
const HEADER: [&str; 9] = ["", "CANDIDATE", "TIME", "RATIO", "", "MEMORY", "RATIO", "", "FAULTS"];

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
        let finalists: Vec<&str> = self
            .finals
            .iter()
            .flat_map(|one| &one.entries[1..])
            .map(|entry| entry.name.as_str())
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
        let spread = spread_text(&cell.summary);
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
pub fn table(advice: &Advice) -> String {
    let report = advice.report;
    let mut text = format!("{}\n{}\n", report.command.bold(), report.caption().dimmed());
    text += &format!("{}\n\n", advice.versions().dimmed());
    let record = |ranked: Ranked| {
        let mark = if ranked.is_unbeaten { MARK } else { "" };
        let name = match ranked.is_unbeaten {
            true => ranked.name.green().bold().to_string(),
            false => ranked.name.to_owned(),
        };
        [mark.to_owned(), name].into_iter().chain(ranked.figures).collect()
    };
    let numbers: Vec<usize> = (2..HEADER.len()).collect();
    text += &listing(&HEADER, &numbers, advice.ranking().into_iter().map(record).collect());
    for remark in advice.remarks() {
        text += &format!("{}\n", remark.dimmed());
    }
    text.push('\n');
    text += &failures(report);
    for sentence in advice.sentences() {
        text += &format!("{sentence}\n");
    }
    text
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
            true => ("\\*", format!("**{}**", cell(ranked.name))),
            false => ("", cell(ranked.name)),
        };
        text += &format!("| {mark} | {name} | {} |\n", ranked.figures.join(" | "));
    }
    text.push('\n');
    let remarks = advice.remarks().into_iter().map(|remark| remark.replace(MARK, "\\*"));
    for sentence in remarks.chain(report.failures()).chain(advice.sentences()) {
        text += &format!("- {sentence}\n");
    }
    text
}
