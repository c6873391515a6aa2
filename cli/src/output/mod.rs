//! The report of a comparison, and one file for each format that it is written in.
//!
//!   report.rs      what all formats show: figures, ratios, the best, the conclusion
//!   quantity.rs    numbers in units that people read
//!   table.rs       for the terminal
//!   json.rs        for programs
//!   markdown.rs    for issues and documents
//!   html.rs        one page with plots; plot.rs draws them
//!   advice/        what to take, from a report on candidates
//!   explain/       what a process's memory consists of
//!   watch/         what becomes of it over time
//!   names.rs       names that others have chosen, fit for a row
//!   shell.rs       commands as they could be typed
//!   faults/        the same for `primalloc faults`
//!   profile/       the same for heap profiles and leaks

pub mod advice;
pub mod explain;
pub mod faults;
mod html;
mod json;
mod markdown;
mod names;
mod plot;
pub mod profile;
mod quantity;
mod report;
mod shell;
mod table;
pub mod watch;

#[cfg(test)]
mod sample;

use anyhow::Result;

pub use names::{is_unseen, printable};
pub use quantity::{bytes_text, time_text, with_thousands};
pub use report::{Entry, Host, Report};
pub use shell::{shell_text, shell_word};
pub use table::{WIDTH_WITHOUT_TERMINAL, fitting, listing, with_names_cut, without_beginning};

/// What is shown on the terminal, and written down on request.
pub trait Formats {
    /// Lines are at most so wide, where there is a limit and the names allow it.
    fn table(&self, width: Option<usize>) -> String;
    fn json(&self) -> String;
    fn markdown(&self) -> String;
    fn html(&self) -> Result<String>;
}

impl Formats for Report {
    fn table(&self, width: Option<usize>) -> String {
        table::table(self, width)
    }

    fn json(&self) -> String {
        json::document(self, None)
    }

    fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    fn html(&self) -> Result<String> {
        html::page(self, None)
    }
}
