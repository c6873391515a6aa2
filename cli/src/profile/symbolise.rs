//! Functions and lines for the locations that have none, from the files on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use super::model::{Frame, Location, Mapping, Profile, base_name, nameless};
use crate::allocators::is_allocator_library;
use crate::proc_texts;
use crate::processes;
use crate::symbols::{CodeFrame, MappedCode, Object, Objects};

/// Names of an allocator that is linked into the program.
const LINKED_ALLOCATORS: [&str; 3] = ["_rjem_", "je_", "tcmalloc::"];

/// Fills in what can be found, and returns what the reader must know of the rest. What an allocator
/// has recorded of its own frames, as jemalloc does, is left out.
pub fn symbolise(profile: &mut Profile, debug_directory: Option<&Path>) -> Vec<String> {
    let mut objects = Objects::with_debug_directory(debug_directory);
    let mut troubles = BTreeSet::new();
    let unknown = profile.locations.iter().filter(|location| location.frames.is_empty());
    let needed: BTreeSet<usize> = unknown.filter_map(|location| location.mapping).collect();
    let mut found: BTreeMap<usize, Rc<Object>> = BTreeMap::new();
    for number in needed {
        let mapping = &profile.mappings[number];
        let object = open(&mut objects, mapping, profile.process, &mut troubles);
        found.extend(object.map(|object| (number, object)));
    }
    for location in profile.locations.iter_mut().filter(|location| location.frames.is_empty()) {
        let mapping = location.mapping.map(|number| &profile.mappings[number]);
        let object = location.mapping.and_then(|number| found.get(&number)).map(|found| &**found);
        location.frames = frames(location.address, mapping, object);
    }
    let is_allocators = |location: &Location| location.frames.iter().any(is_frame_of_allocator);
    profile.drop_innermost(&profile.locations.iter().map(is_allocators).collect::<Vec<_>>());
    troubles.into_iter().collect()
}

fn is_frame_of_allocator(frame: &Frame) -> bool {
    is_allocator_library(Path::new(&*frame.library))
        || LINKED_ALLOCATORS.iter().any(|prefix| frame.function.starts_with(prefix))
}

fn open(
    objects: &mut Objects,
    mapping: &Mapping,
    process: Option<i32>,
    troubles: &mut BTreeSet<String>,
) -> Option<Rc<Object>> {
    let path = mapping.file.strip_suffix(" (deleted)").unwrap_or(&mapping.file);
    if !path.starts_with('/') {
        return None;
    }
    let object = objects.get(&path.into());
    let is_same = object.as_ref().is_some_and(|object| match &object.build_id {
        Some(id) if !mapping.build_id.is_empty() => **id == *mapping.build_id,
        _ => true,
    });
    if is_same {
        return object;
    }
    let opened = process.and_then(|pid| opened(objects, mapping, path, pid));
    if opened.is_some() {
        return opened;
    }
    let code =
        MappedCode { offset: mapping.offset, size: mapping.limit.wrapping_sub(mapping.start) };
    let stand_in = objects.get_by_build_id(path, &mapping.build_id, &code);
    if stand_in.is_none() {
        let trouble = match object {
            Some(_) => "is not the file that was profiled (another build ID)",
            None => "cannot be read",
        };
        let nor = match &*mapping.build_id {
            "" => String::new(),
            id => format!(", and there is no debug file of build ID {id}"),
        };
        troubles.insert(format!("{path} {trouble}{nor}, so its functions have no names."));
    }
    stand_in
}

/// The file that a running process has mapped there, whatever became of its name since: as the
/// mapping, which takes more rights, or as the program itself.
fn opened(objects: &Objects, mapping: &Mapping, path: &str, pid: i32) -> Option<Rc<Object>> {
    let maps = processes::open(pid).and_then(|process| proc_texts::maps(&process)).ok()?;
    let is_there = |(start, end): (u64, u64)| (start..end).contains(&mapping.start);
    let (start, end) = maps.iter().map(|map| map.address).find(|range| is_there(*range))?;
    let places = [format!("/proc/{pid}/map_files/{start:x}-{end:x}"), format!("/proc/{pid}/exe")];
    let mut found = places.iter().filter_map(|place| objects.get_at(path, Path::new(place)));
    found.find(|object| object.build_id.as_deref() == Some(&*mapping.build_id))
}

fn frames(address: u64, mapping: Option<&Mapping>, object: Option<&Object>) -> Vec<Frame> {
    let Some(mapping) = mapping.filter(|mapping| !mapping.file.is_empty()) else {
        return vec![unnamed("(unknown)".into(), "".into())];
    };
    let library: Rc<str> = base_name(&mapping.file).into();
    let nameless = nameless(&library);
    let place = object.and_then(|object| {
        // A mapping may stand for the first of several; code keeps its distance in all of them.
        let is_in = (mapping.start..mapping.limit).contains(&address);
        let known = if is_in { address } else { mapping.start };
        let found =
            object.address_of_offset((known - mapping.start).wrapping_add(mapping.offset))?;
        Some((object, found.wrapping_add(address.wrapping_sub(known))))
    });
    let Some((object, address)) = place else { return vec![unnamed(nameless, library)] };
    let frame = |found: CodeFrame| Frame {
        function: found.function.map_or_else(|| nameless.clone(), Into::into),
        file: found.file.map(Into::into),
        line: found.line,
        library: library.clone(),
    };
    object.frames(address).into_iter().map(frame).collect()
}

fn unnamed(function: Rc<str>, library: Rc<str>) -> Frame {
    Frame { function, file: None, line: None, library }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::model::ValueType;

    fn at(mapping: Mapping, address: u64) -> (Profile, Vec<String>) {
        let bytes = ValueType { name: "space".into(), unit: "bytes".into() };
        let mut profile = Profile::new(vec![bytes]);
        profile.mappings.push(mapping);
        profile.locations.push(Location { address, mapping: Some(0), frames: vec![] });
        let troubles = symbolise(&mut profile, None);
        (profile, troubles)
    }

    fn own_file() -> Mapping {
        let path = std::env::current_exe().unwrap();
        let file: Rc<str> = path.to_str().unwrap().into();
        Mapping { start: 0x1000, limit: u64::MAX, file, ..Mapping::default() }
    }

    #[test]
    fn a_function_of_this_very_program_is_found() {
        let mapping = own_file();
        let object = Objects::default().get(&mapping.file).unwrap();
        let offset = object.offset_of_function("main").expect("every program has one");
        let address = mapping.start + offset;
        let (profile, troubles) = at(mapping, address);
        let frame = profile.locations[0].frames.last().unwrap();
        assert_eq!((&*frame.function, troubles.len()), ("main", 0));
        assert!(!frame.library.contains('/'));
    }

    #[test]
    fn code_behind_its_mapping_is_found_by_the_distance() {
        let file = own_file();
        let object = Objects::default().get(&file.file).unwrap();
        let offset = object.offset_of_function("main").unwrap();
        let (page, within) = (offset & !4095, offset & 4095);
        let mapping = Mapping { start: 0x1000, limit: 0x1000 + within, offset: page, ..file };
        let (profile, _) = at(mapping, 0x1000 + within);
        assert_eq!(&*profile.locations[0].frames.last().unwrap().function, "main");
    }

    #[test]
    fn stacks_begin_with_who_called_the_allocator() {
        let bytes = ValueType { name: "space".into(), unit: "bytes".into() };
        let mut profile = Profile::new(vec![bytes]);
        let named = [("", "libjemalloc.so.2"), ("_rjem_malloc", "a"), ("site", "a"), ("main", "a")];
        for (function, library) in named {
            let frames = vec![unnamed(function.into(), library.into())];
            profile.locations.push(Location { frames, ..Location::default() });
        }
        for stack in [vec![0, 1, 2, 3], vec![2, 0, 3], vec![0, 1]] {
            profile.push(stack, [1], super::super::model::Labels::default());
        }
        symbolise(&mut profile, None);
        let stacks: Vec<&[u32]> = profile.samples().map(|sample| sample.stack).collect();
        assert_eq!(stacks, [&[2, 3][..], &[2, 0, 3], &[1]]);
    }

    #[test]
    fn files_that_are_gone_or_changed_are_told() {
        let gone = Mapping { file: "/no/such/libgone.so (deleted)".into(), ..own_file() };
        let (profile, troubles) = at(gone, 0x2000);
        assert_eq!(&*profile.locations[0].frames[0].function, "(in libgone.so)");
        assert!(troubles[0].starts_with("/no/such/libgone.so cannot be read"), "{troubles:?}");
        assert!(troubles[0].contains("read, so its functions"), "{troubles:?}");
        let changed = Mapping { build_id: "00ff".into(), ..own_file() };
        let (_, troubles) = at(changed, 0x2000);
        assert!(troubles[0].contains("another build ID"));
        assert!(troubles[0].contains("no debug file of build ID 00ff"), "{troubles:?}");
    }
}
