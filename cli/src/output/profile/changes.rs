//! Two profiles side by side for the terminal.

use owo_colors::OwoColorize;

use super::columns::{Column, Columns, Name, STAYS};
use super::text::Layout;
use super::words::{count_difference, counted_difference, difference, size};
use crate::profile::{Change, Comparison};

pub fn changes(titles: [&str; 2], label: &str, found: &Comparison, layout: &Layout) -> String {
    let (before, after) = found.bytes;
    let mut text = format!("{} → {}\n", titles[0].bold(), titles[1].bold());
    let objects = found.objects.map_or_else(String::new, |(before, after)| {
        format!(" in {}", counted_difference(after - before, "object"))
    });
    let (change, before, after) = (difference(after - before), size(before), size(after));
    text += &format!("{label} {before} → {after}: {change}{objects}\n");
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
    let objects = |change: &Change| {
        change.objects.map_or_else(String::new, |(before, after)| count_difference(after - before))
    };
    let name = |change: &&Change| Name::new(&change.function.short_name, None);
    let mut numbers = vec![column("change", STAYS, |change| difference(change.growth()))];
    numbers.extend(found.objects.map(|_| column("objects", 2, objects)));
    numbers.push(column("before", 3, |change| size(change.bytes.0)));
    numbers.push(column("after", 4, |change| size(change.bytes.1)));
    Columns {
        numbers,
        names: shown.iter().map(name).collect(),
        places: vec![
            column("line", 5, |change| change.line.clone().unwrap_or_default()),
            column("library", 1, |change| change.function.library.to_string()),
        ],
    }
    .table(layout.width)
}
