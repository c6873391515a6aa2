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
        self.placed_frames(stack).map(|(_, function, line)| (function, line)).collect()
    }

    /// Those that a reader wants to see: of the functions that only hand on to malloc, of which a
    /// container can have many, the one that was called by what asks for itself.
    pub fn frames_to_read(&self, stack: &[u32]) -> Vec<(u32, Option<String>)> {
        let mut frames = self.frames_of(stack);
        let is_own = |frame: &(u32, _)| !self.functions[frame.0 as usize].is_wrapper;
        let site = frames.iter().position(is_own).unwrap_or(0);
        frames.split_off(site.saturating_sub(1))
    }

    /// The same for stacks that look the same to a reader, as those of calls that the compiler has
    /// made of one. Where nobody knows the line, the address tells calls apart.
    pub fn look_of(&self, stack: &[u32]) -> Vec<(u32, Result<String, u32>)> {
        self.placed_frames(stack)
            .map(|(location, function, line)| (function, line.ok_or(location)))
            .collect()
    }

    fn placed_frames(&self, stack: &[u32]) -> impl Iterator<Item = (u32, u32, Option<String>)> {
        stack.iter().flat_map(move |&location| {
            let places = self.places[location as usize].iter().zip(0..);
            places.map(move |(place, number)| {
                (location, place.function, self.line((location, number)))
            })
        })
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
        let shown = |frames: Vec<(u32, Option<String>)>| -> Vec<String> {
            frames.into_iter().map(|(function, _)| named(function).to_owned()).collect()
        };
        assert_eq!(
            shown(stacks.frames_of(profile.sample(0).stack))[..2],
            ["xmalloc", "Cache::put"]
        );
        assert_eq!(shown(stacks.frames_to_read(profile.sample(0).stack))[0], "xmalloc");
        assert_eq!(stacks.site(&[]), None);
        let only_wrappers = stacks.site(&profile.sample(0).stack[..1]).unwrap();
        assert_eq!(named(only_wrappers.function), "xmalloc");
    }
}
