//! What only a page about leaks has: the verdict, and each group with the way to it.

use super::super::leaks::{Losses, beside};
use super::super::words::clipped;
use crate::profile::Stacks;

/// Groups that are listed; the JSON has all of them.
const GROUPS: usize = 100;
/// Those that are open at first.
const OPEN: usize = 3;
const FRAMES: usize = 40;

pub struct Group {
    pub head: String,
    /// Where it was allocated: the innermost function that has a name of its own.
    pub site: String,
    pub frames: Vec<FrameLine>,
    pub is_open: bool,
}

pub struct FrameLine {
    pub function: String,
    pub place: String,
}

/// The verdict, and what else is in use.
pub fn lead(stacks: &Stacks) -> Vec<String> {
    let Some(losses) = Losses::of(stacks) else { return Vec::new() };
    let verdict = losses.sentence();
    let verdict = if verdict.ends_with('.') { verdict } else { verdict + "." };
    std::iter::once(verdict).chain(beside(stacks.profile)).collect()
}

pub fn groups(stacks: &Stacks) -> Vec<Group> {
    let Some(losses) = Losses::of(stacks) else { return Vec::new() };
    let group = |(number, loss): (usize, &super::super::leaks::Loss)| {
        let stack = stacks.profile.sample(loss.sample).stack;
        let site = stacks
            .site(stack)
            .map(|site| stacks.functions[site.function as usize].short_name.to_string());
        let frames = stacks.frames_to_read(stack).into_iter().take(FRAMES).map(|(number, line)| {
            let function = &stacks.functions[number as usize];
            FrameLine {
                function: clipped(&function.short_name, 200),
                place: line.unwrap_or_else(|| function.library.to_string()),
            }
        });
        Group {
            head: loss.sentence(),
            site: site.unwrap_or_else(|| "(not recorded)".to_owned()),
            frames: frames.collect(),
            is_open: number < OPEN,
        }
    };
    losses.groups.iter().take(GROUPS).enumerate().map(group).collect()
}
