//! What a program has lost, for the terminal: groups by the stack that allocated them.

use std::collections::HashMap;

use owo_colors::OwoColorize;

use super::text::stack;
use super::words::{count, counted, size};
use crate::output::table::wrapped_to;
use crate::profile::{Profile, Stacks};

const FRAMES_SHOWN: usize = 30;

/// What a report of leaks says: objects and bytes.
pub struct Losses {
    pub direct: (i64, i64),
    pub indirect: (i64, i64),
    /// The heaviest first.
    pub groups: Vec<Loss>,
}

/// Blocks that were allocated through stacks that look the same, and that nothing points to.
pub struct Loss {
    pub sample: usize,
    pub own: (i64, i64),
    /// What only they lead to.
    pub held: (i64, i64),
    /// Pointed to inside, but not at their beginning.
    pub is_inner: bool,
}

impl Losses {
    /// None if the profile is not one of leaks.
    pub fn of(stacks: &Stacks) -> Option<Losses> {
        let profile = stacks.profile;
        let pair = |key: &str| {
            let value = |what: &str| profile.value_index(&format!("{key}_{what}"));
            Some((value("objects")?, value("space")?))
        };
        let (leaked, held, indirect) = (pair("leaked")?, pair("held")?, pair("indirect")?);
        let total = |(objects, bytes)| (profile.total(objects), profile.total(bytes));
        let mut numbers = HashMap::new();
        let mut groups: Vec<Loss> = Vec::new();
        for (number, sample) in profile.samples().enumerate() {
            let amount =
                |(objects, bytes): (usize, usize)| (sample.values[objects], sample.values[bytes]);
            let is_inner = &*profile.names[sample.labels.kind as usize] == "inner";
            let place = numbers.entry((stacks.look_of(sample.stack), is_inner));
            let group = *place.or_insert(groups.len());
            if group == groups.len() {
                groups.push(Loss { sample: number, own: (0, 0), held: (0, 0), is_inner });
            }
            add(&mut groups[group].own, amount(leaked));
            add(&mut groups[group].held, amount(held));
        }
        groups.retain(|loss| loss.own.0 > 0);
        groups.sort_by_key(|loss| std::cmp::Reverse(loss.own.1.saturating_add(loss.held.1)));
        Some(Losses { direct: total(leaked), indirect: total(indirect), groups })
    }

    pub fn objects(&self) -> i64 {
        self.direct.0.saturating_add(self.indirect.0)
    }

    /// What a reader must know first.
    pub fn sentence(&self) -> String {
        match self.objects() {
            0 => "Nothing leaked.".to_owned(),
            lost => format!(
                "{} in {} leaked: {} in {} directly, {} in {} through them",
                size(self.direct.1.saturating_add(self.indirect.1)),
                blocks(lost),
                size(self.direct.1),
                count(self.direct.0),
                size(self.indirect.1),
                count(self.indirect.0)
            ),
        }
    }
}

impl Loss {
    pub fn sentence(&self) -> String {
        let mut text = format!("{} in {}", size(self.own.1), blocks(self.own.0));
        if self.held.0 > 0 {
            text += &format!(", which hold {} in {} more", size(self.held.1), count(self.held.0));
        }
        if self.is_inner {
            text += ", pointed to inside but not at their beginning";
        }
        text
    }
}

/// The text, and how many blocks leaked; None if the profile is not one of leaks.
pub fn leaks(
    title: &str,
    stacks: &Stacks,
    width: Option<usize>,
    most: usize,
) -> Option<(String, i64)> {
    let profile = stacks.profile;
    let losses = Losses::of(stacks)?;
    let sentence = losses.sentence();
    let mut text = format!("{}\n", title.bold());
    text += &match losses.objects() {
        0 => format!("{}\n", wrapped_to(&sentence, width).green()),
        _ => format!("{}\n", wrapped_to(&sentence, width).red()),
    };
    for line in beside(profile) {
        text += &format!("{}\n", wrapped_to(&line, width).dimmed());
    }
    for loss in losses.groups.iter().take(most) {
        let frames = stack(stacks, loss.sample, width, FRAMES_SHOWN);
        let frames = if frames.is_empty() { "    (not recorded)\n".to_owned() } else { frames };
        let head = wrapped_to(&format!("{}, allocated at", loss.sentence()), width);
        text += &format!("\n{}\n{frames}", head.bold());
    }
    let all = losses.groups.len();
    if all > most {
        let rest = (all - most) as i64;
        let groups = if rest == 1 { "group" } else { "groups" };
        text += &format!("\nand {} more {groups} (--top {all})\n", count(rest));
    }
    Some((text, losses.objects()))
}

fn blocks(number: i64) -> String {
    counted(number, "block")
}

fn add(sum: &mut (i64, i64), (objects, bytes): (i64, i64)) {
    *sum = (sum.0.saturating_add(objects), sum.1.saturating_add(bytes));
}

/// What is in use but no leak.
pub fn beside(profile: &Profile) -> Vec<String> {
    let facts = &profile.facts;
    let amount =
        |objects: u64, bytes: u64| format!("{} in {}", size(bytes as i64), blocks(objects as i64));
    let mut lines = Vec::new();
    if let Some((objects, bytes)) = facts.ignored.filter(|&(objects, _)| objects > 0) {
        lines.push(format!("ignored: {}", amount(objects, bytes)));
    }
    if let Some((objects, bytes)) = facts.reachable {
        lines.push(format!("still pointed to: {}", amount(objects, bytes)));
    }
    lines
}
