//! Collapsed stacks: a line for each, functions from the outermost inward, and a number.

use std::collections::HashMap;

use super::model::{Frame, Labels, Location, Profile, ValueType};

/// None if some line is of another kind, or if there is none.
pub fn parse(text: &str) -> Option<Profile> {
    let space = ValueType { name: "space".into(), unit: "bytes".into() };
    let mut profile = Profile::new(vec![space]);
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (stack, value) = line.rsplit_once(' ')?;
        let value: i64 = value.parse().ok()?;
        let mut stack: Vec<u32> = stack
            .split(';')
            .map(|name| {
                *numbers.entry(name).or_insert_with(|| {
                    let frame =
                        Frame { function: name.into(), file: None, line: None, library: "".into() };
                    let frames = vec![frame];
                    profile.locations.push(Location { frames, ..Location::default() });
                    profile.locations.len() as u32 - 1
                })
            })
            .collect();
        stack.reverse();
        profile.push(stack, [value], Labels::default());
    }
    (profile.sample_count() > 0).then_some(profile)
}

/// Whether each line has two numbers: the first would be taken for a part of a function's name.
pub fn is_comparison(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let has_two = |line: &str| {
        let mut words = line.rsplitn(3, ' ');
        let mut is_number = || words.next().is_some_and(|word| word.parse::<i64>().is_ok());
        is_number() && is_number() && words.next().is_some()
    };
    lines.peek().is_some() && lines.all(has_two)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_stack_from_the_outermost_inward() {
        let profile = parse("main;read a;malloc 12\nmain 3\n\n").unwrap();
        let names: Vec<&str> =
            profile.frames(profile.sample(0).stack).map(|frame| &*frame.function).collect();
        assert_eq!((names, profile.total(0)), (vec!["malloc", "read a", "main"], 15));
        assert_eq!(profile.locations.len(), 3);
        assert!(parse("no number here\n").is_none() && parse("").is_none());
    }

    #[test]
    fn a_comparison_has_two_numbers_in_each_line() {
        assert!(is_comparison("main;read a 12 -3\n\nmain 0 5\n"));
        assert!(!is_comparison("main;worker 1 12\nmain 5\n") && !is_comparison("12 5\n"));
        assert!(!is_comparison(""));
    }
}
