//! Call sites: the frame that a fault is laid to, and the table of them.
//!
//! The instruction that faults is mostly one of memset's or malloc's. What a reader can change is
//! the first frame outside of these.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use serde::Serialize;

use super::Kind;
use super::address_space::AddressSpace;
use super::process_tree::name_in_root;
use super::records::Fault;
use crate::allocators::name_of_library;
use crate::symbols::{Object, Objects, Role, readable};

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteRow {
    pub kind: Kind,
    /// None where the object has no name for the code.
    pub function: Option<String>,
    pub object: Option<PathBuf>,
    /// "file.c:12", of the line with the most faults.
    pub line: Option<String>,
    /// What the site has called that took the fault: memset, say, or calloc.
    pub via: Option<String>,
    /// Extrapolated to all faults.
    pub minor_faults: u64,
    pub major_faults: u64,
    pub share: f64,
}

/// A frame and what is known of it.
#[derive(Clone)]
struct Frame {
    object: Option<Rc<Object>>,
    /// In the object's own addresses; the process's where there is no object.
    address: u64,
    role: Role,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    object: Option<PathBuf>,
    function: Option<String>,
}

/// Where a stack lays its fault.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Laid {
    key: Key,
    address: u64,
    via: Option<String>,
}

/// An instruction that faults, by its number in `Sites`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(usize);

#[derive(Clone, Copy, Default)]
struct Faults {
    minor: f64,
    major: f64,
}

#[derive(Default)]
pub struct Sites {
    codes: HashMap<(Option<PathBuf>, u64), Code>,
    frames: Vec<Frame>,
    faults: HashMap<(Code, Kind), Faults>,
    stacks: HashMap<(Code, Kind), HashMap<Laid, u64>>,
}

/// One line of the table in the making.
#[derive(Default)]
struct Entry {
    addresses: HashMap<u64, u64>,
    vias: HashMap<String, u64>,
    faults: Faults,
}

/// What one stack says.
pub struct Trace {
    frames: Vec<Frame>,
    in_kernel: bool,
}

impl Trace {
    pub fn new(
        addresses: &[u64],
        in_kernel: bool,
        space: &AddressSpace,
        objects: &mut Objects,
    ) -> Trace {
        let frames = addresses.iter().map(|&address| frame_of(address, space, objects)).collect();
        Trace { frames, in_kernel }
    }

    pub fn passes_through_allocator(&self) -> bool {
        self.frames.iter().any(|frame| frame.role == Role::Allocator)
    }

    /// The frame to lay the fault to, by its number: if none will do, the outermost.
    fn site(&self) -> Option<usize> {
        // A system call's own function is as little the cause as memset is.
        let first = usize::from(self.in_kernel && self.frames.len() > 1);
        let plain = (first..self.frames.len()).find(|&i| self.frames[i].role == Role::Plain);
        plain.or(self.frames.len().checked_sub(1))
    }

    fn laid(&self, kind: Kind) -> Option<Laid> {
        let number = self.site()?;
        let inner = number.checked_sub(1).map(|inner| &self.frames[inner]);
        let via = inner.and_then(|frame| frame.object.as_ref()?.function_name(frame.address));
        Some(laid_to(&self.frames[number], via.map(short_name), kind))
    }
}

fn frame_of(address: u64, space: &AddressSpace, objects: &mut Objects) -> Frame {
    let located = space.at(address).and_then(|mapping| {
        let object = objects.get(&space.place_of_file(mapping))?;
        let address = object.address_of_offset(address - mapping.start + mapping.offset)?;
        Some((object, address))
    });
    match located {
        Some((object, address)) => {
            Frame { role: object.role(address), object: Some(object), address }
        }
        None => Frame { object: None, address, role: Role::Plain },
    }
}

impl Sites {
    /// The instruction at this address, and whether it is malloc's own.
    pub fn code(
        &mut self,
        address: u64,
        space: &AddressSpace,
        objects: &mut Objects,
    ) -> (Code, bool) {
        let frame = frame_of(address, space, objects);
        let path = frame.object.as_ref().map(|object| object.path.clone());
        // All of an allocator's library is, whatever its functions are called.
        let is_library = path.as_ref().is_some_and(|path| name_of_library(path).is_some());
        let is_allocators = is_library || frame.role == Role::Allocator;
        let code = *self.codes.entry((path, frame.address)).or_insert_with(|| {
            self.frames.push(frame);
            Code(self.frames.len() - 1)
        });
        (code, is_allocators)
    }

    /// Every fault is counted here.
    pub fn count(&mut self, code: Code, kind: Kind, is_major: bool, number: u64) {
        let faults = self.faults.entry((code, kind)).or_default();
        *(if is_major { &mut faults.major } else { &mut faults.minor }) += number as f64;
    }

    /// The stack of some fault of this instruction.
    pub fn lay(&mut self, code: Code, kind: Kind, trace: &Trace, weight: u64) {
        if let Some(laid) = trace.laid(kind) {
            *self.stacks.entry((code, kind)).or_default().entry(laid).or_default() += weight;
        }
    }

    /// The sites with the most faults; `minor` and `major` are what there was altogether.
    pub fn rows(&self, minor: u64, major: u64, objects: &mut Objects, most: usize) -> Vec<SiteRow> {
        let seen = |of: fn(&Faults) -> f64| self.faults.values().map(of).sum::<f64>().max(1.0);
        let minor_scale = minor as f64 / seen(|faults| faults.minor);
        let major_scale = major as f64 / seen(|faults| faults.major);
        let row = |(key, entry): (Key, Entry)| {
            let minor_faults = (entry.faults.minor * minor_scale).round() as u64;
            let major_faults = (entry.faults.major * major_scale).round() as u64;
            let path = key.object.as_ref().map(|path| path.to_string_lossy().into());
            let object = path.and_then(|path| objects.get(&path));
            let heaviest = heaviest(&entry.addresses).copied();
            SiteRow {
                kind: key.kind,
                line: object.zip(heaviest).and_then(|(object, at)| object.line(at)),
                function: key.function.as_deref().map(readable),
                object: key.object.as_deref().map(name_in_root),
                via: heaviest_name(&entry.vias),
                minor_faults,
                major_faults,
                share: (minor_faults + major_faults) as f64 / (minor + major).max(1) as f64,
            }
        };
        let mut rows: Vec<SiteRow> = self.entries().into_iter().map(row).collect();
        rows.retain(|row| row.share > 0.0);
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.function.cmp(&b.function)));
        rows.truncate(most);
        rows
    }

    fn entries(&self) -> HashMap<Key, Entry> {
        let mut entries: HashMap<Key, Entry> = HashMap::new();
        for (&(code, kind), faults) in &self.faults {
            // Without a stack, all that is known is the instruction's own function.
            let alone = || laid_to(&self.frames[code.0], None, kind);
            let stacks = self.stacks.get(&(code, kind)).cloned();
            let stacks = stacks.unwrap_or_else(|| HashMap::from([(alone(), 1)]));
            let total: u64 = stacks.values().sum();
            for (laid, weight) in stacks {
                let part = weight as f64 / total.max(1) as f64;
                let entry = entries.entry(laid.key).or_default();
                entry.faults.minor += faults.minor * part;
                entry.faults.major += faults.major * part;
                let number = ((faults.minor + faults.major) * part) as u64;
                *entry.addresses.entry(laid.address).or_default() += number;
                *entry.vias.entry(laid.via.unwrap_or_default()).or_default() += number;
            }
        }
        entries
    }
}

fn laid_to(frame: &Frame, via: Option<String>, kind: Kind) -> Laid {
    let function = frame.object.as_ref().and_then(|o| o.function_name(frame.address));
    let key = Key {
        kind,
        object: frame.object.as_ref().map(|object| object.path.clone()),
        function: function.map(str::to_owned),
    };
    Laid { key, address: frame.address, via }
}

fn heaviest<T: Ord>(weights: &HashMap<T, u64>) -> Option<&T> {
    weights.iter().max_by_key(|(value, weight)| (**weight, *value)).map(|(value, _)| value)
}

fn heaviest_name(weights: &HashMap<String, u64>) -> Option<String> {
    heaviest(weights).filter(|name| !name.is_empty()).cloned()
}

/// "__memset_avx512_unaligned_erms" is memset to everybody.
fn short_name(name: &str) -> String {
    let bare = name.trim_start_matches('_');
    for word in ["memset", "memcpy", "memmove", "mempcpy"] {
        if bare.starts_with(&format!("{word}_")) {
            return word.to_owned();
        }
    }
    readable(name)
}

/// What is known of the instructions of each process, as long as its code stays where it is.
#[derive(Default)]
pub struct Codes {
    processes: HashMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    /// Of the mappings that they were looked up in.
    generation: u64,
    instructions: HashMap<u64, (Code, bool)>,
}

impl Codes {
    pub fn get(
        &mut self,
        fault: &Fault,
        space: &AddressSpace,
        sites: &mut Sites,
        objects: &mut Objects,
    ) -> (Code, bool) {
        let known = self.processes.entry(fault.pid).or_default();
        if known.generation != space.generation {
            *known = Known { generation: space.generation, ..Known::default() };
        }
        let look = || sites.code(fault.instruction, space, objects);
        *known.instructions.entry(fault.instruction).or_insert_with(look)
    }

    /// The process has ended or has begun another program.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(roles: &[Role], in_kernel: bool) -> Trace {
        let frame =
            |(number, &role): (usize, &Role)| Frame { object: None, address: number as u64, role };
        Trace { frames: roles.iter().enumerate().map(frame).collect(), in_kernel }
    }

    #[test]
    fn the_site_is_the_caller_of_memset_and_malloc() {
        use Role::*;
        assert_eq!(trace(&[Helper, Plain, Plain], false).site(), Some(1));
        assert_eq!(trace(&[Helper, Allocator, Allocator, Plain], false).site(), Some(3));
        assert_eq!(trace(&[Plain, Plain], false).site(), Some(0));
        assert_eq!(trace(&[Plain, Plain], true).site(), Some(1), "a system call");
        assert_eq!(trace(&[Helper, Helper], false).site(), Some(1), "nothing better");
        assert_eq!(trace(&[], false).site(), None);
    }

    #[test]
    fn the_faults_of_an_instruction_are_divided_among_its_callers() {
        let (space, mut objects) = (AddressSpace::default(), Objects::default());
        let mut sites = Sites::default();
        let (memset, _) = sites.code(0, &space, &mut objects);
        let (other, _) = sites.code(99, &space, &mut objects);
        assert_eq!(sites.code(0, &space, &mut objects).0, memset);
        sites.count(memset, Kind::Allocator, false, 300);
        sites.count(other, Kind::Stack, false, 100);
        sites.lay(memset, Kind::Allocator, &trace(&[Role::Helper, Role::Plain], false), 7);
        let rows = sites.rows(800, 0, &mut objects, 10);
        let faults: Vec<u64> = rows.iter().map(|row| row.minor_faults).collect();
        assert_eq!((faults, rows[0].kind, rows[0].share), (vec![600, 200], Kind::Allocator, 0.75));
        assert_eq!(sites.rows(800, 0, &mut objects, 1).len(), 1);
    }
}
