//! Two profiles side by side for the terminal.

use owo_colors::OwoColorize;

use super::text::Layout;
use super::words::{clipped, count_difference, difference, size};
use crate::output::table::listing;
use crate::profile::Comparison;

const NUMBERS: usize = 4;

pub fn changes(titles: [&str; 2], label: &str, found: &Comparison, layout: &Layout) -> String {
    let (before, after) = found.bytes;
    let mut text = format!("{} → {}\n", titles[0].bold(), titles[1].bold());
    text += &format!(
        "{label} {} → {}: {} in {} objects\n",
        size(before),
        size(after),
        difference(after - before),
        count_difference(found.objects.1 - found.objects.0)
    );
    if found.changes.is_empty() {
        return text + "No function holds more or less than before.\n";
    }
    let name_width = layout.width.saturating_sub(12 * NUMBERS + 30).max(24);
    let record = |change: &crate::profile::Change| {
        vec![
            difference(change.growth()),
            count_difference(change.objects.1 - change.objects.0),
            size(change.bytes.0),
            size(change.bytes.1),
            clipped(&change.function.short_name, name_width),
            change.line.clone().unwrap_or_default(),
            change.function.library.to_string(),
        ]
    };
    let records = found.changes.iter().take(layout.rows).map(record).collect();
    let header = ["CHANGE", "OBJECTS", "BEFORE", "AFTER", "FUNCTION", "LINE", "LIBRARY"];
    text += &format!("\n{}", listing(&header, &[0, 1, 2, 3], records));
    match found.changes.len().saturating_sub(layout.rows) {
        0 => text,
        rest => {
            let all = found.changes.len();
            text + &format!("{}\n", format!("and {rest} more (--top {all})").dimmed())
        }
    }
}
