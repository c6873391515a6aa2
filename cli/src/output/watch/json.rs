//! For programs: every moment, the first and the last look as `explain` tells them, the trends.

use serde::Serialize;

use crate::explain::Explanation;
use crate::watch::{End, Moment, SizeTrend, Trend, Watched, advice};

/// Goes up when a name changes its meaning.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    tool: &'static str,
    seconds: f64,
    looks: u64,
    peak_bytes: Option<u64>,
    end: &'a End,
    moments: &'a [Moment],
    whole: Trend,
    trends: Vec<Trend>,
    sizes: Vec<SizeTrend>,
    first: &'a Explanation,
    last: &'a Explanation,
    conclusions: Vec<String>,
}

pub fn json(found: &Watched) -> String {
    let document = Document {
        format: FORMAT,
        tool: concat!("primalloc ", env!("CARGO_PKG_VERSION")),
        seconds: found.seconds(),
        looks: found.looks,
        peak_bytes: found.peak_bytes,
        end: &found.end,
        moments: &found.moments.all,
        whole: found.whole(),
        trends: found.trends(),
        sizes: found.sizes(),
        first: &found.first,
        last: &found.last,
        conclusions: advice(found),
    };
    serde_json::to_string_pretty(&document).map_or_else(|_| String::new(), |text| text + "\n")
}
