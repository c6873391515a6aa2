//! What a program has lost, for the terminal: groups by the stack that allocated them.

use owo_colors::OwoColorize;

use super::text::stack;
use super::words::{count, size};
use crate::profile::{Profile, Stacks};

const FRAMES_SHOWN: usize = 30;

/// Direct and indirect objects and bytes of the whole report; None if it is of another kind.
struct Columns {
    leaked: (usize, usize),
    held: (usize, usize),
    indirect: (usize, usize),
}

impl Columns {
    fn of(profile: &Profile) -> Option<Columns> {
        let pair = |key: &str| {
            let value = |what: &str| profile.value_index(&format!("{key}_{what}"));
            Some((value("objects")?, value("space")?))
        };
        Some(Columns { leaked: pair("leaked")?, held: pair("held")?, indirect: pair("indirect")? })
    }
}

/// The text, and how many blocks leaked; None if the profile is not one of leaks.
pub fn leaks(title: &str, stacks: &Stacks, width: usize, most: usize) -> Option<(String, i64)> {
    let profile = stacks.profile;
    let columns = Columns::of(profile)?;
    let total = |(objects, bytes)| (profile.total(objects), profile.total(bytes));
    let (direct, indirect) = (total(columns.leaked), total(columns.indirect));
    let lost = direct.0.saturating_add(indirect.0);
    let mut text = format!("{}\n", title.bold());
    text += &match lost {
        0 => format!("{}\n", "Nothing leaked.".green()),
        _ => format!(
            "{} in {} leaked: {} in {} directly, {} in {} through them\n",
            size(direct.1.saturating_add(indirect.1)).red().bold(),
            blocks(lost),
            size(direct.1),
            count(direct.0),
            size(indirect.1),
            count(indirect.0)
        ),
    };
    text += &beside(profile);

    let mut order: Vec<usize> = (0..profile.sample_count()).collect();
    order.retain(|&number| profile.sample(number).values[columns.leaked.0] > 0);
    order.sort_by_key(|&number| {
        let values = profile.sample(number).values;
        std::cmp::Reverse(values[columns.leaked.1].saturating_add(values[columns.held.1]))
    });
    for &number in order.iter().take(most) {
        text += &group(stacks, number, &columns, width);
    }
    if order.len() > most {
        text += &format!("\nand {} more groups (--top {})\n", order.len() - most, order.len());
    }
    Some((text, lost))
}

fn blocks(number: i64) -> String {
    format!("{} {}", count(number), if number == 1 { "block" } else { "blocks" })
}

fn group(stacks: &Stacks, number: usize, columns: &Columns, width: usize) -> String {
    let sample = stacks.profile.sample(number);
    let [objects, bytes] = [columns.leaked.0, columns.leaked.1].map(|value| sample.values[value]);
    let [held, held_bytes] = [columns.held.0, columns.held.1].map(|value| sample.values[value]);
    let mut head = format!("{} in {}", size(bytes), blocks(objects));
    if held > 0 {
        head += &format!(", which hold {} in {} more", size(held_bytes), count(held));
    }
    if &*stacks.profile.names[sample.labels.kind as usize] == "inner" {
        head += ", pointed to inside but not at their beginning";
    }
    let frames = stack(stacks, number, width, FRAMES_SHOWN);
    let frames = if frames.is_empty() { "    (not recorded)\n".to_owned() } else { frames };
    format!("\n{}, allocated at\n{frames}", head.bold())
}

/// What is in use but no leak.
fn beside(profile: &Profile) -> String {
    let facts = &profile.facts;
    let mut text = String::new();
    for suppressed in &facts.suppressed {
        text += &format!(
            "suppressed by {}: {} in {}\n",
            suppressed.pattern,
            size(suppressed.bytes as i64),
            blocks(suppressed.objects as i64)
        );
    }
    if let Some((objects, bytes)) = facts.ignored.filter(|&(objects, _)| objects > 0) {
        text += &format!("ignored: {} in {}\n", size(bytes as i64), blocks(objects as i64));
    }
    if let Some((objects, bytes)) = facts.reachable {
        let still = format!("{} in {}", size(bytes as i64), blocks(objects as i64));
        text += &format!("{}\n", format!("still pointed to: {still}").dimmed());
    }
    text
}
