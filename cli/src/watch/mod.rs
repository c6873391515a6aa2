//! What of a process's memory grows: explained again and again, for as long as it is watched.
//!
//!   moments.rs   what was seen, a bounded number of times
//!   trend.rs     what became of each part, and whether it still grows
//!   advice.rs    what follows, in plain words

mod advice;
mod moments;
mod trend;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

pub use advice::advice;
pub use moments::{Moment, Moments};
pub use trend::{SizeTrend, Trend};

use crate::explain::{Asked, Explanation, explain};
use crate::processes::{program_places, start_of};

/// Looks are no nearer to each other: whoever waits for the next one asks so often whether the
/// process still runs.
pub const EVERY_MIN: Duration = Duration::from_millis(20);
/// A look is followed by a pause of so many times its own length, however often one is asked for.
const PAUSE_TIMES: u32 = 20;

pub struct Plan {
    pub pid: i32,
    pub every: Duration,
    pub duration: Option<Duration>,
}

/// Why no more was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum End {
    /// Somebody has asked for it.
    Asked,
    TimeIsUp,
    ProcessEnded,
    Unreadable {
        why: String,
    },
}

/// The one source of every output format.
pub struct Watched {
    pub first: Explanation,
    pub last: Explanation,
    /// More than there are moments, if these have become too many.
    pub looks: u64,
    pub moments: Moments,
    pub end: End,
    /// The program that it was before it became another one, of which nothing is kept.
    pub began_as: Option<String>,
    /// What the kernel has counted, if more than any look has seen.
    pub peak_bytes: Option<u64>,
}

impl Watched {
    fn new(first: Explanation, every: Duration) -> Watched {
        let mut moments = Moments::new(every);
        moments.push(Duration::ZERO, &first);
        Watched {
            last: first.clone(),
            first,
            looks: 1,
            moments,
            end: End::Asked,
            began_as: None,
            peak_bytes: None,
        }
    }

    fn push(&mut self, at: Duration, seen: Explanation) {
        self.looks += 1;
        self.moments.push(at, &seen);
        self.last = seen;
    }

    /// Two programs have nothing that could have grown from one to the other.
    fn begin_anew(&mut self, first: Explanation, every: Duration) {
        let former = std::mem::replace(self, Watched::new(first, every));
        self.began_as = former.began_as.or(Some(former.last.program));
    }

    /// Takes note of the kernel's own count, which knows what was between the looks.
    pub fn set_peak(&mut self, bytes: u64) {
        let seen = self.moments.resident().into_iter().max().unwrap_or(0);
        self.peak_bytes = Some(bytes).filter(|&bytes| bytes > seen + self.change_min() as u64);
    }

    pub fn is_one_look(&self) -> bool {
        self.looks == 1
    }

    pub fn seconds(&self) -> f64 {
        self.moments.all.last().map_or(0.0, |moment| moment.seconds)
    }
}

/// Looks at the process until it ends, the time is up, or somebody asks for an end. `wait` returns
/// when what it is handed says so, or earlier, and then tells whether that is asked. `on_look` is
/// told of each look.
pub fn watch(
    plan: &Plan,
    mut wait: impl FnMut(&dyn Fn() -> bool) -> Result<bool>,
    mut on_look: impl FnMut(&Watched),
) -> Result<Watched> {
    let first_start = start_of(plan.pid);
    let is_there = || start_of(plan.pid) == first_start;
    let mut start = Instant::now();
    let deadline = plan.duration.map(|duration| start + duration);
    // A look fails where the process becomes another program meanwhile, or is about to be gone: the
    // next one tells.
    let (mut program, first) = look(plan.pid).or_else(|_| look(plan.pid))?;
    let mut found = Watched::new(first, plan.every);
    let mut looked = start;
    let mut has_failed = false;
    loop {
        on_look(&found);
        let pause = looked.elapsed() * PAUSE_TIMES;
        let next = (looked + found.moments.interval).max(Instant::now() + pause);
        let next = deadline.map_or(next, |deadline| next.min(deadline));
        let is_asked = wait(&|| Instant::now() >= next || !is_there())?;
        looked = Instant::now();
        let is_late = deadline.is_some_and(|deadline| looked >= deadline);
        found.end = match look(plan.pid) {
            _ if !is_there() => End::ProcessEnded,
            Err(_) if !has_failed && !is_asked && !is_late => {
                has_failed = true;
                continue;
            }
            Err(error) => End::Unreadable { why: format!("{error:#}") },
            Ok((now, seen)) => {
                has_failed = false;
                if now == program {
                    found.push(looked - start, seen);
                } else {
                    (program, start) = (now, looked);
                    found.begin_anew(seen, plan.every);
                }
                match (is_asked, is_late) {
                    (true, _) => End::Asked,
                    (_, true) => End::TimeIsUp,
                    _ => continue,
                }
            }
        };
        return Ok(found);
    }
}

/// What was seen, and the places of the program that it was seen of.
fn look(pid: i32) -> Result<([u64; 3], Explanation)> {
    let before = program_places(pid);
    let seen = explain(&Asked::Process(pid), None)?;
    match program_places(pid) {
        Some(places) if before == Some(places) => Ok((places, seen)),
        _ => bail!("{pid}: the process has ended, or has become another program meanwhile"),
    }
}

#[cfg(test)]
pub mod sample {
    //! A made-up service for the tests of the rules and of the formats.

    use super::*;
    use crate::explain::Use;
    use crate::explain::sample::explanation;

    /// Of each look the MiB of blocks, of free pages, and of what was mapped past malloc.
    pub fn watched(looks: &[(u64, u64, u64)]) -> Watched {
        let seen = |&(blocks, pages, anonymous): &(u64, u64, u64)| {
            explanation(&[
                (Use::Blocks, blocks, Some(blocks * 1024)),
                (Use::FreePages, pages, None),
                (Use::Anonymous, anonymous, None),
                (Use::Programs, 8, None),
            ])
        };
        let mut found = Watched::new(seen(&looks[0]), Duration::from_secs(10));
        for (index, look) in looks.iter().enumerate().skip(1) {
            found.push(Duration::from_secs(10 * index as u64), seen(look));
        }
        let grown = looks[looks.len() - 1].0 - looks[0].0;
        let row = &mut found.last.sizes[2];
        row.blocks += grown * 1024;
        row.in_use_bytes += grown << 20;
        found
    }

    /// Grows by blocks of 1,024 bytes to the end, by free pages at first only.
    pub fn leaking() -> Watched {
        let pages = [4, 14, 20, 20, 20, 20, 20, 20];
        let looks: Vec<(u64, u64, u64)> =
            (0..32).map(|index| (70 + index, pages[(index as usize).min(7)], 24)).collect();
        watched(&looks)
    }

    pub fn at_rest() -> Watched {
        watched(&[(70, 20, 24); 12])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Use;
    use crate::explain::sample::explanation;

    fn wait(is_over: &dyn Fn() -> bool) -> Result<bool> {
        while !is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    #[test]
    fn a_process_is_looked_at_until_the_time_is_up() {
        let plan = Plan {
            pid: std::process::id() as i32,
            every: Duration::from_millis(1),
            duration: Some(Duration::from_millis(100)),
        };
        let mut looks = 0;
        let found = watch(&plan, wait, |_| looks += 1).unwrap();
        assert_eq!(found.end, End::TimeIsUp);
        assert_eq!(found.moments.all.len(), looks + 1);
        assert!(found.seconds() >= 0.1);
    }

    #[test]
    fn another_program_begins_anew() {
        let mut found = sample::leaking();
        for _ in 0..2 {
            found.begin_anew(explanation(&[(Use::Blocks, 500, None)]), Duration::from_secs(1));
        }
        assert!(found.is_one_look() && found.whole().change_bytes == 0);
        let sentence = &advice(&found)[0];
        assert!(sentence.starts_with("It began as served, and has become another"), "{sentence}");
    }

    #[test]
    fn nobody_is_watched_who_is_not_there() {
        let plan = Plan { pid: i32::MAX, every: Duration::from_secs(1), duration: None };
        let error = watch(&plan, wait, |_| ()).err().unwrap();
        assert!(error.to_string().contains("there is no such process"), "{error}");
    }
}
