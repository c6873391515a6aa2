//! The functions of two profiles under common numbers.
//!
//! Two builds of a program may have different file names, so a function whose library only one
//! profile has it in is the one of the same name in the other, if there is no more than one of
//! them on either side. Functions that nobody knows a name of have their library's.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::stacks::{Function, Stacks};

type Key = (Rc<str>, Rc<str>);

pub struct Common {
    /// As the later profile has them, where it does.
    pub functions: Vec<Function>,
    /// For each function of the earlier profile, and of the later one.
    pub numbers: [Vec<u32>; 2],
}

impl Common {
    pub fn new(before: &Stacks, after: &Stacks) -> Common {
        let renamed = renamed(&before.functions, &after.functions);
        let mut numbers: HashMap<Key, u32> = HashMap::new();
        let mut functions: Vec<Function> = Vec::new();
        let mut number = |function: &Function, is_after: bool| {
            let own = key(function);
            let key = renamed.get(&own).filter(|_| !is_after).cloned().unwrap_or(own);
            let number = *numbers.entry(key).or_insert(functions.len() as u32);
            match functions.get_mut(number as usize) {
                None => functions.push(function.clone()),
                Some(known) => *known = function.clone(),
            }
            number
        };
        let earlier = before.functions.iter().map(|function| number(function, false)).collect();
        let later = after.functions.iter().map(|function| number(function, true)).collect();
        Common { functions, numbers: [earlier, later] }
    }
}

fn key(function: &Function) -> Key {
    (function.name.clone(), function.library.clone())
}

/// From the earlier functions that have another library in the later profile to these.
fn renamed(before: &[Function], after: &[Function]) -> HashMap<Key, Key> {
    let only = |those: &[Function], others: &[Function]| {
        let others: HashSet<Key> = others.iter().map(key).collect();
        let mut only: HashMap<Rc<str>, Vec<Key>> = HashMap::new();
        for own in those.iter().map(key).filter(|own| !others.contains(own)) {
            only.entry(own.0.clone()).or_default().push(own);
        }
        only
    };
    let later = only(after, before);
    let twin = |(name, earlier): (Rc<str>, Vec<Key>)| match (&earlier[..], &later.get(&name)?[..]) {
        ([earlier], [later]) => Some((earlier.clone(), later.clone())),
        _ => None,
    };
    only(before, after).into_iter().filter_map(twin).collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::{Frame, Location, Profile};
    use super::*;

    fn profile(functions: &[(&str, &str)]) -> Profile {
        let mut profile = Profile::new(Vec::new());
        for (function, library) in functions {
            let (function, library) = ((*function).into(), (*library).into());
            let frames = vec![Frame { function, file: None, line: None, library }];
            profile.locations.push(Location { frames, ..Location::default() });
        }
        profile
    }

    fn numbers(before: &[(&str, &str)], after: &[(&str, &str)]) -> ([Vec<u32>; 2], Vec<String>) {
        let (before, after) = (profile(before), profile(after));
        let common = Common::new(&Stacks::new(&before), &Stacks::new(&after));
        (common.numbers, common.functions.iter().map(|f| f.library.to_string()).collect())
    }

    #[test]
    fn a_function_is_the_same_in_a_build_of_another_name() {
        let (found, libraries) = numbers(
            &[("main", "app-1.0"), ("init", "app-1.0"), ("init", "libz.so.1")],
            &[("init", "libz.so.1"), ("init", "app-1.1"), ("main", "app-1.1")],
        );
        assert_eq!(found, [[0, 1, 2], [2, 1, 0]]);
        assert_eq!(libraries, ["app-1.1", "app-1.1", "libz.so.1"]);
    }

    #[test]
    fn what_could_be_either_is_neither() {
        let (found, _) =
            numbers(&[("init", "liba.so.1"), ("init", "libb.so.1")], &[("init", "liba.so.2")]);
        assert_eq!(found[1], [2]);
        let nameless = [("(in app-1.0)", "app-1.0"), ("(in app-1.1)", "app-1.1")];
        assert_eq!(numbers(&nameless[..1], &nameless[1..]).0, [[0], [1]]);
    }
}
