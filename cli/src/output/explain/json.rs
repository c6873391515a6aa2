//! For programs: every figure, and the sentences.

use serde::Serialize;

use crate::explain::{Explanation, advice};

/// Goes up when a name changes its meaning.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    tool: &'static str,
    #[serde(flatten)]
    found: &'a Explanation,
    conclusions: Vec<String>,
}

pub fn json(found: &Explanation) -> String {
    let tool = concat!("primalloc ", env!("CARGO_PKG_VERSION"));
    let document = Document { format: FORMAT, tool, found, conclusions: advice(found) };
    serde_json::to_string_pretty(&document).map_or_else(|_| String::new(), |text| text + "\n")
}
