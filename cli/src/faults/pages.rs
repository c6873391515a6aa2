//! How often the same page faults again, which is how memory looks that is returned and retaken.
//!
//! Counts are kept for all pages while these are few, then only for those whose hash ends in
//! more and more zeros: a fair part of any amount of memory, in a bounded table.

use std::collections::{HashMap, HashSet};

const PAGES_MAX: usize = 1 << 20;

pub struct Pages {
    processes: HashMap<u32, HashSet<u64>>,
    count: usize,
    pages_max: usize,
    /// Pages whose hash has a bit of these are left out.
    left_out: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noted {
    /// The page has faulted before.
    pub is_repeated: bool,
    /// How many faults it stands for, with those that are left out.
    pub weight: u64,
}

impl Pages {
    pub fn new() -> Pages {
        Pages::with_room_for(PAGES_MAX)
    }

    fn with_room_for(pages_max: usize) -> Pages {
        Pages { processes: HashMap::new(), count: 0, pages_max, left_out: 0 }
    }

    /// Notes a fault; says nothing if its page is left out.
    pub fn note(&mut self, pid: u32, page: u64) -> Option<Noted> {
        if hash(page) & self.left_out != 0 {
            return None;
        }
        let weight = self.left_out + 1;
        let is_repeated = !self.processes.entry(pid).or_default().insert(page);
        if !is_repeated {
            self.count += 1;
            if self.count > self.pages_max {
                self.thin_out();
            }
        }
        Some(Noted { is_repeated, weight })
    }

    /// The process has ended or has begun another program.
    pub fn forget(&mut self, pid: u32) {
        self.count -= self.processes.remove(&pid).map_or(0, |pages| pages.len());
    }

    fn thin_out(&mut self) {
        self.left_out = self.left_out << 1 | 1;
        let left_out = self.left_out;
        self.processes
            .values_mut()
            .for_each(|pages| pages.retain(|page| hash(*page) & left_out == 0));
        self.count = self.processes.values().map(HashSet::len).sum();
    }
}

/// Fibonacci hashing, with the good bits brought down.
fn hash(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_repeated_in_its_own_process_only() {
        let mut pages = Pages::new();
        let mut is_repeated = |pid, page| pages.note(pid, page).unwrap().is_repeated;
        assert!(!is_repeated(1, 7));
        assert!(is_repeated(1, 7));
        assert!(!is_repeated(2, 7));
        pages.forget(1);
        assert_eq!(pages.note(1, 7), Some(Noted { is_repeated: false, weight: 1 }));
    }

    #[test]
    fn the_table_stays_small_and_the_share_right() {
        let mut pages = Pages::with_room_for(1000);
        let (mut followed, mut repeated) = (0, 0);
        for _turn in 0..4 {
            for noted in (0..100_000).filter_map(|page| pages.note(1, page)) {
                followed += noted.weight;
                repeated += noted.weight * u64::from(noted.is_repeated);
            }
        }
        assert!(pages.count <= 1000);
        let share = repeated as f64 / followed as f64;
        assert!((0.7..0.8).contains(&share), "{repeated} of {followed}");
        assert!((300_000..500_000).contains(&followed), "{followed}");
    }
}
