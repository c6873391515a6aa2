//! The thread that watches while the program runs, and puts everything together at the end.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::unistd::Pid;
use procfs::process::MemoryMap;

use super::address_space::{Place, Tally};
use super::allocator::{called_allocator, keeps_for, main_allocator, mapped_allocator};
use super::events::Events;
use super::findings::{Findings, Subject, kind_rows};
use super::pages::{Noted, Pages};
use super::process_tree::{ProcessTree, Sample, is_running, maps_of};
use super::records::{Event, Fault, Mapped, Stack};
use super::sites::{Codes, Sites, Trace};
use super::spaces::Spaces;
use super::timeline::Timeline;
use super::unwind::Unwinding;
use super::{Kind, refusal};
use crate::allocators;
use crate::explain;
use crate::symbols::Objects;

/// The rings are looked at, and the end is noticed, at least so often.
const LOOK_MILLISECONDS: u64 = 10;
/// Names of ranges are read so often, and sooner in the beginning: a short program is gone by then.
const NAMES_PAUSE: Duration = Duration::from_millis(250);
const NAMES_PAUSE_FIRST: Duration = Duration::from_millis(1);
/// And no more often than in so many times what a look takes: the books of a large heap are long.
const NAMES_PAUSE_TIMES: u32 = 5;
const EVENTS_BETWEEN_LOOKS: usize = 1024;
const SITES_MAX: usize = 20;
const PAGE_BYTES_MIN_LOG: u32 = 12;

#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    /// The next program that this thread starts.
    NextChild,
    Process(Pid),
}

pub struct Plan {
    pub target: Target,
    /// None adapts to how long the program runs.
    pub interval: Option<Duration>,
    /// One in so many faults is recorded.
    pub every: u64,
    /// Without, only /proc is read.
    pub attribute: bool,
}

/// What is known when all is over, independently of what was watched.
#[derive(Clone, Copy, Default)]
pub struct End {
    pub minor: u64,
    pub major: u64,
    pub peak_resident_bytes: u64,
}

/// Ready to watch: the events are open, so that nothing of the program is missed.
pub struct Recorder {
    plan: Plan,
    /// Since when counts and times are taken.
    begin: Instant,
    /// Of what runs already.
    tree: Option<ProcessTree>,
    /// What was before, and does not count.
    first_sample: Sample,
    events: Option<Events>,
    unattributed: Option<String>,
}

pub struct Running {
    /// When the program ended, once it has.
    end: Arc<OnceLock<Instant>>,
    thread: JoinHandle<Findings>,
}

impl Recorder {
    /// To be called on the thread that starts the program.
    pub fn new(plan: Plan) -> Recorder {
        let mut tree = match plan.target {
            Target::NextChild => None,
            Target::Process(pid) => Some(ProcessTree::of_running(pid)),
        };
        let begin = Instant::now();
        let first_sample = tree.as_mut().and_then(ProcessTree::sample).unwrap_or_default();
        let open = || match &tree {
            None => Events::of_next_child(plan.every),
            Some(tree) => Events::of_threads(&tree.threads(), plan.every),
        };
        let (events, unattributed) = match plan.attribute.then(open) {
            None => (None, Some("--no-perf was given".to_owned())),
            Some(Ok(events)) => (Some(events), None),
            Some(Err(error)) => (None, Some(refusal::explain(&error))),
        };
        Recorder { plan, begin, tree, first_sample, events, unattributed }
    }

    /// Why faults will not be attributed, if they will not.
    pub fn unattributed(&self) -> Option<&str> {
        self.unattributed.as_deref()
    }

    /// Watches in a thread of its own; `minor_before` faults are not the program's.
    pub fn begin(mut self, pid: Pid, command: String, minor_before: u64) -> Result<Running> {
        if self.plan.target == Target::NextChild {
            self.begin = Instant::now();
        }
        let end = Arc::new(OnceLock::new());
        let heard = end.clone();
        let watch = move || Watch::new(self, pid, command, minor_before).run(&heard);
        let thread = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(watch)
            .context("cannot start a thread")?;
        Ok(Running { end, thread })
    }
}

impl Running {
    /// The program has ended; `end` completes what was too short to be seen.
    pub fn finish(self, end: End) -> Result<Findings> {
        let _ = self.end.set(Instant::now());
        let mut findings =
            self.thread.join().map_err(|_| anyhow!("watching has failed; this is a defect"))?;
        if findings.unattributed.is_some() {
            findings.timeline.complete((end.minor, end.major));
            (findings.minor_faults, findings.major_faults) = findings.timeline.counted();
        }
        findings.peak_resident_bytes = findings.peak_resident_bytes.max(end.peak_resident_bytes);
        Ok(findings)
    }
}

/// The state of the watching thread.
struct Watch {
    recorder: Recorder,
    pid: Pid,
    command: String,
    next_point: Duration,
    next_names: Duration,
    names_pause: Duration,
    tree: ProcessTree,
    first_sample: Sample,
    last_sample: Sample,
    timeline: Timeline,
    spaces: Spaces,
    processes: usize,
    kinds: HashMap<Kind, Tally>,
    /// Faults by the allocator of the process that took them.
    allocators: HashMap<&'static str, u64>,
    /// Of the process that is watched, not of those that it started.
    own_allocator: Option<&'static str>,
    /// Where a process on primalloc was asked.
    keeps_for: Option<Duration>,
    pages: Pages,
    objects: Objects,
    unwinding: Unwinding,
    sites: Sites,
    codes: Codes,
    recorded: u64,
}

impl Watch {
    fn new(mut recorder: Recorder, pid: Pid, command: String, minor_before: u64) -> Watch {
        let running = recorder.tree.take();
        let is_sampled = recorder.plan.every > 1;
        let spaces = Spaces::of_running(running.iter().flat_map(ProcessTree::pids), is_sampled);
        let tree = running.unwrap_or_else(|| ProcessTree::new(pid));
        let mut first_sample = recorder.first_sample;
        first_sample.minor += minor_before;
        Watch {
            timeline: Timeline::new(recorder.plan.interval),
            recorder,
            pid,
            command,
            next_point: Duration::ZERO,
            next_names: Duration::ZERO,
            names_pause: NAMES_PAUSE_FIRST,
            processes: tree.seen,
            tree,
            first_sample,
            last_sample: first_sample,
            spaces,
            kinds: HashMap::new(),
            allocators: HashMap::new(),
            own_allocator: None,
            keeps_for: None,
            pages: Pages::new(),
            objects: Objects::default(),
            unwinding: Unwinding::default(),
            sites: Sites::default(),
            codes: Codes::default(),
            recorded: 0,
        }
    }

    fn run(mut self, end: &OnceLock<Instant>) -> Findings {
        loop {
            if let Some(end) = end.get() {
                // What a process that goes on does while its records are read is no part of it.
                self.add_point(Some(end.saturating_duration_since(self.recorder.begin)));
                self.take_events(true);
                if self.next_names.is_zero() {
                    self.read_names(); // it was over before the first look
                }
                return self.findings();
            }
            self.take_events(false);
            self.look_if_due();
            self.wait();
        }
    }

    fn elapsed(&self) -> Duration {
        self.recorder.begin.elapsed()
    }

    fn look_if_due(&mut self) {
        let now = self.elapsed();
        if now >= self.next_names {
            self.read_names();
            self.take_sample(); // an interval may be longer than the program
            let took = self.elapsed() - now;
            self.next_names = now + self.names_pause.max(took * NAMES_PAUSE_TIMES);
            self.names_pause = (self.names_pause * 2).min(NAMES_PAUSE);
        }
        let now = self.elapsed();
        if now >= self.next_point {
            self.add_point(None);
            self.next_point = now + self.timeline.interval;
        }
    }

    fn wait(&self) {
        let next = self.next_point.min(self.next_names);
        let left = next.saturating_sub(self.elapsed()).as_millis() as u64;
        let milliseconds = left.clamp(1, LOOK_MILLISECONDS);
        match &self.recorder.events {
            Some(events) => events.wait(milliseconds as u16),
            None => thread::sleep(Duration::from_millis(milliseconds)),
        }
    }

    /// What there is now; at `end` if the program has ended then. The time is that of the counts,
    /// for sizes and names may have taken long to read.
    fn add_point(&mut self, end: Option<Duration>) {
        let is_there = self.take_sample();
        let counts = self.counts();
        let now = end.filter(|_| !is_there).unwrap_or_else(|| self.elapsed());
        let Sample { resident_bytes, virtual_bytes, .. } = self.last_sample;
        self.timeline.push(now, counts, resident_bytes, virtual_bytes);
    }

    /// False when the program has ended.
    fn take_sample(&mut self) -> bool {
        let sample = self.tree.sample();
        self.last_sample = sample.unwrap_or(self.last_sample);
        sample.is_some()
    }

    fn counts(&mut self) -> (u64, u64) {
        self.counts_of_events().unwrap_or((
            self.last_sample.minor.saturating_sub(self.first_sample.minor),
            self.last_sample.major.saturating_sub(self.first_sample.major),
        ))
    }

    /// Nothing where the kernel does not show a program's faults: each has some when it begins.
    fn counts_of_events(&mut self) -> Option<(u64, u64)> {
        let may_have_none = self.recorder.plan.target != Target::NextChild;
        let counts = self.recorder.events.as_mut()?.counts();
        Some(counts).filter(|counts| may_have_none || *counts != (0, 0))
    }

    fn read_names(&mut self) {
        for pid in self.tree.pids() {
            let maps = maps_of(pid);
            if let Some(space) = self.spaces.known(pid) {
                space.take_names(&maps);
            }
            let called = called_allocator(pid, &maps);
            let mapped = || mapped_allocator(&maps).map(Some);
            let Some(name) = called.or_else(mapped) else { continue };
            if let Some(space) = self.spaces.known(pid) {
                space.take_allocator(name, called.is_some());
            }
            if pid == self.pid.as_raw() {
                self.own_allocator = name;
            }
            if name == Some(allocators::PRIMALLOC) {
                self.read_heap(pid, &maps);
            }
        }
    }

    fn read_heap(&mut self, pid: i32, maps: &[MemoryMap]) {
        let Some(heap) = explain::heap(pid, maps) else { return };
        self.keeps_for = heap.settings.as_deref().map(keeps_for).or(self.keeps_for);
        if let Some(space) = self.spaces.known(pid) {
            space.take_heap(&heap.ranges);
        }
    }

    fn take_events(&mut self, is_last: bool) {
        let Some(events) = &mut self.recorder.events else { return };
        for (number, timed) in events.take(is_last).into_iter().enumerate() {
            // The timeline goes on while a storm is worked off.
            if number % EVENTS_BETWEEN_LOOKS == 0 && !is_last {
                self.look_if_due();
            }
            match timed.event {
                Event::Fault(fault) => self.count(&fault),
                Event::Stack(stack) => self.attribute(&stack),
                Event::Mapped(mapped) => self.map(&mapped),
                Event::Forked { pid, parent } => {
                    self.settle(pid); // of another one that had the number
                    self.spaces.fork(parent, pid);
                    self.processes += 1;
                }
                Event::Execed { pid } => self.settle(pid),
                // Its first thread has: others may go on.
                Event::Exited { pid } if is_running(Pid::from_raw(pid as i32)) => {}
                Event::Exited { pid } => self.settle(pid),
            }
        }
    }

    fn map(&mut self, mapped: &Mapped) {
        let space = self.spaces.of(mapped.pid);
        if mapped.is_executable {
            space.allocator = space.allocator.or_else(|| allocators::name_of_library(&mapped.name));
        }
        for (kind, tally) in space.map(mapped) {
            self.kinds.entry(kind).or_default().add(tally);
        }
    }

    /// The process is no more what it was: its faults are final.
    fn settle(&mut self, pid: u32) {
        if let Some(mut space) = self.spaces.remove(pid) {
            if let Some(allocator) = space.serving_allocator().filter(|_| space.faults > 0) {
                *self.allocators.entry(allocator).or_default() += space.faults;
            }
            for (kind, tally) in space.settle() {
                self.kinds.entry(kind).or_default().add(tally);
            }
        }
        self.pages.forget(pid);
        self.unwinding.forget(pid);
        self.codes.forget(pid);
    }

    fn count(&mut self, fault: &Fault) {
        let mut tally = Tally::default();
        if let Some(noted) = self.follow(fault) {
            tally.followed = noted.weight;
            tally.repeated = if noted.is_repeated { noted.weight } else { 0 };
        }
        *(if fault.is_major { &mut tally.major } else { &mut tally.minor }) = fault.period;
        if !fault.is_major {
            self.recorded += fault.period;
        }
        let space = self.spaces.of(fault.pid);
        space.faults += 1;
        let place = space.place(fault);
        let (code, is_allocators) =
            self.codes.get(fault, space, &mut self.sites, &mut self.objects);
        let is_allocators = is_allocators && !fault.in_kernel;
        let place = match place {
            Place::Anonymous(at) if is_allocators && space.is_looked_up(at) => {
                Place::Known(Kind::Allocator)
            }
            place => place,
        };
        match place {
            Place::Known(kind) => self.kinds.entry(kind).or_default().add(tally),
            Place::Anonymous(start) => {
                space.count(start, tally);
                if is_allocators {
                    space.mark_allocators(start);
                }
            }
        }
        self.sites.count(code, space.kind_now(&place), fault.is_major, fault.period);
    }

    /// Whether its page had faulted before tells only where every fault leaves a record.
    fn follow(&mut self, fault: &Fault) -> Option<Noted> {
        let page = fault.address >> PAGE_BYTES_MIN_LOG;
        if self.recorder.plan.every > 1 { None } else { self.pages.note(fault.pid, page) }
    }

    fn attribute(&mut self, stack: &Stack) {
        let fault = &stack.fault;
        if fault.is_major {
            self.count(fault);
        }
        let space = self.spaces.of(fault.pid);
        let frames = self.unwinding.frames(space, &mut self.objects, stack);
        let trace = Trace::new(&frames, fault.in_kernel, space, &mut self.objects);
        let place = space.place(fault);
        if let Place::Anonymous(start) = place {
            if trace.passes_through_allocator() {
                space.mark_allocators(start);
            }
        }
        let (code, _) = self.codes.get(fault, space, &mut self.sites, &mut self.objects);
        self.sites.lay(code, space.kind_now(&place), &trace, fault.period);
    }

    fn findings(mut self) -> Findings {
        if self.recorder.events.is_some() && self.counts_of_events().is_none() {
            self.recorder.events = None;
            self.recorder.unattributed = Some(refusal::OTHER_RIGHTS.to_owned());
        }
        self.spaces.pids().into_iter().for_each(|pid| self.settle(pid));
        self.timeline.close();
        let (minor, major) = self.timeline.counted();
        let every = self.recorder.plan.every;
        let is_attributed = self.recorder.events.is_some();
        let allocator = main_allocator(&self.allocators, self.own_allocator).map(str::to_owned);
        let pid = (self.recorder.plan.target != Target::NextChild).then_some(self.pid.as_raw());
        Findings {
            subject: Subject { command: self.command, pid, allocator },
            keeps_for: self.keeps_for,
            every,
            seconds: self.timeline.seconds(),
            minor_faults: minor,
            major_faults: major,
            peak_resident_bytes: self.timeline.peak(|point| point.resident_bytes),
            peak_virtual_bytes: self.timeline.peak(|point| point.virtual_bytes),
            processes: self.processes.max(self.tree.seen),
            recorded_share: (self.recorded as f64 / minor.max(1) as f64).min(1.0),
            kinds: if is_attributed {
                kind_rows(&self.kinds, minor, major, every)
            } else {
                Vec::new()
            },
            sites: self.sites.rows(minor, major, &mut self.objects, SITES_MAX),
            sees_kernel: self.recorder.events.as_ref().is_none_or(|events| events.sees_kernel),
            timeline: self.timeline,
            unattributed: self.recorder.unattributed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Watches the test itself by what /proc tells.
    fn recorder() -> Recorder {
        let target = Target::Process(Pid::this());
        Recorder::new(Plan { target, interval: None, every: 1, attribute: false })
    }

    const PAUSE: Duration = Duration::from_millis(50);

    #[test]
    fn time_is_counted_for_as_long_as_faults_are() {
        let recorder = recorder();
        thread::sleep(PAUSE);
        let running = recorder.begin(Pid::this(), String::new(), 0).unwrap();
        let findings = running.finish(End::default()).unwrap();
        assert!(findings.seconds >= PAUSE.as_secs_f64(), "{}", findings.seconds);
    }

    #[test]
    fn what_goes_on_is_counted_until_it_is_looked_at() {
        let mut watch = Watch::new(recorder(), Pid::this(), String::new(), 0);
        thread::sleep(PAUSE);
        watch.add_point(Some(Duration::ZERO));
        assert!(watch.timeline.seconds() >= PAUSE.as_secs_f64());
        watch.tree = ProcessTree::new(Pid::from_raw(i32::MAX));
        watch.timeline = Timeline::new(None);
        watch.add_point(Some(PAUSE));
        assert_eq!(watch.timeline.seconds(), PAUSE.as_secs_f64(), "one that has ended");
    }
}
