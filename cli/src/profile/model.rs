//! A profile in memory, whoever wrote it: samples of stacks with values.
//!
//! Large profiles have millions of numbers, so samples lie in flat arrays.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::facts::Facts;

/// What a value of each sample is: "inuse_space" in "bytes".
#[derive(Clone, Debug, PartialEq)]
pub struct ValueType {
    pub name: String,
    pub unit: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    pub start: u64,
    pub limit: u64,
    pub offset: u64,
    pub file: Rc<str>,
    pub build_id: Rc<str>,
}

/// A function that a location is in; of inlined ones, a location has several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Readable; an address in a file where nobody knows a name.
    pub function: Rc<str>,
    pub file: Option<Rc<str>>,
    pub line: Option<u32>,
    /// The name of the library or program, without directories.
    pub library: Rc<str>,
}

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Location {
    pub address: u64,
    pub mapping: Option<usize>,
    /// Innermost first; empty until symbols are looked up.
    pub frames: Vec<Frame>,
}

/// What distinguishes samples with the same stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels {
    /// Numbers in `Profile::names`; 0 is "none".
    pub thread: u32,
    pub tag: u32,
    pub kind: u32,
}

#[derive(Default)]
pub struct Profile {
    pub value_types: Vec<ValueType>,
    pub default_type: Option<String>,
    pub mappings: Vec<Mapping>,
    pub locations: Vec<Location>,
    /// What labels' numbers mean.
    pub names: Vec<Rc<str>>,
    pub facts: Facts,
    /// Of a process that is still running: it has files open that are gone from the disk.
    pub process: Option<i32>,
    /// Mean number of bytes between samples, where the profile tells.
    pub period: Option<i64>,
    pub time_nanos: i64,
    pub duration_nanos: i64,
    ends: Vec<u32>,
    stacks: Vec<u32>,
    values: Vec<i64>,
    labels: Vec<Labels>,
    name_numbers: HashMap<Rc<str>, u32>,
}

/// One sample: where, how much, and of whom.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// Numbers of locations, innermost first.
    pub stack: &'a [u32],
    pub values: &'a [i64],
    pub labels: Labels,
}

impl Profile {
    pub fn new(value_types: Vec<ValueType>) -> Profile {
        let none: Rc<str> = "".into();
        let name_numbers = HashMap::from([(none.clone(), 0)]);
        Profile { value_types, names: vec![none], name_numbers, ..Profile::default() }
    }

    pub fn name_number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.name_numbers.get(name) {
            return number;
        }
        let (name, number): (Rc<str>, u32) = (name.into(), self.names.len() as u32);
        self.names.push(name.clone());
        self.name_numbers.insert(name, number);
        number
    }

    /// There must be a value for each type.
    pub fn push(
        &mut self,
        stack: impl IntoIterator<Item = u32>,
        values: impl IntoIterator<Item = i64>,
        labels: Labels,
    ) {
        self.stacks.extend(stack);
        self.values.extend(values);
        self.ends.push(self.stacks.len() as u32);
        self.labels.push(labels);
        debug_assert_eq!(self.values.len(), self.ends.len() * self.value_types.len());
    }

    pub fn sample_count(&self) -> usize {
        self.ends.len()
    }

    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        (0..self.sample_count()).map(|number| self.sample(number))
    }

    pub fn sample(&self, number: usize) -> Sample<'_> {
        let width = self.value_types.len();
        Sample {
            stack: &self.stacks[self.stack_range(number)],
            values: &self.values[number * width..(number + 1) * width],
            labels: self.labels[number],
        }
    }

    fn stack_range(&self, number: usize) -> Range<usize> {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        begin as usize..self.ends[number] as usize
    }

    /// Keeps the samples that `is_wanted`.
    pub fn retain(&mut self, is_wanted: impl Fn(&Profile, Sample) -> bool) {
        let mut kept = Profile::new(self.value_types.clone());
        for sample in self.samples().filter(|sample| is_wanted(self, *sample)) {
            kept.push(sample.stack.iter().copied(), sample.values.iter().copied(), sample.labels);
        }
        self.ends = kept.ends;
        self.stacks = kept.stacks;
        self.values = kept.values;
        self.labels = kept.labels;
    }

    /// Leaves out the innermost locations of each stack that are marked, but for a stack's last.
    pub fn drop_innermost(&mut self, is_marked: &[bool]) {
        if !is_marked.contains(&true) {
            return;
        }
        let (mut stacks, mut ends) = (Vec::with_capacity(self.stacks.len()), Vec::new());
        for sample in self.samples() {
            let marked = sample.stack.iter().take_while(|&&l| is_marked[l as usize]).count();
            stacks.extend(&sample.stack[marked.min(sample.stack.len().saturating_sub(1))..]);
            ends.push(stacks.len() as u32);
        }
        (self.stacks, self.ends) = (stacks, ends);
    }

    pub fn value_index(&self, name: &str) -> Option<usize> {
        self.value_types.iter().position(|value_type| value_type.name == name)
    }

    pub fn total(&self, value: usize) -> i64 {
        self.samples().map(|sample| sample.values[value]).sum()
    }

    /// The frames of a stack, inlined ones among them, innermost first.
    #[cfg(test)]
    pub fn frames<'a>(&'a self, stack: &'a [u32]) -> impl Iterator<Item = &'a Frame> {
        stack.iter().flat_map(|&location| &self.locations[location as usize].frames)
    }
}

/// What stands for the functions of a library that nobody knows a name of.
pub fn nameless(library: &str) -> Rc<str> {
    format!("(in {library})").into()
}

/// The name without directories.
pub fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_out_as_they_went_in() {
        let bytes = ValueType { name: "space".into(), unit: "bytes".into() };
        let mut profile = Profile::new(vec![bytes]);
        let thread = profile.name_number("worker");
        assert_eq!(profile.name_number("worker"), thread);
        profile.push([1, 2], [5], Labels::default());
        profile.push([], [7], Labels { thread, ..Labels::default() });
        assert_eq!((profile.sample(0).stack, profile.sample(0).values), (&[1, 2][..], &[5][..]));
        assert_eq!((profile.sample(1).stack, profile.total(0)), (&[][..], 12));
        profile
            .retain(|profile, sample| &*profile.names[sample.labels.thread as usize] == "worker");
        assert_eq!((profile.sample_count(), profile.total(0)), (1, 7));
    }

    #[test]
    fn base_names_have_no_directories() {
        assert_eq!(base_name("/usr/lib/libc.so.6"), "libc.so.6");
        assert_eq!(base_name("/tmp/a.out (deleted)"), "a.out");
        assert_eq!(base_name("[vdso]"), "[vdso]");
        assert_eq!(base_name(""), "");
    }
}
