//! The findings as JSON. The names are an interface: docs/tool.md lists them.

use serde::Serialize;

use crate::faults::{Findings, KindRow, Point, SiteRow, Subject, advice};
use crate::output::Host;

/// Goes up when a name changes its meaning or goes away.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    tool: String,
    #[serde(flatten)]
    subject: &'a Subject,
    host: Host,
    seconds: f64,
    processes: usize,
    minor_faults: u64,
    major_faults: u64,
    worst_minor_faults_per_second: f64,
    peak_resident_bytes: u64,
    peak_virtual_bytes: u64,
    attributed: bool,
    unattributed_because: Option<&'a str>,
    system_calls_included: bool,
    recorded_share: f64,
    kinds: &'a [KindRow],
    call_sites: &'a [SiteRow],
    timeline: TimelinePart<'a>,
    advice: Vec<String>,
}

#[derive(Serialize)]
struct TimelinePart<'a> {
    interval_seconds: f64,
    points: &'a [Point],
}

pub fn json(findings: &Findings) -> String {
    let document = Document {
        format: FORMAT,
        tool: concat!("primalloc ", env!("CARGO_PKG_VERSION")).to_owned(),
        subject: &findings.subject,
        host: Host::of_this_machine(),
        seconds: findings.seconds,
        processes: findings.processes,
        minor_faults: findings.minor_faults,
        major_faults: findings.major_faults,
        worst_minor_faults_per_second: findings.worst_rate().unwrap_or(0.0),
        peak_resident_bytes: findings.peak_resident_bytes,
        peak_virtual_bytes: findings.peak_virtual_bytes,
        attributed: findings.unattributed.is_none(),
        unattributed_because: findings.unattributed.as_deref(),
        system_calls_included: findings.sees_kernel,
        recorded_share: findings.recorded_share,
        kinds: &findings.kinds,
        call_sites: &findings.sites,
        timeline: TimelinePart {
            interval_seconds: findings.timeline.interval.as_secs_f64(),
            points: &findings.timeline.points,
        },
        advice: advice(findings),
    };
    serde_json::to_string_pretty(&document).expect("numbers and strings always become JSON") + "\n"
}
