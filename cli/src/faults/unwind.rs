//! From a copy of the stack to the frames that led to a fault.
//!
//! Most libraries are built without frame pointers, so the tables that C++ exceptions use are
//! read instead; code without tables is tried with frame pointers.

use std::collections::HashMap;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder, UnwinderNative,
};

use super::address_space::{AddressSpace, Mapping};
use super::records::Stack;
use crate::symbols::{Object, Objects};

/// Further out than this nobody looks.
const FRAMES_MAX: usize = 48;

type Native = UnwinderNative<&'static [u8], MayAllocateDuringUnwind>;

#[derive(Default)]
pub struct Unwinding {
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// For each process, and the generation of its mappings that it was made for.
    unwinders: HashMap<u32, (u64, Native)>,
}

impl Unwinding {
    /// Addresses inside the calls, from the innermost outwards; the first is the fault's own.
    pub fn frames(
        &mut self,
        space: &AddressSpace,
        objects: &mut Objects,
        stack: &Stack,
    ) -> Vec<u64> {
        let fault = &stack.fault;
        let entry = self.unwinders.entry(fault.pid).or_insert_with(|| (u64::MAX, Native::new()));
        if entry.0 != space.generation {
            *entry = (space.generation, unwinder_of(space, objects));
        }
        let mut read_stack = |address: u64| {
            let offset = address.checked_sub(fault.stack_pointer).ok_or(())? as usize;
            let bytes = stack.copy.get(offset..offset + 8).ok_or(())?;
            bytes.try_into().map(u64::from_ne_bytes).map_err(|_| ())
        };
        let registers = registers_of(stack);
        let mut frames =
            entry.1.iter_frames(fault.instruction, registers, &mut self.cache, &mut read_stack);
        let mut addresses = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(frame.address_for_lookup());
            if addresses.len() == FRAMES_MAX {
                break;
            }
        }
        addresses
    }

    pub fn forget(&mut self, pid: u32) {
        self.unwinders.remove(&pid);
    }
}

#[cfg(target_arch = "x86_64")]
fn registers_of(stack: &Stack) -> UnwindRegsNative {
    UnwindRegsNative::new(stack.fault.instruction, stack.fault.stack_pointer, stack.frame_pointer)
}

#[cfg(target_arch = "aarch64")]
fn registers_of(stack: &Stack) -> UnwindRegsNative {
    UnwindRegsNative::new(stack.link_register, stack.fault.stack_pointer, stack.frame_pointer)
}

fn unwinder_of(space: &AddressSpace, objects: &mut Objects) -> Native {
    let mut unwinder = Native::new();
    for mapping in space.executables() {
        let object = objects.get(&space.place_of_file(mapping));
        if let Some(module) = object.and_then(|object| module_of(mapping, &object)) {
            unwinder.add_module(module);
        }
    }
    unwinder
}

fn module_of(mapping: &Mapping, object: &Object) -> Option<Module<&'static [u8]>> {
    let address = object.address_of_offset(mapping.offset)?;
    let base = mapping.start.wrapping_sub(address.wrapping_sub(object.base));
    let range = |section: &Option<(std::ops::Range<u64>, _)>| section.as_ref().map(|s| s.0.clone());
    let sections = ExplicitModuleSectionInfo {
        base_svma: object.base,
        text_svma: range(&object.text),
        text: object.text.as_ref().map(|section| section.1),
        eh_frame_svma: range(&object.eh_frame),
        eh_frame: object.eh_frame.as_ref().map(|section| section.1),
        eh_frame_hdr_svma: range(&object.eh_frame_hdr),
        eh_frame_hdr: object.eh_frame_hdr.as_ref().map(|section| section.1),
        ..Default::default()
    };
    Some(Module::new(mapping.name.to_string(), mapping.start..mapping.end, base, sections))
}
