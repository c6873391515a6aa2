//! What to take, from a report on candidates, and how each format shows it.
//!
//!   choice.rs    what nothing beats: the fastest, the smallest, the best of both
//!   field.rs     who is better than whom
//!   words.rs     the choice in sentences, and how to set it
//!   ranking.rs   the candidates in order, as rows of a table; for the terminal and Markdown
//!   scatter.rs   time against memory, a dot for each candidate
//!
//! JSON and the page are those of a comparison, with the advice in them.

mod choice;
mod field;
mod ranking;
mod scatter;
mod words;

use anyhow::Result;
use serde::Serialize;

pub use choice::Choice;
pub use ranking::Ranked;
pub use scatter::scatter;

use choice::{Pick, Standing};
use words::Advised;

use super::{Formats, Report, html, json};
use crate::environment::Setting;

pub struct Advice<'a> {
    pub report: &'a Report,
    pub choice: Choice,
    /// Further runs of those that were ahead, beside the reference.
    finals: &'a [Report],
    /// What is set for all candidates.
    options: &'a [Setting],
}

/// The advice as a part of the JSON report.
#[derive(Serialize)]
pub struct AdvicePart<'a> {
    fastest: Option<Advised<'a>>,
    smallest: Option<Advised<'a>>,
    both: Option<Advised<'a>>,
    unbeaten: Vec<&'a str>,
    left_out: Vec<&'a str>,
}

impl<'a> Advice<'a> {
    pub fn on(report: &'a Report, finals: &'a [Report], options: &'a [Setting]) -> Advice<'a> {
        Advice { report, choice: Choice::from(report, finals), finals, options }
    }

    pub fn part(&self) -> AdvicePart<'_> {
        let advised = |pick: &'_ Option<Pick>| pick.as_ref().map(|pick| self.advised(pick));
        AdvicePart {
            fastest: advised(&self.choice.fastest),
            smallest: advised(&self.choice.smallest),
            both: advised(&self.choice.both),
            unbeaten: self.names(Standing::Unbeaten),
            left_out: self.names(Standing::LeftOut),
        }
    }

    fn names(&self, standing: Standing) -> Vec<&str> {
        let entries = self.report.entries.iter().zip(&self.choice.standings);
        entries.filter(|(_, own)| **own == standing).map(|(entry, _)| entry.name.as_str()).collect()
    }
}

impl Formats for Advice<'_> {
    fn table(&self, width: Option<usize>) -> String {
        ranking::table(self, width)
    }

    fn json(&self) -> String {
        json::document(self.report, Some(self))
    }

    fn markdown(&self) -> String {
        ranking::markdown(self)
    }

    fn html(&self) -> Result<String> {
        html::page(self.report, Some(self))
    }
}
