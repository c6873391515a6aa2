//! The profile's stacks with functions as numbers: what tables and pictures are made from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::model::{Frame, Profile, nameless};
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
    /// Whether it stands for all functions of its library that nobody knows a name of.
    pub is_nameless: bool,
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
    /// The wrapper that it called, or a function without a name.
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
    ///
    /// Where the functions that ask have no names, the first one of the same library that has: all
    /// of a stripped library would be one site else, whatever it does.
    pub fn site(&self, stack: &[u32]) -> Option<Site> {
        self.numbered_site(stack).map(|(_, site)| site)
    }

    /// The site, and which of the stack's frames it is.
    fn numbered_site(&self, stack: &[u32]) -> Option<(usize, Site)> {
        let mut via = None;
        let mut wrapper = None;
        let mut nameless: Option<(usize, Site)> = None;
        let places = stack.iter().flat_map(|&location| {
            let places = self.places[location as usize].iter().zip(0..);
            places.map(move |(place, number)| (place.function, (location, number)))
        });
        for (at, (number, place)) in places.enumerate() {
            let function = &self.functions[number as usize];
            let found = (at, Site { function: number, place, via });
            let is_outside = |(_, site): &(usize, Site)| {
                self.functions[site.function as usize].library != function.library
            };
            if nameless.as_ref().is_some_and(is_outside) {
                break;
            }
            if function.is_wrapper {
                wrapper.get_or_insert(found);
            } else if function.is_nameless {
                nameless.get_or_insert(found);
            } else {
                return Some(found);
            }
            via = Some(number);
        }
        nameless.or(wrapper)
    }

    /// The library whose functions without names ask for most, if such ask for more than half of
    /// the value.
    pub fn mostly_nameless(&self, value: usize) -> Option<Rc<str>> {
        let mut libraries: BTreeMap<Rc<str>, i64> = BTreeMap::new();
        let mut whole = 0;
        for sample in self.profile.samples() {
            let bytes = sample.values[value].abs();
            whole += bytes;
            let functions = self.functions_of(sample.stack);
            let mut functions = functions.map(|number| &self.functions[number as usize]);
            let asks = functions.find(|function| !function.is_wrapper);
            if let Some(function) = asks.filter(|function| function.is_nameless) {
                *libraries.entry(function.library.clone()).or_default() += bytes;
            }
        }
        let is_most = libraries.values().sum::<i64>() > whole / 2;
        let heaviest = libraries.into_iter().min_by_key(|(_, bytes)| Reverse(*bytes));
        heaviest.filter(|_| is_most).map(|(library, _)| library)
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
        let site = self.numbered_site(stack).map_or(0, |(at, _)| at);
        self.frames_of(stack).split_off(site.saturating_sub(1))
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
        is_nameless: *frame.function == *nameless(&frame.library),
        short_name: short_name.into(),
        name: frame.function.clone(),
        library: frame.library.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Labels, Location};
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

    /// Of a stripped library: an allocator of its own, and functions between exported ones.
    #[test]
    fn functions_without_names_are_passed_over_within_their_library() {
        let mut profile = sample::service();
        profile.retain(|_, _| false);
        let library = |number: usize| ["libdb.so", "service"][number];
        let mut add = |function: &str, number: usize| {
            let function =
                if function.is_empty() { nameless(library(number)) } else { function.into() };
            let frame = Frame { function, file: None, line: None, library: library(number).into() };
            profile.locations.push(Location { frames: vec![frame], ..Location::default() });
            profile.locations.len() as u32 - 1
        };
        let (inner, wrapper, between) = (add("", 0), add("db_malloc", 0), add("", 0));
        let (exported, main) = (add("db_insert", 0), add("main", 1));
        let [named, without] =
            [vec![inner, wrapper, between, between, exported, main], vec![inner, wrapper, main]];
        profile.push(named.clone(), [8; 8], Labels::default());
        let stacks = Stacks::new(&profile);
        let site = |stack: &[u32]| {
            let site = stacks.site(stack).unwrap();
            let name = |number: u32| stacks.functions[number as usize].short_name.to_string();
            (name(site.function), site.via.map(name))
        };
        assert_eq!(site(&named), ("db_insert".into(), Some("(in libdb.so)".into())));
        assert_eq!(site(&without), ("(in libdb.so)".into(), None));
        assert_eq!(stacks.frames_to_read(&named).len(), 3);
        assert_eq!(stacks.mostly_nameless(0).as_deref(), Some("libdb.so"));
        assert_eq!(Stacks::new(&sample::service()).mostly_nameless(1), None);
    }
}
