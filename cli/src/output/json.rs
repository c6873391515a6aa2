//! The report as JSON. The names are an interface: docs/tool.md lists them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::advice::{Advice, AdvicePart};
use super::{Entry, Host, Report};
use crate::child::Outcome;
use crate::measure::{METRICS, Summary};

/// Goes up when a name changes its meaning or goes away.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    tool: String,
    command: &'a str,
    host: &'a Host,
    runs: usize,
    warmup: usize,
    reference: &'a str,
    allocators: Vec<AllocatorPart<'a>>,
    outcomes_agree: bool,
    conclusions: Vec<String>,
    /// Of `advise` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<AdvicePart<'a>>,
}

#[derive(Serialize)]
struct AllocatorPart<'a> {
    name: &'a str,
    settings: BTreeMap<&'a str, &'a str>,
    /// A path may have any bytes.
    library: Option<Cow<'a, str>>,
    version: Option<&'a str>,
    outcomes: Vec<OutcomePart>,
    metrics: BTreeMap<&'static str, MetricPart<'a>>,
}

#[derive(Serialize)]
struct OutcomePart {
    exit_status: Option<i32>,
    signal: Option<i32>,
    runs: usize,
}

#[derive(Serialize)]
struct MetricPart<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    ratio: Option<f64>,
    values: &'a [f64],
}

/// The report, with the advice on it in place of its conclusions where there is some.
pub fn document(report: &Report, advice: Option<&Advice>) -> String {
    let document = Document {
        format: FORMAT,
        tool: concat!("primalloc ", env!("CARGO_PKG_VERSION")).to_owned(),
        command: &report.command,
        host: &report.host,
        runs: report.runs,
        warmup: report.warmup,
        reference: &report.reference().name,
        allocators: report.entries.iter().map(|entry| part_of(report, entry)).collect(),
        outcomes_agree: report.outcomes_agree(),
        conclusions: advice.map_or_else(|| report.conclusions(), Advice::sentences),
        advice: advice.map(Advice::part),
    };
    serde_json::to_string_pretty(&document).expect("numbers and strings always become JSON") + "\n"
}

fn part_of<'a>(report: &'a Report, entry: &'a Entry) -> AllocatorPart<'a> {
    let metrics = METRICS.iter().enumerate().map(|(index, metric)| {
        let figures = &entry.figures[index];
        let ratio = report.ratio(entry, index);
        (metric.id, MetricPart { summary: &figures.summary, ratio, values: &figures.values })
    });
    AllocatorPart {
        name: &entry.name,
        settings: entry.settings.iter().map(|setting| (setting.name(), setting.value())).collect(),
        library: entry.library.as_deref().map(Path::to_string_lossy),
        version: entry.version.as_deref(),
        outcomes: entry
            .outcomes
            .iter()
            .map(|&(outcome, runs)| outcome_part(outcome, runs))
            .collect(),
        metrics: metrics.collect(),
    }
}

fn outcome_part(outcome: Outcome, runs: usize) -> OutcomePart {
    match outcome {
        Outcome::Exited(status) => OutcomePart { exit_status: Some(status), signal: None, runs },
        Outcome::Killed(signal) => OutcomePart { exit_status: None, signal: Some(signal), runs },
    }
}
