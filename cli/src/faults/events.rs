//! The kernel's page-fault counters, which need no hardware, and their records in order of time.
//!
//! Three events for each processor: every minor fault with its address (and, on the same ring,
//! mappings, forks, execs, exits), every major fault with its stack, and of the minor faults
//! a bounded number a second with their stacks. An event that is inherited by children must be
//! bound to a processor, or the kernel gives it no ring.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;
use std::{fs, io, mem, thread};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use perf_event::data::endian::Native;
use perf_event::data::parse::{ParseConfig, Parser};
use perf_event::events::Software;
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use perf_event_open_sys::bindings::perf_event_header;

use super::records::{Reader, Timed};

/// Ring sizes of addresses and of stacks, the second for what an ordinary user may lock.
const RING_SIZES: [(usize, usize); 3] =
    [(4 << 20, 2 << 20), (1 << 20, 512 << 10), (128 << 10, 128 << 10)];
const STACK_COPY_BYTES: u32 = 16 << 10;
/// Stacks of minor faults that each processor delivers a second; odd, so as to fall in step with
/// nothing.
const STACKS_PER_SECOND: u64 = 499;

/// Whose faults.
#[derive(Clone, Copy)]
pub enum Whom {
    /// What this very thread starts next, from its exec on.
    NextChild,
    Threads,
}

struct Ring {
    sampler: Sampler,
    /// Counters of other threads on the same processor, whose records come on this ring.
    others: Vec<Counter>,
    role: Role,
    /// How many faults a record stands for that does not tell.
    weight: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Minor,
    Major,
    Stacks,
}

const ROLES: [Role; 3] = [Role::Minor, Role::Major, Role::Stacks];

/// The open events.
pub struct Events {
    rings: Vec<Ring>,
    pending: Vec<Timed>,
    /// False where the kernel shows only what the program itself does, not its system calls.
    pub sees_kernel: bool,
}

/// The registers that unwinding begins with, as the kernel numbers and orders them.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

impl Events {
    /// Opens the events of the next program that this thread starts.
    pub fn of_next_child(every: u64) -> io::Result<Events> {
        Events::open(Whom::NextChild, &[0], every)
    }

    /// Opens the events of running threads, and of all that they start.
    pub fn of_threads(threads: &[i32], every: u64) -> io::Result<Events> {
        Events::open(Whom::Threads, threads, every)
    }

    /// With the kernel's own faults and large rings where that is allowed, else with less.
    fn open(whom: Whom, threads: &[i32], every: u64) -> io::Result<Events> {
        let mut first_error = None;
        for sees_kernel in [true, false] {
            for sizes in RING_SIZES {
                match Events::open_with(whom, threads, every, sees_kernel, sizes) {
                    Ok(events) => return Ok(events),
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
        }
        Err(first_error.unwrap_or_else(|| io::Error::other("no processor is online")))
    }

    fn open_with(
        whom: Whom,
        threads: &[i32],
        every: u64,
        sees_kernel: bool,
        (address_bytes, stack_bytes): (usize, usize),
    ) -> io::Result<Events> {
        let mut rings = Vec::new();
        for cpu in online_processors() {
            for role in ROLES {
                let bytes = if role == Role::Minor { address_bytes } else { stack_bytes };
                let mut ring: Option<Ring> = None;
                for &thread in threads {
                    let mut builder = builder_for(role, whom, every, sees_kernel, bytes);
                    let counter = match builder.one_cpu(cpu).observe_pid(thread).build() {
                        Err(error) if has_ended(&error) => continue,
                        counter => counter?,
                    };
                    match &mut ring {
                        None => {
                            let sampler = counter.sampled(bytes)?;
                            let weight = if role == Role::Minor { every } else { 1 };
                            ring = Some(Ring { sampler, others: Vec::new(), role, weight });
                        }
                        Some(ring) => {
                            redirect(&counter, &ring.sampler)?;
                            ring.others.push(counter);
                        }
                    }
                }
                rings.extend(ring);
            }
        }
        Ok(Events { rings, pending: Vec::new(), sees_kernel })
    }

    /// Minor and major faults so far, exact whatever became of the records.
    pub fn counts(&mut self) -> (u64, u64) {
        let mut counts = (0, 0);
        for ring in &mut self.rings {
            let mut sum: u64 = ring.sampler.read().unwrap_or(0);
            sum += ring.others.iter_mut().map(|other| other.read().unwrap_or(0)).sum::<u64>();
            match ring.role {
                Role::Minor => counts.0 += sum,
                Role::Major => counts.1 += sum,
                Role::Stacks => {}
            }
        }
        counts
    }

    /// Waits until a ring has filled a good part, or `milliseconds` have passed.
    pub fn wait(&self, milliseconds: u16) {
        let mut descriptors: Vec<PollFd> = self
            .rings
            .iter()
            .map(|ring| {
                // SAFETY: the ring is borrowed, and with it its descriptor, until poll returns.
                let descriptor = unsafe { BorrowedFd::borrow_raw(ring.sampler.as_raw_fd()) };
                PollFd::new(descriptor, PollFlags::POLLIN)
            })
            .collect();
        let _ = poll(&mut descriptors, PollTimeout::from(milliseconds));
        let has_ended = |fd: &PollFd| fd.revents().is_some_and(|r| r.contains(PollFlags::POLLHUP));
        if descriptors.iter().any(has_ended) {
            // Poll no longer waits for these: keep the pace all the same.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The records up to now in order of time.
    ///
    /// One ring is read before the next, so that the later holds records that are younger than
    /// what has been missed in the earlier: those wait for the next call, unless it is the last.
    /// With the first of them a ring is left, for a storm may bring more as fast as one reads.
    pub fn take(&mut self, is_last: bool) -> Vec<Timed> {
        let now = monotonic_nanoseconds();
        for ring in &mut self.rings {
            let reader = Reader { is_major: ring.role == Role::Major, weight: ring.weight };
            let config = ring.sampler.config().clone();
            while let Some(record) = ring.sampler.next_record() {
                let timed = parse(&record, &config, reader);
                let is_young = timed.as_ref().is_some_and(|timed| timed.time > now);
                self.pending.extend(timed);
                if is_young {
                    break;
                }
            }
        }
        self.pending.sort_by_key(|timed| timed.time);
        let ready = self.pending.partition_point(|timed| is_last || timed.time <= now);
        self.pending.drain(..ready).collect()
    }
}

/// The builder of one event; `ring_bytes` is the size of the ring that it will write to.
///
/// A software event that is to tell its period leaves a record each time, whatever the period is:
/// only one that has a frequency can tell.
fn builder_for<'a>(
    role: Role,
    whom: Whom,
    every: u64,
    sees_kernel: bool,
    ring_bytes: usize,
) -> Builder<'a> {
    let software =
        if role == Role::Major { Software::PAGE_FAULTS_MAJ } else { Software::PAGE_FAULTS_MIN };
    let mut builder = Builder::new(software);
    builder
        .exclude_kernel(!sees_kernel)
        .exclude_callchain_kernel(true)
        .inherit(true)
        .enabled(matches!(whom, Whom::Threads))
        .enable_on_exec(matches!(whom, Whom::NextChild))
        .clockid(Clock::MONOTONIC)
        .sample_id_all(true)
        .wakeup_watermark(ring_bytes / 4)
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | SampleFlag::ADDR)
        .sample(SampleFlag::REGS_USER)
        .sample_regs_user(REGISTERS);
    if role != Role::Minor {
        builder.sample_stack_user(STACK_COPY_BYTES);
    }
    match role {
        Role::Minor => {
            builder.sample_period(every).task(true).comm(true).comm_exec(true);
            builder.mmap(true).mmap_data(true).mmap2(true);
        }
        Role::Major => {
            builder.sample_period(1).sample(SampleFlag::STACK_USER);
        }
        Role::Stacks => {
            builder.sample_frequency(STACKS_PER_SECOND);
            builder.sample(SampleFlag::STACK_USER | SampleFlag::PERIOD);
        }
    }
    builder
}

fn parse(
    record: &perf_event::Record,
    config: &ParseConfig<Native>,
    reader: Reader,
) -> Option<Timed> {
    let header = perf_event_header {
        type_: record.ty(),
        misc: record.misc(),
        size: (record.len() + mem::size_of::<perf_event_header>()) as u16,
    };
    let bytes = record.to_contiguous();
    let mut parser = Parser::new(&*bytes, config.clone());
    parser.parse_record_with_header(reader, header).ok().flatten()
}

/// Sends the records of `counter` to the ring of `owner`, which watches the same processor.
fn redirect(counter: &Counter, owner: &Sampler) -> io::Result<()> {
    // SAFETY: both descriptors are open, and the request takes a descriptor and no memory.
    let done =
        unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(counter.as_raw_fd(), owner.as_raw_fd()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A thread may end between being listed and being watched.
fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn monotonic_nanoseconds() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

fn online_processors() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let listed = processors_of(&text);
    if listed.is_empty() {
        return (0..thread::available_parallelism().map_or(1, |count| count.get())).collect();
    }
    listed
}

/// "0-3,8" are processors 0, 1, 2, 3 and 8.
fn processors_of(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{self, Sender};
    use std::time::Instant;

    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use nix::unistd::gettid;

    use super::super::records::Event;
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(processors_of("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(processors_of("0\n"), [0]);
        assert!(processors_of("").is_empty());
    }

    const STORM: Duration = Duration::from_secs(10);

    /// Too few for a huge page.
    const PAGES: usize = 256;
    const PAGE_BYTES: usize = 4096;

    /// Takes a fault for each page of a new mapping.
    fn touch_anew() {
        const BYTES: NonZeroUsize = NonZeroUsize::new(PAGES * PAGE_BYTES).unwrap();
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is fresh, and nobody else knows it.
        unsafe {
            let block = mmap_anonymous(None, BYTES, rights, MapFlags::MAP_PRIVATE).unwrap();
            let bytes = block.cast::<u8>();
            (0..PAGES).for_each(|page| bytes.add(page * PAGE_BYTES).write_volatile(1));
            munmap(block, BYTES.get()).unwrap();
        }
    }

    /// Takes page faults, for a while or until it is told to end.
    fn storm(tell_thread: &Sender<i32>, is_over: &AtomicBool) {
        tell_thread.send(gettid().as_raw()).unwrap();
        let begin = Instant::now();
        while !is_over.load(Ordering::Relaxed) && begin.elapsed() < STORM {
            touch_anew();
        }
    }

    /// Reads once what threads have left, with what processor time they let a thread have.
    fn read_behind(threads: &[i32]) -> io::Result<usize> {
        // SAFETY: takes numbers only, and is about this thread alone.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, gettid().as_raw() as libc::id_t, 10) };
        let mut events = Events::of_threads(threads, 1)?;
        thread::sleep(Duration::from_millis(10));
        Ok(events.take(false).len())
    }

    /// The faults of a thread that touches 32 MiB: how many records they leave, and for how many
    /// faults these stand.
    fn recorded(every: u64) -> io::Result<(u64, u64)> {
        let mut events = Events::of_threads(&[gettid().as_raw()], every)?;
        (0..32).for_each(|_| touch_anew());
        let taken = events.take(true).into_iter();
        let weights = taken.filter_map(|timed| match timed.event {
            Event::Fault(fault) => Some(fault.period),
            _ => None,
        });
        Ok(weights.fold((0, 0), |(records, faults), weight| (records + 1, faults + weight)))
    }

    #[test]
    fn each_nth_fault_leaves_a_record_that_stands_for_n() {
        let both = recorded(1).and_then(|each| Ok((each, recorded(100)?)));
        match both {
            Ok(((each, all), (sampled, estimate))) => {
                assert!(each == all && all >= 32 * PAGES as u64, "{each} {all}");
                assert!(sampled < each / 20 && estimate == 100 * sampled, "{sampled} {estimate}");
                assert!(estimate > all / 2 && estimate < all * 2, "{estimate} of {all}");
            }
            Err(error) => eprintln!("skipped: faults may not be watched: {error}"),
        }
    }

    #[test]
    fn a_storm_that_is_faster_than_its_reader_does_not_hold_it() {
        let is_over = AtomicBool::new(false);
        let (tell_thread, told) = mpsc::channel();
        thread::scope(|scope| {
            let storms = [(); 2].map(|()| scope.spawn(|| storm(&tell_thread.clone(), &is_over)));
            let threads = [(); 2].map(|()| told.recv().unwrap());
            let taken = scope.spawn(move || read_behind(&threads)).join().unwrap();
            let is_held = storms.iter().all(|storm| storm.is_finished());
            is_over.store(true, Ordering::Relaxed);
            match taken {
                Ok(taken) => assert!(taken > 0 && !is_held, "{taken}"),
                Err(error) => eprintln!("skipped: faults may not be watched: {error}"),
            }
        });
    }
}
