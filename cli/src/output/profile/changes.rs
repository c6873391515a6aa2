//! Two profiles side by side for the terminal.

use owo_colors::OwoColorize;

use super::columns::{Column, Columns, Name, STAYS};
use super::text::Layout;
use super::words::{count_difference, counted_difference, difference, size};
use crate::profile::{Change, Comparison};

pub fn changes(titles: [&str; 2], label: &str, found: &Comparison, layout: &Layout) -> String {
    let (before, after) = found.bytes;
    let mut text = format!("{} → {}\n", titles[0].bold(), titles[1].bold());
    text += &format!(
        "{label} {} → {}: {} in {}\n",
        size(before),
        size(after),
        difference(after - before),
        counted_difference(found.objects.1 - found.objects.0, "object")
    );
    if found.changes.is_empty() {
        return text + "No function holds more or less than before.\n";
    }
    text += &format!("\n{}", table(found, layout));
    match found.changes.len().saturating_sub(layout.rows) {
        0 => text,
        rest => {
            let all = found.changes.len();
            text + &format!("{}\n", format!("and {rest} more (--top {all})").dimmed())
        }
    }
}

fn table(found: &Comparison, layout: &Layout) -> String {
    let shown: Vec<&Change> = found.changes.iter().take(layout.rows).collect();
    let column = |title: &str, rank: u8, text: fn(&Change) -> String| {
        Column::new(title, rank, shown.iter().map(|change| text(change)))
    };
    let objects = |change: &Change| count_difference(change.objects.1 - change.objects.0);
    let name = |change: &&Change| Name::new(&change.function.short_name, None);
    Columns {
        numbers: vec![
            column("change", STAYS, |change| difference(change.growth())),
            column("objects", 2, objects),
            column("before", 3, |change| size(change.bytes.0)),
            column("after", 4, |change| size(change.bytes.1)),
        ],
        names: shown.iter().map(name).collect(),
        places: vec![
            column("line", 5, |change| change.line.clone().unwrap_or_default()),
            column("library", 1, |change| change.function.library.to_string()),
        ],
    }
    .table(layout.width)
}
