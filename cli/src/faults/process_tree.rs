//! A process and what it has started, as /proc shows them: faults so far, and sizes now.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use procfs::process::{MemoryMap, Process, Stat};

use crate::proc_texts;
use crate::processes::{self, descendants, has_ended, shown_as, stat_of};

/// Looking for new processes takes at most this part of the time.
const SEARCH_PART: u32 = 20;
const SEARCH_PAUSE_MIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub minor: u64,
    pub major: u64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
}

pub struct ProcessTree {
    root: i32,
    /// Descendants by when they started, so that a number used again is not taken for them.
    members: HashMap<i32, u64>,
    /// What the root had started before and may not be watched: no part of it, nor what it starts.
    outsiders: HashSet<i32>,
    next_search: Instant,
    page_size: u64,
    pub seen: usize,
}

impl ProcessTree {
    pub fn new(root: Pid) -> ProcessTree {
        ProcessTree {
            root: root.as_raw(),
            members: HashMap::new(),
            outsiders: HashSet::new(),
            next_search: Instant::now(),
            page_size: procfs::page_size(),
            seen: 1,
        }
    }

    /// With all that the process has started before: servers fork their workers first.
    pub fn of_running(root: Pid) -> ProcessTree {
        let mut tree = ProcessTree::new(root);
        let (members, others): (HashMap<i32, u64>, HashMap<i32, u64>) =
            tree.descendants().into_iter().partition(|(pid, _)| may_be_watched(*pid));
        tree.seen += members.len();
        tree.members = members;
        tree.outsiders = others.into_keys().collect();
        tree
    }

    /// None when the root has ended.
    pub fn sample(&mut self) -> Option<Sample> {
        if Instant::now() >= self.next_search {
            self.search();
        }
        let root = stat_of(self.root).filter(|stat| !has_ended(stat))?;
        let mut sum = Sample::default();
        self.add(&mut sum, &root);
        let mut ended = Vec::new();
        for (&pid, &start) in &self.members {
            match stat_of(pid).filter(|stat| stat.starttime == start) {
                Some(stat) => self.add(&mut sum, &stat),
                None => ended.push(pid),
            }
        }
        ended.iter().for_each(|pid| {
            self.members.remove(pid);
        });
        Some(sum)
    }

    /// A process's own, and those of the children that it has waited for.
    fn add(&self, sum: &mut Sample, stat: &Stat) {
        sum.minor += stat.minflt + stat.cminflt;
        sum.major += stat.majflt + stat.cmajflt;
        sum.resident_bytes += stat.rss * self.page_size;
        sum.virtual_bytes += stat.vsize;
    }

    fn search(&mut self) {
        let begin = Instant::now();
        for (pid, start) in self.descendants() {
            if self.members.insert(pid, start).is_none() {
                self.seen += 1;
            }
        }
        self.next_search = begin + (begin.elapsed() * SEARCH_PART).max(SEARCH_PAUSE_MIN);
    }

    fn descendants(&self) -> HashMap<i32, u64> {
        let mut found = descendants(|pid| pid == self.root || self.members.contains_key(&pid));
        found.remove(&self.root);
        if !self.outsiders.is_empty() {
            let theirs = descendants(|pid| self.outsiders.contains(&pid));
            found.retain(|pid, _| !self.outsiders.contains(pid) && !theirs.contains_key(pid));
        }
        found
    }

    /// The root and its descendants.
    pub fn pids(&self) -> Vec<i32> {
        self.members.keys().copied().chain([self.root]).collect()
    }

    pub fn threads(&self) -> Vec<i32> {
        self.pids().into_iter().flat_map(threads_of).collect()
    }
}

fn threads_of(pid: i32) -> Vec<i32> {
    let tasks = Process::new(pid).and_then(|process| process.tasks());
    tasks.map_or_else(|_| vec![pid], |tasks| tasks.flatten().map(|task| task.tid).collect())
}

/// The kernel asks the same of who reads its mappings as of who counts its faults.
fn may_be_watched(pid: i32) -> bool {
    processes::open(pid).and_then(|process| proc_texts::maps(&process)).is_ok()
}

pub fn maps_of(pid: i32) -> Vec<MemoryMap> {
    let maps = processes::open(pid).and_then(|process| proc_texts::maps(&process));
    maps.map_or_else(|_| Vec::new(), |maps| maps.0)
}

/// Nothing if the process sees the same files as we, else the directory where they lie for us.
pub fn root_of(pid: i32) -> Rc<str> {
    let pid = shown_as(pid).to_string();
    let mounts_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    match mounts_of(&pid) {
        Some(theirs) if mounts_of("self").is_some_and(|own| own != theirs) => {
            format!("/proc/{pid}/root").into()
        }
        _ => "".into(),
    }
}

/// The name that a file below such a directory has for the process.
pub fn name_in_root(place: &Path) -> PathBuf {
    let below = || {
        let mut parts = place.strip_prefix("/proc").ok()?.components();
        (parts.nth(1)?.as_os_str() == "root").then(|| Path::new("/").join(parts.as_path()))
    };
    below().unwrap_or_else(|| place.to_owned())
}

pub fn is_running(pid: Pid) -> bool {
    stat_of(pid.as_raw()).is_some_and(|stat| !has_ended(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_children_are_summed() {
        let own = Pid::this();
        let alone = ProcessTree::of_running(own).sample().unwrap();
        assert!(alone.minor > 0 && alone.resident_bytes > 100_000);
        assert!(alone.virtual_bytes > alone.resident_bytes);

        let mut tree = ProcessTree::of_running(own);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        tree.search();
        let is_found = tree.pids().contains(&(child.id() as i32));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_found && tree.seen >= 2);
        assert!(tree.sample().is_some());
        assert!(!tree.pids().contains(&(child.id() as i32)));
    }

    #[test]
    fn what_is_not_there_has_no_sample() {
        let beyond_all = Pid::from_raw(i32::MAX);
        assert_eq!(ProcessTree::new(beyond_all).sample(), None);
        assert!(!is_running(beyond_all) && is_running(Pid::this()));
    }
}
