//! What watching a program has shown: the one source of every output format.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use super::address_space::Tally;
use super::{KINDS, Kind, SiteRow, Timeline};

/// Whom it is about.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    /// As it could be typed; of a running process, its command line.
    pub command: String,
    /// Where a running process was watched.
    pub pid: Option<i32>,
    /// "glibc", "primalloc", ..., by the libraries that were mapped.
    pub allocator: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Findings {
    pub subject: Subject,
    /// How long primalloc keeps free memory, where a process on it could be asked.
    pub keeps_for: Option<Duration>,
    /// One in so many minor faults was to be recorded.
    pub every: u64,
    pub seconds: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub peak_resident_bytes: u64,
    pub peak_virtual_bytes: u64,
    pub processes: usize,
    pub timeline: Timeline,
    /// Why there are no kinds and no sites: the kernel's refusal, or the user's wish.
    pub unattributed: Option<String>,
    /// False where faults inside of system calls are not in the picture.
    pub sees_kernel: bool,
    /// How many of the minor faults have left a record.
    pub recorded_share: f64,
    /// In the order of KINDS; empty where unattributed.
    pub kinds: Vec<KindRow>,
    pub sites: Vec<SiteRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindRow {
    pub kind: Kind,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Of all faults.
    pub share: f64,
    /// How many of them hit a page that had faulted before, where every fault was to be recorded.
    pub repeated_share: Option<f64>,
    /// How many of them are in anonymous memory that may be of another kind: what the program maps
    /// itself counts as the allocator's where the two cannot be told apart.
    pub guessed_share: f64,
}

/// Records may be missing; their kinds are taken to be spread as those of the others.
pub fn kind_rows(kinds: &HashMap<Kind, Tally>, minor: u64, major: u64, every: u64) -> Vec<KindRow> {
    let is_each = every == 1;
    let seen = |of: fn(&Tally) -> u64| kinds.values().map(of).sum::<u64>().max(1) as f64;
    let (minor_seen, major_seen) = (seen(|tally| tally.minor), seen(|tally| tally.major));
    let row = |kind: Kind| {
        let tally = kinds.get(&kind).copied().unwrap_or_default();
        let minor_faults = (tally.minor as f64 / minor_seen * minor as f64).round() as u64;
        let major_faults = (tally.major as f64 / major_seen * major as f64).round() as u64;
        KindRow {
            kind,
            minor_faults,
            major_faults,
            share: (minor_faults + major_faults) as f64 / (minor + major).max(1) as f64,
            repeated_share: is_each.then_some(tally.repeated as f64 / tally.followed.max(1) as f64),
            guessed_share: tally.guessed as f64 / (tally.minor + tally.major).max(1) as f64,
        }
    };
    KINDS.into_iter().map(row).collect()
}

impl Findings {
    /// Minor faults a second in the worst interval, if there was time for one.
    pub fn worst_rate(&self) -> Option<f64> {
        let rates = || self.timeline.rates(|point| point.minor_faults);
        self.timeline.is_seen().then(|| rates().into_iter().fold(0.0, f64::max))
    }

    /// The largest that was seen, unless the program was larger still when nobody looked.
    pub fn virtual_bytes(&self) -> Option<u64> {
        let is_whole =
            self.timeline.is_seen() && self.peak_virtual_bytes >= self.peak_resident_bytes;
        is_whole.then_some(self.peak_virtual_bytes)
    }

    pub fn kind(&self, kind: Kind) -> Option<&KindRow> {
        self.kinds.iter().find(|row| row.kind == kind)
    }

    pub fn share(&self, kind: Kind) -> f64 {
        self.kind(kind).map_or(0.0, |row| row.share)
    }

    pub fn repeated_share(&self, kind: Kind) -> Option<f64> {
        self.kind(kind).map_or(Some(0.0), |row| row.repeated_share)
    }

    pub fn guessed_share(&self, kind: Kind) -> f64 {
        self.kind(kind).map_or(0.0, |row| row.guessed_share)
    }
}

#[cfg(test)]
pub mod sample {
    //! Made-up findings for the tests of the rules and of the formats.

    use super::*;

    /// A program under glibc that faults all of 64 MiB at every turn.
    pub fn storm() -> Findings {
        let mut timeline = Timeline::new(Some(Duration::from_millis(100)));
        for number in 1..=10 {
            let resident = if number % 3 == 0 { 3 << 20 } else { 67 << 20 };
            timeline.push(
                Duration::from_millis(100 * number),
                (number * 32_768, 2),
                resident,
                70 << 20,
            );
        }
        let shares = [(0.99, 0.95), (0.002, 0.0), (0.006, 0.1), (0.001, 0.0), (0.001, 0.0)];
        let row = |(kind, (share, repeated_share)): (Kind, (f64, f64))| KindRow {
            kind,
            minor_faults: (327_680.0 * share) as u64,
            major_faults: u64::from(kind == Kind::File) * 2,
            share,
            repeated_share: Some(repeated_share),
            guessed_share: 0.0,
        };
        Findings {
            subject: Subject {
                command: "./solver -n 'big file'".to_owned(),
                pid: None,
                allocator: Some("glibc".to_owned()),
            },
            keeps_for: None,
            every: 1,
            seconds: 1.0,
            minor_faults: 327_680,
            major_faults: 2,
            peak_resident_bytes: 67 << 20,
            peak_virtual_bytes: 70 << 20,
            processes: 1,
            timeline,
            unattributed: None,
            sees_kernel: true,
            recorded_share: 1.0,
            kinds: KINDS.into_iter().zip(shares).map(row).collect(),
            sites: sites(),
        }
    }

    fn sites() -> Vec<SiteRow> {
        vec![
            SiteRow {
                kind: Kind::Allocator,
                function: Some("solve<double>".to_owned()),
                object: Some("/opt/solver/bin/solver".into()),
                line: Some("solver.c:120".to_owned()),
                via: Some("memset".to_owned()),
                minor_faults: 324_403,
                major_faults: 0,
                share: 0.99,
            },
            SiteRow {
                kind: Kind::File,
                function: None,
                object: Some("/lib64/ld-linux-x86-64.so.2".into()),
                line: None,
                via: None,
                minor_faults: 1_900,
                major_faults: 2,
                share: 0.006,
            },
        ]
    }
}
