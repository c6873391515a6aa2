//! What was found, in plain words: what takes most, and what would change that.

use std::ffi::OsStr;

use super::{Explanation, SizeRow, Source, Use};
use crate::output::{bytes_text, printable, shell_word, with_thousands};

/// What is less is not worth a word.
const SHARE_MIN: f64 = 0.1;
const BYTES_MIN: u64 = 4 << 20;
/// So many sizes of free blocks are named, if they hold as much of them, and most together.
const SIZES_SHOWN: usize = 3;

pub fn advice(found: &Explanation) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(cut_off(found));
    sentences.extend(unread(found));
    sentences.extend(options_unread(found));
    if !found.knows_malloc() {
        sentences
            .push("Whether it runs on primalloc is not told by what is left of it.".to_owned());
    } else if !found.is_ours {
        sentences.push(not_ours(found));
    }
    let rules = [in_use, free_pages, free_blocks, caches, anonymous, stacks, shared];
    let mut remarks: Vec<Remark> = rules.iter().filter_map(|rule| rule(found)).collect();
    remarks.sort_by_key(|remark| std::cmp::Reverse(remark.bytes));
    sentences.extend(remarks.into_iter().map(|remark| remark.sentence));
    sentences
}

fn not_ours(found: &Explanation) -> String {
    let but = match &found.allocator {
        Some(other) => {
            format!(" but on {} ({})", other.name, printable(&other.library.to_string_lossy()))
        }
        None => String::new(),
    };
    format!(
        "It does not run on primalloc{but}, so nobody can tell what of its anonymous memory is in \
         use and what malloc keeps. {}",
        on_primalloc(found, "that")
    )
}

/// As a command would name it.
pub fn program(found: &Explanation) -> String {
    shell_word(OsStr::new(&printable(&found.program)))
}

/// How somebody gets to see `what` only a process on primalloc tells.
pub fn on_primalloc(found: &Explanation, what: &str) -> String {
    match found.is_static {
        true => format!(
            "To see {what}, link it with libprimalloc.a: its program is static, and no library \
             can be preloaded into it."
        ),
        false => {
            format!("Run it on primalloc to see {what}: primalloc run -- {} ...", program(found))
        }
    }
}

/// Why the heap is not told apart although it is primalloc's.
pub fn unread(found: &Explanation) -> Option<String> {
    let why = found.unread.as_ref()?;
    Some(format!("It runs on primalloc, but its heap is not told apart here: {why}."))
}

fn options_unread(found: &Explanation) -> Option<String> {
    let why = found.options_unread.as_ref()?;
    Some(format!("Which of primalloc's options are set in it is not told here: {why}."))
}

fn cut_off(found: &Explanation) -> Option<String> {
    let Source::Core { missing_bytes, lacks_notes, .. } = found.source else { return None };
    let memory = format!(
        "{} of what it should hold are missing, so that all figures are too small",
        bytes_text(missing_bytes)
    );
    let notes = "what it says of its program, threads and files, which a debugger writes last, is \
                 missing";
    match (missing_bytes, lacks_notes) {
        (0, false) => None,
        (0, true) => Some(format!("The core is cut off: {notes}.")),
        (_, false) => Some(format!("The core is cut off: {memory}.")),
        (_, true) => Some(format!("The core is cut off: {memory}; {notes}, too.")),
    }
}

/// What is to be said of so many bytes; the most is said first.
struct Remark {
    bytes: u64,
    sentence: String,
}

/// The bytes, their size and their share in words, if they are worth one.
fn worth_telling(found: &Explanation, used_for: Use) -> Option<(u64, String, String)> {
    let bytes = found.bytes(used_for);
    let share = found.share(used_for);
    let is_much = bytes >= BYTES_MIN && share >= SHARE_MIN;
    is_much.then(|| (bytes, bytes_text(bytes), format!("{:.0} %", share * 100.0)))
}

fn counted_threads(count: u64) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{} threads", with_thousands(count)) }
}

fn in_use(found: &Explanation) -> Option<Remark> {
    let uses = [Use::Blocks, Use::LargeBlocks, Use::Heaps];
    let bytes: u64 = uses.iter().map(|used_for| found.bytes(*used_for)).sum();
    let share = bytes as f64 / found.resident_bytes.max(1) as f64;
    let what = match found.is_hardened() {
        true => "blocks in use, or free ones, which nobody tells apart in a hardened heap",
        false => "blocks that the program has allocated and not freed",
    };
    let sentence = format!(
        "{}, {:.0} %, are {what}. Who allocated them: primalloc profile -- {} ...",
        bytes_text(bytes),
        share * 100.0,
        program(found)
    );
    (bytes >= BYTES_MIN && share >= SHARE_MIN).then_some(Remark { bytes, sentence })
}

fn free_pages(found: &Explanation) -> Option<Remark> {
    let (bytes, size, share) = worth_telling(found, Use::FreePages)?;
    let sentence = format!(
        "{size}, {share}, are free pages, at hand if the program wants them again: those that \
         nobody wanted for purge_delay go back, above 8 MiB, or 32 where one thread computes, also \
         while the program sleeps. With PRIMALLOC_TRIM_THRESHOLD=0 they go at once, for more page \
         faults."
    );
    Some(Remark { bytes, sentence })
}

fn free_blocks(found: &Explanation) -> Option<Remark> {
    let (bytes, size, share) = worth_telling(found, Use::FreeBlocks)?;
    let mut rows: Vec<&SizeRow> = found.sizes.iter().collect();
    rows.retain(|row| row.free_bytes as f64 >= SHARE_MIN * bytes as f64);
    rows.sort_by_key(|row| std::cmp::Reverse(row.free_bytes));
    rows.truncate(SIZES_SHOWN);
    if rows.iter().map(|row| row.free_bytes).sum::<u64>() < bytes / 2 {
        rows.clear();
    }
    let named = |row: &&SizeRow| with_thousands(row.block_bytes);
    let most = match listed(&rows.iter().map(named).collect::<Vec<_>>()) {
        Some(sizes) => format!(", most of {sizes} bytes"),
        None => String::new(),
    };
    let sentence = format!(
        "{size}, {share}, are free blocks{most}: they lie between blocks in use, and only \
         allocations of their own size can have them until those are freed."
    );
    Some(Remark { bytes, sentence })
}

fn caches(found: &Explanation) -> Option<Remark> {
    let (bytes, size, share) = worth_telling(found, Use::Caches)?;
    let count = found.part(Use::Caches).and_then(|part| part.count).unwrap_or(0);
    let sentence = format!(
        "{size}, {share}, are free blocks at hand for {}. PRIMALLOC_CACHE_THREAD bounds what each \
         may keep, PRIMALLOC_CACHE_TOTAL what all may, for more slow calls.",
        counted_threads(count)
    );
    Some(Remark { bytes, sentence })
}

fn anonymous(found: &Explanation) -> Option<Remark> {
    let (bytes, size, share) = worth_telling(found, Use::Anonymous)?;
    // Of a running process it shows what is touched from then on.
    let touches = match (&found.source, found.pid) {
        (Source::Process, Some(pid)) => format!("more of it: primalloc faults --pid {pid}"),
        _ => format!("it: primalloc faults -- {} ...", program(found)),
    };
    let sentence = format!(
        "{size}, {share}, are anonymous memory that did not come from primalloc: the program or a \
         library maps it by itself. Who touches {touches}"
    );
    found.knows_heap().then_some(Remark { bytes, sentence })
}

fn stacks(found: &Explanation) -> Option<Remark> {
    let (bytes, size, share) = worth_telling(found, Use::Stacks)?;
    let threads = counted_threads(found.threads);
    let sentence = format!("{size}, {share}, are stacks of {threads}, of which no malloc knows.");
    Some(Remark { bytes, sentence })
}

fn shared(found: &Explanation) -> Option<Remark> {
    let (bytes, size, share) = worth_telling(found, Use::Shared)?;
    let sentence =
        format!("{size}, {share}, are shared memory, which counts for every process that maps it.");
    Some(Remark { bytes, sentence })
}

/// "a, b and c".
pub fn listed(words: &[String]) -> Option<String> {
    match words {
        [] => None,
        [only] => Some(only.clone()),
        [firsts @ .., last] => Some(format!("{} and {last}", firsts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::sample::{core, explanation, service};

    fn advised(parts: &[(Use, u64, Option<u64>)]) -> String {
        advice(&explanation(parts)).join("\n")
    }

    #[test]
    fn what_is_little_is_not_told() {
        let rest = (Use::Programs, 100, None);
        assert_eq!(advised(&[(Use::FreePages, 3, None), rest]), "");
        assert_eq!(advised(&[(Use::FreePages, 9, None), rest]), "");
        assert!(
            advised(&[(Use::FreePages, 12, None), rest]).contains("12.0 MiB, 11 %, are free pages")
        );
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let alone = |used_for| advised(&[(used_for, 50, Some(3)), (Use::Programs, 50, None)]);
        assert!(alone(Use::LargeBlocks).contains("primalloc profile -- served"));
        assert!(alone(Use::FreePages).contains("PRIMALLOC_TRIM_THRESHOLD=0"));
        assert!(alone(Use::Caches).contains("at hand for 3 threads. PRIMALLOC_CACHE_THREAD"));
        assert!(alone(Use::Anonymous).contains("primalloc faults --pid 4711"));
        assert!(alone(Use::Stacks).contains("stacks of 12 threads"));
        let sizes = "free blocks, most of 1,024 bytes: they lie";
        assert!(alone(Use::FreeBlocks).contains(sizes), "{}", alone(Use::FreeBlocks));
        assert_eq!(alone(Use::Files), "");
        let many = advised(&[(Use::FreeBlocks, 70, None)]);
        assert!(many.contains("are free blocks: they lie"), "not most of one size: {many}");
    }

    #[test]
    fn of_a_hardened_heap_no_block_is_said_to_be_in_use() {
        let sentences = advised(&[(Use::Blocks, 50, None), (Use::LargeBlocks, 8, Some(1))]);
        assert!(
            sentences.starts_with("58.0 MiB, 100 %, are blocks in use, or free"),
            "{sentences}"
        );
        assert!(!sentences.contains("not freed"), "{sentences}");
    }

    #[test]
    fn who_left_a_core_is_watched_no_more() {
        let sentences = advice(&core()).join("\n");
        assert!(sentences.starts_with("The core is cut off: 3.00 MiB"), "{sentences}");
        assert!(sentences.contains("primalloc faults -- served ..."), "{sentences}");
    }

    #[test]
    fn of_others_nothing_is_claimed() {
        let mut found = service();
        found.is_ours = false;
        found.parts.retain(|part| part.used_for == Use::Anonymous);
        let sentences = advice(&found);
        assert_eq!(sentences.len(), 1, "{sentences:?}");
        assert!(sentences[0].contains("does not run on primalloc"));
        found.unread = Some("/proc/4711/mem cannot be read".to_owned());
        assert!(advice(&found)[0].contains("not told apart here: /proc/4711/mem cannot be read."));
    }

    #[test]
    fn what_is_advised_can_be_done() {
        let mut found = Explanation { is_ours: false, ..service() };
        found.parts.clear();
        assert!(advice(&found)[0].ends_with("primalloc run -- served ..."));
        found.is_static = true;
        let sentence = &advice(&found)[0];
        assert!(sentence.contains("libprimalloc.a") && !sentence.contains("run --"), "{sentence}");
        let library = "/lib/libjemalloc.so.2".into();
        found.allocator = Some(crate::explain::Allocator { name: "jemalloc", library });
        assert!(advice(&found)[0].contains("but on jemalloc (/lib/libjemalloc.so.2), so nobody"));
    }
}
