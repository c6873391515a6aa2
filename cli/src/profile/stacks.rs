//! The profile's stacks with functions as numbers: what tables and pictures are made from.

use std::collections::HashMap;
use std::rc::Rc;

use super::model::{Frame, Profile};
use crate::symbols::{is_wrapper, short};

/// A function of one library; its lines belong to places in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: Rc<str>,
    /// Without arguments.
    pub short_name: Rc<str>,
    pub library: Rc<str>,
    /// Whether it only hands on to malloc what its caller asks for.
    pub is_wrapper: bool,
}

#[derive(Clone, Debug)]
struct Place {
    function: u32,
    file: Option<Rc<str>>,
    line: Option<u32>,
}

pub struct Stacks<'a> {
    pub profile: &'a Profile,
    pub functions: Vec<Function>,
    /// For each location, innermost first.
    places: Vec<Vec<Place>>,
}

/// Where a stack asks for memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    pub function: u32,
    /// The location, and which of its inlined functions.
    pub place: (u32, u32),
    /// The wrapper that it called.
    pub via: Option<u32>,
}

impl<'a> Stacks<'a> {
    /// Locations must have their frames already.
    pub fn new(profile: &'a Profile) -> Stacks<'a> {
        let mut numbers: HashMap<(Rc<str>, Rc<str>), u32> = HashMap::new();
        let mut functions = Vec::new();
        let mut place = |frame: &Frame| {
            let key = (frame.function.clone(), frame.library.clone());
            let function = *numbers.entry(key).or_insert_with(|| {
                functions.push(function_of(frame));
                functions.len() as u32 - 1
            });
            Place { function, file: frame.file.clone(), line: frame.line }
        };
        let places = profile
            .locations
            .iter()
            .map(|location| location.frames.iter().map(&mut place).collect())
            .collect();
        Stacks { profile, functions, places }
    }

    /// The functions of a stack, innermost first.
    pub fn functions_of(&self, stack: &'a [u32]) -> impl Iterator<Item = u32> {
        stack.iter().flat_map(|&l| self.places[l as usize].iter().map(|place| place.function))
    }

    /// The innermost function that asks for itself; if all only hand on, the innermost of all.
    pub fn site(&self, stack: &[u32]) -> Option<Site> {
        let mut via = None;
        let mut first = None;
        for &location in stack {
            for (number, place) in self.places[location as usize].iter().enumerate() {
                let site = Site { function: place.function, place: (location, number as u32), via };
                if !self.functions[place.function as usize].is_wrapper {
                    return Some(site);
                }
                via = Some(place.function);
                first.get_or_insert(site);
            }
        }
        first
    }

    /// "file.c:12", where the place is known so exactly.
    pub fn line(&self, (location, number): (u32, u32)) -> Option<String> {
        let place = &self.places[location as usize][number as usize];
        let file = super::model::base_name(place.file.as_deref()?);
        Some(place.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
    }

    /// Function and line of each frame of a stack, innermost first.
    pub fn frames_of(&self, stack: &[u32]) -> Vec<(u32, Option<String>)> {
        let mut frames = Vec::new();
        for &location in stack {
            for (number, place) in self.places[location as usize].iter().enumerate() {
                frames.push((place.function, self.line((location, number as u32))));
            }
        }
        frames
    }
}

fn function_of(frame: &Frame) -> Function {
    let short_name = short(&frame.function);
    Function {
        is_wrapper: is_wrapper(&short_name),
        short_name: short_name.into(),
        name: frame.function.clone(),
        library: frame.library.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn the_site_is_the_innermost_function_that_asks_for_itself() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let named = |number: u32| &*stacks.functions[number as usize].short_name;
        let site = stacks.site(profile.sample(0).stack).unwrap();
        assert_eq!((named(site.function), site.via.map(named)), ("Cache::put", Some("xmalloc")));
        assert_eq!(stacks.line(site.place).as_deref(), Some("cache.cc:42"));
        assert_eq!(stacks.site(&[]), None);
        let only_wrappers = stacks.site(&profile.sample(0).stack[..1]).unwrap();
        assert_eq!(named(only_wrappers.function), "xmalloc");
    }
}
