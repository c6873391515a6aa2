//! Which library has which colour: the same in every picture of a page.

use std::collections::HashMap;

use crate::profile::{Sites, Stacks};

/// So many have one of their own; the others share a grey.
const COLOURS: usize = 8;

pub struct Colours {
    numbers: HashMap<String, usize>,
}

impl Colours {
    /// Those that ask for most have a colour first.
    pub fn new(stacks: &Stacks, sites: &Sites) -> Colours {
        let mut numbers = HashMap::new();
        let asking = sites.libraries.iter().map(|(name, _)| name.as_str());
        let passing = stacks.functions.iter().map(|function| &*function.library);
        for library in asking.chain(passing).filter(|library| !library.is_empty()) {
            if numbers.len() == COLOURS {
                break;
            }
            let next = numbers.len();
            numbers.entry(library.to_owned()).or_insert(next);
        }
        Colours { numbers }
    }

    /// The style sheet's class.
    pub fn class(&self, library: &str) -> String {
        match self.numbers.get(library) {
            Some(number) => format!("c{number}"),
            None => "cx".to_owned(),
        }
    }

    /// Each with its class, in order.
    pub fn legend(&self) -> Vec<(String, String)> {
        let mut names: Vec<(&String, &usize)> = self.numbers.iter().collect();
        names.sort_by_key(|(_, number)| **number);
        names.into_iter().map(|(name, number)| (format!("c{number}"), name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{sample, series};

    #[test]
    fn libraries_have_colours_by_weight() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let colours = Colours::new(&stacks, &Sites::new(&stacks, &series(&profile)[0]));
        assert_eq!(
            (colours.class("service").as_str(), colours.class("none").as_str()),
            ("c0", "cx")
        );
        assert_eq!(colours.legend().len(), 3);
        assert_eq!(colours.legend()[1].1, "libjson.so.1");
    }
}
