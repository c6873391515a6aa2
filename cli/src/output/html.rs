//! The report as one HTML page that needs nothing else: styles, plots and figures are inside.

use std::collections::BTreeMap;

use anyhow::Result;
use askama::Template;

use super::advice::{Advice, Ranked, scatter};
use super::plot::{self, Plot};
use super::quantity::{ratio_text, spread_text};
use super::{Entry, Host, Report, json};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    verb: &'static str,
    command: &'a str,
    caption: String,
    host: &'a Host,
    tool_version: &'static str,
    sentences: Vec<String>,
    failures: Vec<String>,
    entries: &'a [Entry],
    /// Each once, by the name of its allocator.
    libraries: BTreeMap<String, String>,
    rows: Vec<TableRow>,
    advice: Option<AdvicePart<'a>>,
    plots: Vec<Plot>,
    /// The JSON report; safe in a script element, as it has no `<` left.
    json: String,
}

/// What takes the place of the rows where advice is given.
struct AdvicePart<'a> {
    ranking: Vec<Ranked<'a>>,
    remarks: Vec<String>,
    scatter: Option<Plot>,
}

struct TableRow {
    label: &'static str,
    cells: Vec<TableCell>,
}

struct TableCell {
    median: String,
    spread: String,
    ratio: String,
    is_best: bool,
    is_reference: bool,
}

/// The report, with the advice on it in place of its conclusions where there is some.
pub fn page(report: &Report, advice: Option<&Advice>) -> Result<String> {
    let page = Page {
        verb: if advice.is_some() { "advise" } else { "compare" },
        command: &report.command,
        caption: report.caption(),
        host: &report.host,
        tool_version: env!("CARGO_PKG_VERSION"),
        sentences: advice.map_or_else(|| report.conclusions(), Advice::sentences),
        failures: report.failures(),
        entries: &report.entries,
        libraries: report.entries.iter().filter_map(library_of).collect(),
        rows: table_rows(report),
        advice: advice.map(advice_part).transpose()?,
        plots: plot::plots(report)?,
        json: json::document(report, advice).replace('<', "\\u003c"),
    };
    Ok(page.render()?)
}

fn advice_part<'a>(advice: &'a Advice) -> Result<AdvicePart<'a>> {
    Ok(AdvicePart {
        ranking: advice.ranking(),
        remarks: advice.remarks(),
        scatter: scatter(advice)?,
    })
}

fn library_of(entry: &Entry) -> Option<(String, String)> {
    let library = entry.library.as_ref()?;
    Some((entry.allocator_title(), library.display().to_string()))
}

fn table_rows(report: &Report) -> Vec<TableRow> {
    let row_of = |row: super::report::Row| TableRow {
        label: row.metric.label,
        cells: row
            .cells
            .iter()
            .enumerate()
            .map(|(index, cell)| TableCell {
                median: row.scale.format(cell.summary.median),
                spread: spread_text(cell.summary),
                ratio: ratio_text(cell.ratio),
                is_best: cell.is_best,
                is_reference: index == 0,
            })
            .collect(),
    };
    report.rows().map(row_of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::advice::Advice;
    use super::super::sample;

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let mut report = sample::report();
        report.command = "grep '<b>' </script>".to_owned();
        let page = super::page(&report, None).unwrap();
        assert!(page.contains("<svg"));
        assert!(!page.contains("<b>") && page.matches("</script>").count() == 1);
        for outside in ["http://", "https://", "src=", "<link"] {
            let allowed = page.matches("http://www.w3.org").count();
            let found = page.matches(outside).count();
            assert!(found == 0 || outside == "http://" && found == allowed, "{outside}");
        }
    }

    #[test]
    fn pictures_have_names_and_escape_those_in_them() {
        let report = sample::report_of(0.01, &[("glibc", 1.0, 1.0), ("glibc:A=<b>", 0.9, 0.9)]);
        let advice = Advice::on(&report, &[], &[]);
        for advice in [None, Some(&advice)] {
            let page = super::page(&report, advice).unwrap();
            assert!(!page.contains("<b>") && page.contains("A=&lt;b&gt;"));
            assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"").count());
        }
    }

    #[test]
    fn settings_stand_below_their_allocator_and_libraries_once() {
        let report = sample::report_of_settings();
        let page = super::page(&report, None).unwrap();
        assert!(page.contains("primalloc 0.1.0<br>purge_delay=0<br>thp=never</th>"));
        assert_eq!(page.matches("<dt>primalloc 0.1.0</dt>").count(), 1);
        assert!(page.contains(">\npurge_delay=0 thp=never\n</text>"), "beside the strips");
    }
}
