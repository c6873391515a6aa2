//! Names of what memory is used for, and figures that the formats share.

use crate::explain::{Explanation, Limit, LimitKind, Part, Setting, SizeRow, Source, Use, Value};
use crate::output::printable;
use crate::output::quantity::{bytes_text, with_thousands};

/// Sizes that hold less than this share of all blocks are shown together.
const SHARE_SHOWN: f64 = 0.01;

pub fn headline(found: &Explanation) -> String {
    let program = printable(&found.program);
    let whose = match found.pid {
        Some(pid) => format!("{program} ({pid})"),
        None => program,
    };
    let size = bytes_text(found.resident_bytes);
    match &found.source {
        Source::Process => format!("{whose}: {size} resident"),
        Source::Core { file, .. } => format!("{whose}: {size} in {}", printable(file)),
    }
}

pub fn totals(found: &Explanation) -> String {
    let whose = match &found.allocator {
        _ if found.is_ours && !found.has_heap => "on primalloc, nothing allocated yet".to_owned(),
        _ if found.is_ours => "on primalloc".to_owned(),
        _ if !found.knows_malloc() => "on an unknown malloc".to_owned(),
        Some(other) => format!("not on primalloc but on {}", other.name),
        None => "not on primalloc".to_owned(),
    };
    let threads = match found.threads {
        1 => "1 thread".to_owned(),
        many => format!("{} threads", with_thousands(many)),
    };
    let mut text = format!("{whose}, {threads}");
    if found.huge_bytes > 0 {
        text += &format!(", {} of the heap in huge pages", bytes_text(found.huge_bytes));
    }
    if found.swapped_bytes > 0 {
        text += &format!(", {} more swapped out", bytes_text(found.swapped_bytes));
    }
    if found.is_core() {
        text += "; pages of zeros, and most of what lies in files, count for nothing";
    }
    text
}

/// What the process may have at most, if anything says so. Each stays in one piece where lines are
/// broken at blanks.
pub fn limits(found: &Explanation) -> Option<String> {
    let limit = |limit: &Limit| {
        let size = bytes_text(limit.limit_bytes);
        let used = limit.used_bytes.map(|used| format!(" ({} in use)", bytes_text(used)));
        let what = match limit.kind {
            LimitKind::Cgroup => "cgroup",
            LimitKind::CgroupHigh => "memory.high",
            LimitKind::AddressSpace => "RLIMIT_AS",
            LimitKind::Data => "RLIMIT_DATA",
        };
        format!("{what} {size}{}", used.unwrap_or_default()).replace(' ', "\u{a0}")
    };
    let limits: Vec<String> = found.limits.iter().map(limit).collect();
    (!limits.is_empty()).then(|| format!("limits: {}", limits.join(", ")))
}

/// Name, value, default, and where it comes from.
pub fn option_cells(setting: &Setting) -> [String; 4] {
    let value = |value: &Value| match value {
        Value::Number(number) => with_unit(*number, setting.unit.as_deref()),
        Value::Word(word) => printable(word),
        Value::Nothing => "–".to_owned(),
    };
    let source = setting.source.clone().unwrap_or_else(|| "–".to_owned());
    [setting.name.clone(), value(&setting.value), value(&setting.default), source]
}

/// As the library writes it: in the largest unit that leaves no rest.
fn with_unit(number: u64, unit: Option<&str>) -> String {
    let units: &[(u64, &str)] = match unit {
        Some("bytes") => &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")],
        Some("ms") => &[(60_000, "min"), (1000, "s")],
        _ => &[],
    };
    let whole = units.iter().find(|(factor, _)| number > 0 && number % factor == 0);
    match (whole, unit) {
        _ if number == 0 => "0".to_owned(),
        (Some((factor, name)), _) => format!("{} {name}", number / factor),
        (None, Some("bytes")) if number == 1 => "1 byte".to_owned(),
        (None, Some("bytes" | "ms")) => {
            format!("{} {}", with_thousands(number), unit.unwrap_or(""))
        }
        _ => with_thousands(number),
    }
}

/// Of a core nobody knows what was resident, but what it holds.
pub fn resident(found: &Explanation) -> &'static str {
    if found.is_core() { "in core" } else { "resident" }
}

/// Of all that is resident.
pub fn share(found: &Explanation, part: &Part) -> f64 {
    part.resident_bytes as f64 / found.resident_bytes.max(1) as f64
}

/// What the rows are called that are shown, the last one perhaps of all others together.
pub fn shown_sizes(rows: &[SizeRow]) -> Vec<(String, SizeRow)> {
    let all: u64 = rows.iter().map(|row| row.resident_bytes).sum();
    let is_shown = |row: &&SizeRow| row.resident_bytes as f64 >= all as f64 * SHARE_SHOWN;
    let (shown, others): (Vec<&SizeRow>, Vec<&SizeRow>) = rows.iter().partition(is_shown);
    let named = |row: &SizeRow| (with_thousands(row.block_bytes), row.clone());
    let mut named: Vec<(String, SizeRow)> = shown.into_iter().map(named).collect();
    if !others.is_empty() {
        named.push((format!("{} more", others.len()), SizeRow::sum(&others)));
    }
    named
}

pub fn name(used_for: Use) -> &'static str {
    match used_for {
        Use::Blocks => "blocks in use",
        Use::LargeBlocks => "large blocks",
        Use::Heaps => "own heaps",
        Use::Caches => "threads' caches",
        Use::FreeBlocks => "free blocks",
        Use::FreePages => "free pages",
        Use::Records => "records",
        Use::Brk => "heap by brk",
        Use::Anonymous => "other anonymous",
        Use::Stacks => "stacks",
        Use::Programs => "program",
        Use::Files => "mapped files",
        Use::Shared => "shared memory",
    }
}

pub fn meaning(part: &Part, knows_heap: bool) -> String {
    let counted = |one: &str, many: &str| match part.count {
        Some(1) => format!("1 {one}"),
        Some(count) => format!("{} {many}", with_thousands(count)),
        None => many.to_owned(),
    };
    match part.used_for {
        Use::Blocks if part.count.is_none() => "in use or free: it is hardened".to_owned(),
        Use::Blocks => counted("block up to 256 KiB", "blocks up to 256 KiB"),
        Use::LargeBlocks => counted("block above 256 KiB", "blocks above 256 KiB"),
        Use::Heaps => "by prim_heap_new, tagged, sampled".to_owned(),
        Use::Caches => format!("free, at hand for {}", counted("thread", "threads")),
        Use::FreeBlocks => "free, between blocks in use".to_owned(),
        Use::FreePages => "free, go back when unwanted".to_owned(),
        Use::Records => "primalloc's, of all that".to_owned(),
        Use::Brk if knows_heap => "not from primalloc".to_owned(),
        Use::Brk => "malloc's, or whoever calls brk".to_owned(),
        Use::Anonymous if knows_heap => "mapped past primalloc".to_owned(),
        Use::Anonymous => "malloc's, and mapped past it".to_owned(),
        Use::Stacks => counted("thread", "threads"),
        Use::Programs => "code and variables, libraries' too".to_owned(),
        Use::Files => "files that it maps".to_owned(),
        Use::Shared => "with other processes".to_owned(),
    }
}
