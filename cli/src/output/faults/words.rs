//! Names and figures that the formats share.

use crate::faults::{Findings, Kind, KindRow, SiteRow, minor_faults_text};
use crate::output::printable;
use crate::output::quantity::{bytes_text, percent, with_thousands};

/// So many are worth a word.
const GUESSED_SHARE_TOLD: f64 = 0.05;

pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Allocator => "allocator",
        Kind::Stack => "stack",
        Kind::File => "file",
        Kind::OwnMapping => "own mappings",
        Kind::Other => "other",
    }
}

pub fn kind_explained(row: &KindRow) -> &'static str {
    match row.kind {
        Kind::Allocator if row.guessed_share >= GUESSED_SHARE_TOLD => {
            "the heap and anonymous memory"
        }
        Kind::Allocator => "the heap and malloc's mappings",
        Kind::Stack => "of the threads",
        Kind::File => "programs, libraries, mapped files",
        Kind::OwnMapping => "anonymous memory, mapped past malloc",
        Kind::Other => "shared memory, the kernel's own pages",
    }
}

/// Nothing where there is none, or where pages are not followed.
pub fn repeated_text(row: &KindRow) -> String {
    let share = row.repeated_share.filter(|_| row.minor_faults + row.major_faults > 0);
    share.map_or_else(|| "–".to_owned(), percent)
}

/// The kinds as the reader sees them: what the program maps itself is a part of other.
pub fn visible_kinds(findings: &Findings) -> impl Iterator<Item = &KindRow> {
    findings
        .kinds
        .iter()
        .filter(|row| row.kind != Kind::OwnMapping || row.minor_faults + row.major_faults > 0)
}

/// "solve (solver)", or what can be said of nameless code.
pub fn site_name(site: &SiteRow) -> String {
    let object = site.object.as_ref().and_then(|path| path.file_name());
    let object = object.map(|name| printable(&name.to_string_lossy()));
    match (&site.function, object) {
        (Some(function), _) => printable(function),
        (None, Some(object)) => format!("(in {object})"),
        (None, None) => "(unknown)".to_owned(),
    }
}

pub fn site_place(site: &SiteRow) -> String {
    let object = site.object.as_ref().and_then(|path| path.file_name());
    let object = object.map_or_else(String::new, |name| printable(&name.to_string_lossy()));
    match &site.line {
        Some(line) => format!("{object}  {}", printable(line)),
        None => object,
    }
}

/// A command that was typed may have lines; that of a running process is another's.
pub fn command(findings: &Findings) -> String {
    let command = &findings.subject.command;
    findings.subject.pid.map_or_else(|| command.clone(), |_| printable(command))
}

/// The line below the command.
pub fn caption(findings: &Findings) -> String {
    let allocator = findings.subject.allocator.as_deref().unwrap_or("an unknown allocator");
    let processes = match findings.processes {
        0 | 1 => String::new(),
        count => format!(", {} processes", with_thousands(count as u64)),
    };
    let whom = findings.subject.pid.map_or_else(String::new, |pid| format!("process {pid}, "));
    format!("{whom}{:.2} s on {allocator}{processes}", findings.seconds)
}

pub fn totals(findings: &Findings) -> String {
    let mapped = findings.virtual_bytes();
    let mapped = mapped.map_or_else(String::new, |size| format!(", {} virtual", bytes_text(size)));
    format!(
        "{}; {} major; at most {} resident{mapped}",
        minor_faults_text(findings),
        with_thousands(findings.major_faults),
        bytes_text(findings.peak_resident_bytes),
    )
}

/// What the reader must know of how it was measured.
pub fn remarks(findings: &Findings) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(why) = &findings.unattributed {
        remarks.push(format!("Faults are counted, not attributed: {why}."));
        return remarks;
    }
    if !findings.sees_kernel {
        remarks.push(
            "Faults inside of system calls are not in the picture: the kernel shows them to root \
             only, or with kernel.perf_event_paranoid at 1."
                .to_owned(),
        );
    }
    let guessed = findings.share(Kind::Allocator) * findings.guessed_share(Kind::Allocator);
    if guessed >= GUESSED_SHARE_TOLD {
        remarks.push(format!(
            "{} of the faults are in anonymous memory that may be the program's own mappings: they \
             are counted as the allocator's.",
            percent(guessed)
        ));
    }
    remarks.extend(recorded(findings));
    remarks
}

fn recorded(findings: &Findings) -> Option<String> {
    let share = percent(findings.recorded_share);
    let is_whole = findings.recorded_share >= 0.95 || findings.minor_faults == 0;
    match findings.every {
        1 if is_whole => None,
        1 => Some(format!(
            "{share} of the faults have been recorded, the others came too fast: repeated faults \
             are at least so many."
        )),
        every => {
            let lost = match is_whole {
                true => String::new(),
                false => format!(
                    " The records stand for {share} of the faults: others came too fast, or too \
                     few in a thread."
                ),
            };
            Some(format!(
                "One in {} faults is recorded: kinds and call sites are estimates, and which pages \
                 had faulted before does not show.{lost}",
                with_thousands(every)
            ))
        }
    }
}
