//! A made-up comparison for the tests of the formats.

use std::path::PathBuf;

use super::{Entry, Host, Report};
use crate::allocators::{Allocator, Candidate};
use crate::environment::Setting;
use crate::measure::{Run, Summary};

fn runs(wall_seconds: f64, peak_mebibytes: f64, minor_faults: f64) -> Vec<Run> {
    [1.0, 0.99, 1.01, 1.0, 1.02]
        .iter()
        .map(|noise| Run::made_up(wall_seconds * noise, peak_mebibytes * 1_048_576.0, minor_faults))
        .collect()
}

/// "primalloc:purge_delay=0"; of the values none is quoted.
pub fn candidate(name: &str, library: Option<&str>) -> Candidate {
    let (allocator, settings) = name.split_once(':').unwrap_or((name, ""));
    let setting = |text: &str| {
        let (name, value) = text.split_once('=').unwrap();
        Setting::option(name, value).or_else(|_| Setting::variable(name, value)).unwrap()
    };
    Candidate {
        name: name.to_owned(),
        allocator: Allocator { name: allocator.to_owned(), library: library.map(PathBuf::from) },
        settings: settings.split(':').filter(|text| !text.is_empty()).map(setting).collect(),
    }
}

pub fn report() -> Report {
    let entry = |name, library, version: &str, runs: Vec<Run>| {
        Entry::new(&candidate(name, library), Some(version.to_owned()), &runs)
    };
    Report {
        command: "sort -n 'big file'".to_owned(),
        host: Host {
            processor: "Example CPU".to_owned(),
            processors: 2,
            kernel: "6.1.0".to_owned(),
            libc: "glibc 2.36".to_owned(),
        },
        runs: 5,
        warmup: 1,
        entries: vec![
            entry("glibc", None, "2.36", runs(1.25, 180.0, 45_210.0)),
            entry("primalloc", Some("/lib/libprimalloc.so"), "0.1.0", runs(1.0, 150.5, 1_204.0)),
            entry("jemalloc", Some("/lib/libjemalloc.so.2"), "5.3.0", runs(1.26, 412.0, 9_981.0)),
        ],
    }
}

/// Candidates by name, with time and memory in parts of the first's; how far runs lie from each
/// other's time, `noise` says.
pub fn report_of(noise: f64, candidates: &[(&str, f64, f64)]) -> Report {
    let entry = |&(name, time, memory): &(&str, f64, f64)| {
        let library = |allocator: &str| format!("/lib/lib{allocator}.so");
        let allocator = name.split(':').next().filter(|allocator| *allocator != "glibc");
        let candidate = candidate(name, allocator.map(library).as_deref());
        let runs = [0.0, -1.0, 1.0, 0.0, 2.0].map(|far| {
            Run::made_up(time * (1.0 + far * noise), memory * 104_857_600.0, 1_000.0 * memory)
        });
        Entry::new(&candidate, Some("1.0".to_owned()), &runs)
    };
    Report { entries: candidates.iter().map(entry).collect(), ..report() }
}

/// As if it had not run on after so many.
pub fn keep_runs(entry: &mut Entry, count: usize) {
    for figures in &mut entry.figures {
        figures.values.truncate(count);
        figures.summary = Summary::of(&figures.values);
    }
    entry.outcomes[0].1 = count;
}

/// The same with settings: names that are long, and have more than one line.
pub fn report_of_settings() -> Report {
    let mut report = report();
    let names = ["primalloc:purge_delay=0:thp=never", "jemalloc:MALLOC_CONF=a|b"];
    report.entries.truncate(1);
    for name in names {
        let candidate = candidate(name, Some("/lib/some.so"));
        let runs = runs(1.0, 150.5, 1_204.0);
        report.entries.push(Entry::new(&candidate, Some("0.1.0".to_owned()), &runs));
    }
    report
}
