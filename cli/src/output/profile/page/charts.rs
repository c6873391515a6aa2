//! The timeline of what was in use, and the histograms of sizes and ages.

use super::super::words::{counted, share, size};
use super::axis::{self, Tick};
use crate::profile::{Bucket, Facts};

/// The height of the box that paths are drawn in; the page stretches it.
const DEPTH: f64 = 1000.0;

pub struct Timeline {
    pub line: String,
    pub area: String,
    pub sizes: Vec<Tick>,
    pub times: Vec<Tick>,
    pub peak: Option<Peak>,
    pub spoken: String,
}

/// Percents from the left and from the top.
pub struct Peak {
    pub x: f64,
    pub y: f64,
    pub label: String,
    /// Where its label begins; else it ends there.
    pub is_left: bool,
}

/// None where there are too few points for a line.
pub fn timeline(facts: &Facts) -> Option<Timeline> {
    let points = &facts.timeline;
    let (first, last) = (points.first()?, points.last()?);
    let span = last.milliseconds.checked_sub(first.milliseconds).filter(|&span| span > 0)?;
    let peak_bytes = facts.peak.map_or(0, |peak| peak.bytes);
    let highest = points.iter().map(|point| point.bytes).max()?.max(peak_bytes);
    let (sizes, end) = axis::of_bytes(highest);
    let x = |milliseconds: u64| {
        let since = milliseconds.saturating_sub(first.milliseconds) as f64;
        (since / span as f64).min(1.0) * DEPTH
    };
    let y = |bytes: u64| DEPTH - bytes as f64 / end * DEPTH;
    let mut line = String::new();
    for point in points {
        let command = if line.is_empty() { 'M' } else { 'L' };
        line += &format!("{command}{:.1} {:.1}", x(point.milliseconds), y(point.bytes));
    }
    let area = format!("{line}L{DEPTH} {DEPTH}L0 {DEPTH}Z");
    let time = |milliseconds: u64| axis::time(milliseconds as f64);
    let peak = facts.peak.map(|peak| Peak {
        x: x(peak.milliseconds) / DEPTH * 100.0,
        y: y(peak.bytes) / DEPTH * 100.0,
        label: format!("{} at {}", size(peak.bytes as i64), time(peak.milliseconds)),
        is_left: x(peak.milliseconds) < DEPTH / 2.0,
    });
    let spoken = format!(
        "From {} to {} in {}; at most {}.",
        size(first.bytes as i64),
        size(last.bytes as i64),
        time(span),
        size(highest as i64)
    );
    Some(Timeline { line, area, sizes, times: axis::of_time(span), peak, spoken })
}

pub struct Histogram {
    pub id: &'static str,
    pub title: &'static str,
    pub total: String,
    pub bars: Vec<Bar>,
    pub spoken: String,
}

/// Percents of the picture's width, and of the highest bar.
pub struct Bar {
    pub x: f64,
    pub width: f64,
    pub bytes: f64,
    pub objects: f64,
    pub label: String,
    /// Whether the label is shown, and whether also where there is little room.
    pub is_marked: bool,
    pub is_minor: bool,
    pub title: String,
}

const LABELS_MAX: usize = 6;

pub fn histograms(facts: &Facts) -> Vec<Histogram> {
    let bytes = |limit: u64| axis::round_size(limit as f64);
    let age = |limit: u64| match limit {
        0..1000 => format!("{limit} µs"),
        _ => axis::time((limit as f64 / 1000.0).round()),
    };
    [
        histogram("sizes", "In use, by size of block", &facts.live_sizes, bytes),
        histogram("allocated", "Allocated, by size of block", &facts.alloc_sizes, bytes),
        histogram("lifetimes", "Freed, by age", &facts.lifetimes, age),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn histogram(
    id: &'static str,
    title: &'static str,
    buckets: &[Bucket],
    label: impl Fn(u64) -> String,
) -> Option<Histogram> {
    let buckets = without_gaps(buckets);
    let (objects, bytes) = buckets
        .iter()
        .fold((0.0, 0.0), |(o, b), next| (o + next.objects as f64, b + next.bytes as f64));
    if objects == 0.0 {
        return None;
    }
    let part = |value: u64, whole: f64| if whole > 0.0 { value as f64 / whole } else { 0.0 };
    let highest = buckets
        .iter()
        .map(|bucket| part(bucket.bytes, bytes).max(part(bucket.objects, objects)))
        .fold(f64::MIN_POSITIVE, f64::max);
    let width = 100.0 / buckets.len() as f64;
    let every = buckets.len().div_ceil(LABELS_MAX);
    let bar = |(number, bucket): (usize, &Bucket)| Bar {
        x: width * number as f64,
        width,
        bytes: 100.0 * part(bucket.bytes, bytes) / highest,
        objects: 100.0 * part(bucket.objects, objects) / highest,
        label: label(bucket.limit),
        is_marked: number % every == 0,
        is_minor: number / every % 2 == 1,
        title: format!(
            "up to {}\n{} ({})\n{} ({})",
            label(bucket.limit),
            size(bucket.bytes as i64),
            share(bucket.bytes as i64, bytes as i64),
            counted(bucket.objects as i64, "object"),
            share(bucket.objects as i64, objects as i64)
        ),
    };
    let most = buckets.iter().max_by_key(|bucket| bucket.bytes)?;
    Some(Histogram {
        id,
        title,
        total: format!("{} in {}", size(bytes as i64), counted(objects as i64, "object")),
        spoken: format!("Most bytes are up to {}.", label(most.limit)),
        bars: buckets.iter().enumerate().map(bar).collect(),
    })
}

/// Powers of two between the first and the last bucket that are not there are empty.
fn without_gaps(buckets: &[Bucket]) -> Vec<Bucket> {
    let mut sorted = buckets.to_vec();
    sorted.sort_by_key(|bucket| bucket.limit);
    let mut whole: Vec<Bucket> = Vec::new();
    for bucket in sorted {
        while let Some(last) = whole.last().filter(|last| last.limit > 0) {
            let next = last.limit.saturating_mul(2);
            if next >= bucket.limit {
                break;
            }
            whole.push(Bucket { limit: next, objects: 0, bytes: 0 });
        }
        whole.push(bucket);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_through_all_points() {
        let facts = Facts::parse(["timeline 0:0:0 50:1048576:1 100:524288:1", "peak 50 1048576 1"]);
        let found = timeline(&facts).unwrap();
        assert!(found.line.starts_with("M0.0 1000.0L500.0 "), "{}", found.line);
        assert_eq!(found.line.matches('L').count(), 2);
        let peak = found.peak.unwrap();
        assert_eq!((peak.x, peak.label.as_str()), (50.0, "1.00 MiB at 50 ms"));
        assert!(found.spoken.contains("at most 1.00 MiB"));
        assert!(timeline(&Facts::parse(["timeline 5:1:1"])).is_none());
        assert!(timeline(&Facts::parse(["timeline 5:1:1 5:2:1"])).is_none());
        assert!(timeline(&Facts::parse([])).is_none());
    }

    #[test]
    fn bars_have_no_gaps_and_the_highest_is_whole() {
        let facts = Facts::parse(["live_sizes 16:30:480 128:10:1280", "lifetimes 1024:1:5"]);
        let found = histograms(&facts);
        assert_eq!((found.len(), found[0].bars.len(), found[1].id), (2, 4, "lifetimes"));
        let heights: Vec<f64> = found[0].bars.iter().map(|bar| bar.objects.round()).collect();
        assert_eq!(heights, [100.0, 0.0, 0.0, 33.0]);
        assert!(found[0].bars[3].title.contains("10 objects (25 %)"), "{}", found[0].bars[3].title);
        assert!(found[0].bars[0].is_marked);
        assert_eq!(found[1].bars[0].label, "1 ms");
    }
}
