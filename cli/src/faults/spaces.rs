//! The address spaces of all processes that are watched.

use std::collections::HashMap;

use super::address_space::AddressSpace;

pub struct Spaces {
    spaces: HashMap<u32, AddressSpace>,
    /// Whether some faults only are recorded.
    is_sampled: bool,
}

impl Spaces {
    pub fn of_running(pids: impl Iterator<Item = i32>, is_sampled: bool) -> Spaces {
        let mut spaces = Spaces { spaces: HashMap::new(), is_sampled };
        pids.for_each(|pid| spaces.insert(pid as u32, AddressSpace::of_running(pid)));
        spaces
    }

    fn insert(&mut self, pid: u32, mut space: AddressSpace) {
        space.is_sampled = self.is_sampled;
        self.spaces.insert(pid, space);
    }

    /// Of a process that is known or has just begun.
    pub fn of(&mut self, pid: u32) -> &mut AddressSpace {
        let space = self.spaces.entry(pid).or_insert_with(|| AddressSpace::of_new(pid));
        space.is_sampled = self.is_sampled;
        space
    }

    pub fn known(&mut self, pid: i32) -> Option<&mut AddressSpace> {
        self.spaces.get_mut(&(pid as u32))
    }

    pub fn fork(&mut self, parent: u32, pid: u32) {
        let copy = self.spaces.get(&parent).map(AddressSpace::forked);
        self.insert(pid, copy.unwrap_or_default());
    }

    pub fn remove(&mut self, pid: u32) -> Option<AddressSpace> {
        self.spaces.remove(&pid)
    }

    pub fn pids(&self) -> Vec<u32> {
        self.spaces.keys().copied().collect()
    }
}
