//! From findings to plain words: one table of rules, each a condition and what it means.

use std::time::Duration;

use super::{Findings, Kind};
use crate::allocators::{GLIBC, PRIMALLOC};
use crate::output::with_thousands;

/// Fewer faults than this cost no program anything that one would notice.
const STORM_FAULTS: u64 = 5_000;
const STORM_RATE: f64 = 2_000.0;
/// A kind with at least this share of the faults is worth a sentence.
const LARGE_SHARE: f64 = 0.4;
/// Reading fresh memory before writing it makes two faults of one: above a half lies return.
const RETURNED_SHARE: f64 = 0.55;
const SOME_SHARE: f64 = 0.25;
/// With as many faults in memory that may be the program's own, nothing is said of the allocator.
const GUESSED_SHARE: f64 = 0.25;
/// Faults that wait for the disk are dear.
const MANY_MAJOR: u64 = 100;
const MANY_PROCESSES: usize = 8;
/// Faults bring in all that is resident once; more is memory that comes again.
const TURNOVER: f64 = 2.0;
const PAGE_BYTES: u64 = 4096;

struct Rule {
    applies: fn(&Findings) -> bool,
    says: fn(&Findings) -> String,
    /// Nothing after it is looked at.
    is_last_word: bool,
}

const fn rule(applies: fn(&Findings) -> bool, says: fn(&Findings) -> String) -> Rule {
    Rule { applies, says, is_last_word: false }
}

const fn last_word(applies: fn(&Findings) -> bool, says: fn(&Findings) -> String) -> Rule {
    Rule { applies, says, is_last_word: true }
}

const RULES: [Rule; 15] = [
    rule(
        |f| f.major_faults >= MANY_MAJOR,
        |f| {
            format!(
                "{} faults waited for the disk. If a second run has as many, memory is short: \
                 the program needs less of it, or a higher limit.",
                with_thousands(f.major_faults)
            )
        },
    ),
    last_word(
        |f| f.minor_faults < STORM_FAULTS,
        |f| {
            format!(
                "{} minor faults in all are no storm: they cost a few milliseconds at most, and no \
                 allocator or option would make a difference worth having.",
                with_thousands(f.minor_faults)
            )
        },
    ),
    last_word(
        |f| f.worst_rate().is_some_and(|rate| rate < STORM_RATE),
        |f| {
            format!(
                "{}: that is no storm, and no allocator or option would make a difference worth \
                 having.",
                minor_faults_text(f)
            )
        },
    ),
    last_word(
        |f| f.unattributed.is_some() && turnover(f) >= TURNOVER,
        |f| {
            format!(
                "The faults have brought in {:.0} times as much memory as was ever resident at \
                 once: pages are returned and taken again, or many processes come and go. {}",
                turnover(f),
                cure(f)
            )
        },
    ),
    last_word(
        |f| f.unattributed.is_some(),
        |_| {
            "The faults have brought in about what was resident: memory used for the first time. \
             Where the faults come from shows only when they are watched."
                .to_owned()
        },
    ),
    rule(
        |f| is_large(f, Kind::Allocator) && is_guess(f),
        |f| {
            let again = match comes_again(f) {
                true => format!(
                    " Memory there is returned to the system and taken again. If it is the \
                     allocator that returns it: {}",
                    cure(f)
                ),
                false => String::new(),
            };
            let shows = f.every > 1 && f.subject.allocator.as_deref() == Some(GLIBC);
            let shown = if shows { " Without --every it shows." } else { "" };
            format!(
                "{:.0} % of the faults are in anonymous memory, and it does not show whose that \
                 is: {}'s, or what the program maps itself.{shown}{again}",
                100.0 * f.share(Kind::Allocator),
                allocator(f),
            )
        },
    ),
    rule(
        |f| is_allocators(f) && repeated(f).is_some_and(|share| share >= RETURNED_SHARE),
        |f| {
            format!(
                "{:.0} % of the faults are in the allocator's memory, and {:.0} % of those hit \
                 pages that had been there before: {} returns memory to the system and takes \
                 the same memory again. {}",
                100.0 * f.share(Kind::Allocator),
                100.0 * repeated(f).unwrap_or(0.0),
                allocator(f),
                cure(f)
            )
        },
    ),
    rule(
        |f| {
            is_allocators(f)
                && repeated(f).is_some_and(|share| (SOME_SHARE..RETURNED_SHARE).contains(&share))
        },
        |f| {
            format!(
                "{:.0} % of the faults are in the allocator's memory, and {:.0} % of those hit \
                 pages that had faulted before: some memory is returned and taken again, or read \
                 before it is first written. {}",
                100.0 * f.share(Kind::Allocator),
                100.0 * repeated(f).unwrap_or(0.0),
                cure(f)
            )
        },
    ),
    rule(
        |f| is_allocators(f) && repeated(f).is_none() && comes_again(f),
        |f| {
            format!(
                "{:.0} % of the faults are in the allocator's memory, and all have brought in \
                 {:.0} times as much as was ever resident at once: {} returns memory to the \
                 system and takes it again. {}",
                100.0 * f.share(Kind::Allocator),
                turnover(f),
                allocator(f),
                cure(f)
            )
        },
    ),
    rule(
        |f| is_allocators(f) && !comes_again(f),
        |f| {
            let huge_pages = match f.subject.allocator.as_deref() {
                Some(GLIBC) => " GLIBC_TUNABLES=glibc.malloc.hugetlb=1 asks for them.",
                Some(PRIMALLOC) => " PRIMALLOC_THP=always asks for them everywhere.",
                _ => "",
            };
            format!(
                "{:.0} % of the faults are in memory that malloc gave out and the program used \
                 for the first time. No allocator can spare these; larger pages make them \
                 fewer.{huge_pages}",
                100.0 * f.share(Kind::Allocator),
            )
        },
    ),
    rule(
        |f| is_large(f, Kind::Stack),
        |f| {
            format!(
                "{:.0} % of the faults are in stacks: deep recursion, large local arrays, or many \
                 short threads. An allocator has no part in it; threads that live longer, or \
                 large arrays on the heap, have.",
                100.0 * f.share(Kind::Stack)
            )
        },
    ),
    rule(
        |f| is_large(f, Kind::File) && f.processes >= MANY_PROCESSES,
        |f| {
            format!(
                "{:.0} % of the faults are in mapped files, and {} processes ran: each pays anew \
                 for its program and its libraries. Fewer processes, or static ones, pay less.",
                100.0 * f.share(Kind::File),
                with_thousands(f.processes as u64)
            )
        },
    ),
    rule(
        |f| is_large(f, Kind::File) && f.processes < MANY_PROCESSES,
        |f| {
            format!(
                "{:.0} % of the faults are in mapped files. An allocator has no part in it; \
                 reading instead of mapping, MAP_POPULATE or madvise(MADV_POPULATE_READ) has.",
                100.0 * f.share(Kind::File)
            )
        },
    ),
    rule(
        |f| is_large(f, Kind::OwnMapping),
        |f| {
            format!(
                "{:.0} % of the faults are in memory that the program maps itself, past malloc: a \
                 runtime with an allocator of its own, or buffers. Whoever unmaps it could keep \
                 it; Python does with PYTHONMALLOC=malloc on primalloc.",
                100.0 * f.share(Kind::OwnMapping)
            )
        },
    ),
    rule(
        |f| {
            [Kind::Allocator, Kind::Stack, Kind::File, Kind::OwnMapping]
                .iter()
                .all(|k| !is_large(f, *k))
        },
        |_| {
            "No kind of memory has most of the faults: the table of call sites tells more."
                .to_owned()
        },
    ),
];

/// "327,754 minor faults, 588,890 a second at worst".
pub fn minor_faults_text(findings: &Findings) -> String {
    let count = format!("{} minor faults", with_thousands(findings.minor_faults));
    match findings.worst_rate() {
        Some(rate) => format!("{count}, {} a second at worst", with_thousands(rate.round() as u64)),
        None => count,
    }
}

/// What makes an allocator keep memory that it would return.
const CURES: [(&str, &str); 5] = [
    (
        GLIBC,
        "glibc does with MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0 in the environment, and \
         then never gives any back.",
    ),
    (PRIMALLOC, "PRIMALLOC_PURGE_DELAY=10s makes it keep free memory for longer."),
    (
        "jemalloc",
        "jemalloc does with MALLOC_CONF=oversize_threshold:0,dirty_decay_ms:-1 in the environment.",
    ),
    ("mimalloc", "mimalloc does with MIMALLOC_PURGE_DELAY=-1 in the environment."),
    ("tcmalloc", "tcmalloc does with TCMALLOC_RELEASE_RATE=0 in the environment."),
];

/// What CURES has primalloc do.
const CURE_DELAY: Duration = Duration::from_secs(10);
const ENDLESS_CURE: &str = "It gives no free memory back by itself here, as PRIMALLOC_PURGE is 0: \
     the program has it given back, or reads memory before it writes it.";

fn cure(findings: &Findings) -> String {
    let allocator = findings.subject.allocator.as_deref().unwrap_or_default();
    let own = CURES.iter().find(|(name, _)| *name == allocator).map_or("", |(_, cure)| cure);
    if allocator == PRIMALLOC {
        return match findings.keeps_for {
            Some(Duration::MAX) => ENDLESS_CURE.to_owned(),
            Some(delay) if delay >= CURE_DELAY => format!(
                "It keeps free memory for {} s already; PRIMALLOC_PURGE=0 makes it keep that for \
                 good.",
                with_thousands(delay.as_secs())
            ),
            _ => own.to_owned(),
        };
    }
    let command = match findings.subject.pid {
        None => &findings.subject.command,
        Some(_) => "PROGRAM",
    };
    let ours = format!("primalloc keeps memory that is used again: primalloc run -- {command}");
    if own.is_empty() { ours } else { format!("{ours}\n{own}") }
}

fn is_large(findings: &Findings, kind: Kind) -> bool {
    findings.share(kind) >= LARGE_SHARE
}

/// Many of the faults that count as the allocator's may be in the program's own mappings.
fn is_guess(findings: &Findings) -> bool {
    findings.guessed_share(Kind::Allocator) >= GUESSED_SHARE
}

fn is_allocators(findings: &Findings) -> bool {
    is_large(findings, Kind::Allocator) && !is_guess(findings)
}

fn repeated(findings: &Findings) -> Option<f64> {
    findings.repeated_share(Kind::Allocator)
}

/// Some of the allocator's pages fault again. Where these are not followed, the sizes tell, unless
/// it is many processes that each take memory once.
fn comes_again(findings: &Findings) -> bool {
    let by_sizes = || findings.processes < MANY_PROCESSES && turnover(findings) >= TURNOVER;
    repeated(findings).map_or_else(by_sizes, |share| share >= SOME_SHARE)
}

fn allocator(findings: &Findings) -> &str {
    findings.subject.allocator.as_deref().unwrap_or("the allocator")
}

/// How many times the most that was resident has been faulted in.
fn turnover(findings: &Findings) -> f64 {
    let brought_in = findings.minor_faults * PAGE_BYTES;
    brought_in as f64 / findings.peak_resident_bytes.max(PAGE_BYTES) as f64
}

/// The last paragraph of every report.
pub fn advice(findings: &Findings) -> Vec<String> {
    let mut sentences = Vec::new();
    for rule in RULES.iter().filter(|rule| (rule.applies)(findings)) {
        sentences.push((rule.says)(findings));
        if rule.is_last_word {
            break;
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::super::Timeline;
    use super::super::sample::storm;
    use super::*;

    fn with_shares(shares: [f64; 5]) -> Findings {
        let mut findings = storm();
        for (row, share) in findings.kinds.iter_mut().zip(shares) {
            (row.share, row.repeated_share) = (share, Some(0.0));
        }
        findings
    }

    fn said(findings: &Findings) -> String {
        advice(findings).join("\n")
    }

    #[test]
    fn the_storm_of_returned_memory_is_named_with_its_cures() {
        let text = said(&storm());
        assert!(
            text.contains("glibc returns memory to the system and takes the same memory again")
        );
        assert!(text.contains("95 %"));
        assert!(text.contains("primalloc run -- ./solver -n 'big file'"));
        assert!(text.contains("MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0"));
    }

    #[test]
    fn the_cure_is_that_of_the_allocator() {
        let mut findings = storm();
        for (name, word) in [
            ("jemalloc", "dirty_decay_ms:-1"),
            ("mimalloc", "MIMALLOC_PURGE_DELAY"),
            ("tcmalloc", "TCMALLOC_RELEASE_RATE"),
            ("scudo", "primalloc run"),
        ] {
            findings.subject.allocator = Some(name.to_owned());
            assert!(said(&findings).contains(word), "{name}");
        }
        findings.subject.allocator = Some(PRIMALLOC.to_owned());
        let text = said(&findings);
        assert!(text.contains("PRIMALLOC_PURGE_DELAY") && !text.contains("primalloc run"));
    }

    #[test]
    fn where_pages_are_not_followed_sizes_tell_what_comes_again() {
        let mut findings = storm();
        (findings.every, findings.kinds[0].repeated_share) = (100, None);
        let text = said(&findings);
        assert!(text.contains("brought in 19 times as much"), "{text}");
        assert!(text.contains("glibc returns memory") && text.contains("MALLOC_TRIM"), "{text}");
        findings.kinds[0].guessed_share = 1.0;
        let text = said(&findings);
        assert!(text.contains("it does not show whose that is: glibc's, or"), "{text}");
        assert!(text.contains("maps itself. Without --every it shows. Memory there"), "{text}");
        findings.kinds[0].guessed_share = 0.0;
        findings.peak_resident_bytes = 2 << 30;
        assert!(said(&findings).contains("for the first time"), "{}", said(&findings));
    }

    #[test]
    fn no_setting_is_advised_that_is_in_force() {
        let mut findings = storm();
        findings.subject.allocator = Some(PRIMALLOC.to_owned());
        for (seconds, words) in [(1, "PRIMALLOC_PURGE_DELAY=10s"), (10, "for 10 s already")] {
            findings.keeps_for = Some(Duration::from_secs(seconds));
            assert!(said(&findings).contains(words), "{}", said(&findings));
        }
        assert!(!said(&findings).contains("PURGE_DELAY"));
        findings.keeps_for = Some(Duration::MAX);
        let text = said(&findings);
        assert!(text.contains("PRIMALLOC_PURGE is 0") && !text.contains("DELAY"), "{text}");
    }

    #[test]
    fn where_memory_may_be_the_programs_own_no_allocator_is_blamed() {
        let mut findings = storm();
        findings.subject.allocator = Some("jemalloc".to_owned());
        findings.kinds[0].guessed_share = 0.9;
        let text = said(&findings);
        assert!(text.contains("jemalloc's, or what the program maps itself"), "{text}");
        assert!(text.contains("If it is the allocator that returns it: primalloc keeps"), "{text}");
        assert!(text.contains("dirty_decay_ms") && !text.contains("jemalloc returns"), "{text}");
        findings.kinds[0].repeated_share = Some(0.0);
        let text = said(&findings);
        assert!(!text.contains("returned") && !text.contains("dirty_decay_ms"), "{text}");
    }

    #[test]
    fn of_a_running_process_the_program_is_not_spelled_out() {
        let mut findings = storm();
        findings.subject.pid = Some(7);
        assert!(said(&findings).contains("primalloc run -- PROGRAM"));
    }

    #[test]
    fn each_kind_has_its_own_words() {
        for (shares, words) in [
            ([0.9, 0.1, 0.0, 0.0, 0.0], "for the first time"),
            ([0.1, 0.9, 0.0, 0.0, 0.0], "are in stacks"),
            ([0.1, 0.0, 0.9, 0.0, 0.0], "are in mapped files. An allocator has no part"),
            ([0.1, 0.0, 0.0, 0.9, 0.0], "maps itself"),
            ([0.3, 0.2, 0.2, 0.2, 0.1], "No kind of memory has most"),
        ] {
            assert!(said(&with_shares(shares)).contains(words), "{words}");
        }
        let mut many = with_shares([0.1, 0.0, 0.9, 0.0, 0.0]);
        many.processes = 40;
        assert!(said(&many).contains("40 processes ran"));
        let mut mixed = with_shares([0.9, 0.1, 0.0, 0.0, 0.0]);
        mixed.kinds[0].repeated_share = Some(0.5);
        assert!(said(&mixed).contains("read before it is first written"));
    }

    #[test]
    fn larger_pages_are_asked_for_in_the_allocators_own_way() {
        let mut findings = with_shares([0.9, 0.1, 0.0, 0.0, 0.0]);
        assert!(said(&findings).contains("glibc.malloc.hugetlb=1"));
        findings.subject.allocator = Some(PRIMALLOC.to_owned());
        assert!(said(&findings).contains("PRIMALLOC_THP=always"));
    }

    #[test]
    fn few_faults_are_no_storm() {
        let mut findings = storm();
        findings.minor_faults = 900;
        let text = said(&findings);
        assert!(text.contains("no storm") && !text.contains("returns"), "{text}");
        // The worst rate of a short program says nothing: it is that of its start.
        assert!(text.starts_with("900 minor faults in all are no storm: they cost"), "{text}");
        findings.minor_faults = 100_000;
        findings.timeline = Timeline::new(Some(Duration::from_secs(100)));
        findings.timeline.push(Duration::from_secs(100), (100_000, 0), 1, 1);
        let text = said(&findings);
        assert!(text.starts_with("100,000 minor faults, 1,000 a second at worst: "), "{text}");
        assert!(text.contains("no storm"), "{text}");
    }

    #[test]
    fn without_kinds_the_sizes_still_tell() {
        let mut findings = storm();
        findings.unattributed = Some("--no-perf was given".to_owned());
        findings.kinds.clear();
        assert!(said(&findings).contains("MALLOC_TRIM_THRESHOLD_"));
        findings.peak_resident_bytes = 2 << 30;
        assert!(said(&findings).contains("for the first time"));
    }

    #[test]
    fn the_disk_is_mentioned_beside_all_else() {
        let mut findings = storm();
        findings.major_faults = 5000;
        let text = said(&findings);
        assert!(
            text.contains("5,000 faults waited for the disk") && text.contains("takes the same")
        );
    }
}
