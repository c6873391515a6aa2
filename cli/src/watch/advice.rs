//! What was seen, in plain words: whether it grows, what of it, and who would know more.

use super::{EVERY_MIN, End, SizeTrend, Trend, Watched};
use crate::explain::{Use, listed, on_primalloc, program, unread};
use crate::output::{bytes_text, printable, time_text, with_thousands};

/// So many sizes are named, if they are as much of the change, and most of it together.
const SIZES_SHOWN: usize = 3;
const SIZE_SHARE_MIN: f64 = 0.1;

pub fn advice(found: &Watched) -> Vec<String> {
    let mut sentences = Vec::new();
    if let End::Unreadable { why } = &found.end {
        sentences.push(format!("It could not be looked at to the end: {why}."));
    }
    sentences.extend(found.began_as.as_deref().map(became_another));
    sentences.push(if found.is_one_look() { one_look(found) } else { whole(found) });
    sentences.extend(swapped(found));
    sentences.extend(found.peak_bytes.map(peak));
    sentences.extend(unread(&found.last));
    let mut grown = found.trends();
    grown.retain(|trend| trend.has_grown);
    grown.sort_by_key(|trend| std::cmp::Reverse(trend.change_bytes));
    sentences.extend(grown.iter().filter_map(|trend| remark(found, trend)));
    let is_mallocs = |trend: &Trend| matches!(trend.used_for, Some(Use::Brk | Use::Anonymous));
    if !found.last.is_ours && grown.iter().any(is_mallocs) {
        sentences.push(on_primalloc(&found.last, "what of that is in use"));
    }
    sentences
}

fn became_another(first: &str) -> String {
    format!(
        "It began as {}, and has become another program since: what was seen before is left out.",
        printable(first)
    )
}

fn one_look(found: &Watched) -> String {
    let when = match found.end {
        End::ProcessEnded => "It was over after one look, which",
        _ => "There was one look, which",
    };
    match found.moments.interval > EVERY_MIN {
        true => {
            format!("{when} tells nothing; --every {}ms looks more often.", EVERY_MIN.as_millis())
        }
        false => format!("{when} tells nothing."),
    }
}

/// Of what leaks where memory is short nothing more is resident.
fn swapped(found: &Watched) -> Option<String> {
    let more = found.last.swapped_bytes.saturating_sub(found.first.swapped_bytes);
    let sentence = format!("{} more are swapped out, and not resident.", bytes_text(more));
    (more as i64 >= found.change_min()).then_some(sentence)
}

fn peak(bytes: u64) -> String {
    format!(
        "The kernel counted {} resident at the peak, of it or of a process that it waited for.",
        bytes_text(bytes)
    )
}

fn whole(found: &Watched) -> String {
    let trend = found.whole();
    let [first, last] = [trend.first_bytes, trend.last_bytes].map(bytes_text);
    let time = time_text(found.seconds());
    let change = bytes_text(trend.change_bytes.unsigned_abs());
    let enough = "Watch it longer to see whether it comes to rest.";
    match &trend {
        _ if trend.still_grows => {
            format!("It has grown by {change} in {time}, from {first} to {last}, to the very end.")
        }
        _ if trend.has_grown && !found.is_seen_throughout() => {
            format!("It has grown by {change} in {time}, from {first} to {last}. {enough}")
        }
        _ if trend.has_grown => format!(
            "It has grown by {change} in {time}, from {first} to {last}, but not throughout: it \
             may be warming up."
        ),
        _ if trend.change_bytes <= -found.change_min() => {
            format!("It has become smaller by {change} in {time}, from {first} to {last}.")
        }
        _ if first == last => {
            format!("It has not grown in {time}: {first} at first, {last} in the end.")
        }
        _ => format!(
            "It has not grown in {time} by as much as counts, {}: {first} at first, {last} in the \
             end.",
            bytes_text(found.change_min() as u64)
        ),
    }
}

fn remark(found: &Watched, trend: &Trend) -> Option<String> {
    let change = bytes_text(trend.change_bytes as u64);
    let program = &program(&found.last);
    let so = if trend.still_grows { ", in every quarter of the time" } else { "" };
    let knows_heap = found.last.knows_heap();
    Some(match trend.used_for? {
        Use::Blocks | Use::LargeBlocks | Use::Heaps => {
            let sizes = sizes(found, trend).unwrap_or_default();
            let is_lost = if trend.still_grows { lost(program) } else { String::new() };
            let what = match found.last.is_hardened() {
                true => "in use, or free: its heap is hardened",
                false => "that the program has allocated and not freed",
            };
            format!(
                "{change} more are blocks {what}{sizes}{so}. \
                 Who allocates them: primalloc profile -- {program} ...{is_lost}"
            )
        }
        Use::FreeBlocks => format!(
            "{change} more are free blocks that lie between blocks in use{so}: only allocations of \
             their own size can have them until those are freed."
        ),
        Use::FreePages => format!(
            "{change} more are free pages{so}: a reserve, which goes back when nobody wants it."
        ),
        Use::Caches => format!("{change} more are free blocks at hand for threads{so}."),
        Use::Brk if !knows_heap => format!("{change} more are the heap by brk{so}."),
        Use::Anonymous if !knows_heap => format!("{change} more are anonymous memory{so}."),
        Use::Brk | Use::Anonymous => format!(
            "{change} more are memory that did not come from primalloc{so}: the program or a \
             library maps it by itself. Who touches it: primalloc faults{}",
            match found.last.pid.filter(|_| found.end != End::ProcessEnded) {
                Some(pid) => format!(" --pid {pid}"),
                None => format!(" -- {program} ..."),
            }
        ),
        Use::Stacks => {
            let [first, last] =
                [&found.first, &found.last].map(|seen| with_thousands(seen.threads));
            format!("{change} more are stacks{so}: {first} threads at first, {last} in the end.")
        }
        Use::Shared => format!("{change} more are shared with other processes{so}."),
        Use::Records | Use::Programs | Use::Files => return None,
    })
}

fn lost(program: &str) -> String {
    format!(" Whether anything still points to them: primalloc leaks -- {program} ...")
}

/// The sizes that make most of the change, if a few do.
fn sizes(found: &Watched, trend: &Trend) -> Option<String> {
    if trend.used_for != Some(Use::Blocks) {
        return None;
    }
    let mut sizes = found.sizes();
    let is_much =
        |size: &SizeTrend| size.change_bytes as f64 >= SIZE_SHARE_MIN * trend.change_bytes as f64;
    sizes.retain(is_much);
    sizes.truncate(SIZES_SHOWN);
    let changed: i64 = sizes.iter().map(|size| size.change_bytes).sum();
    if changed < trend.change_bytes / 2 {
        return None;
    }
    let named: Vec<String> = sizes.iter().map(|size| with_thousands(size.block_bytes)).collect();
    listed(&named).map(|sizes| format!(", most of {sizes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Part;
    use crate::watch::sample::{at_rest, leaking, watched};

    #[test]
    fn what_grows_to_the_end_is_told_with_who_knows_more() {
        let sentences = advice(&leaking());
        assert_eq!(sentences.len(), 3, "{sentences:?}");
        assert!(sentences[0].starts_with("It has grown by 47.0 MiB in 5.2 minutes, from 106 MiB"));
        assert!(sentences[0].ends_with("to the very end."), "{}", sentences[0]);
        assert!(sentences[1].contains("not freed, most of 1,024 bytes, in every quarter"));
        assert!(sentences[1].contains("primalloc leaks -- served"), "{}", sentences[1]);
        assert!(sentences[2].starts_with("16.0 MiB more are free pages: a reserve"));
    }

    #[test]
    fn who_is_at_rest_is_not_blamed() {
        let sentences = advice(&at_rest());
        assert_eq!(
            sentences,
            ["It has not grown in 110 seconds: 122 MiB at first, 122 MiB in the end."]
        );
    }

    #[test]
    fn of_what_changes_too_little_it_is_told_what_would_count() {
        let mut found = at_rest();
        let last = found.moments.all.last_mut().unwrap();
        last.resident_bytes += 1 << 20;
        let sentences = advice(&found);
        assert_eq!(
            sentences,
            ["It has not grown in 110 seconds by as much as counts, 1.22 MiB: 122 MiB at first, \
              123 MiB in the end."]
        );
    }

    #[test]
    fn of_other_mallocs_each_part_has_one_sentence() {
        let mut found = watched(&[(0, 0, 10), (0, 0, 40)]);
        found.last.is_ours = false;
        for (moment, bytes) in found.moments.all.iter_mut().zip([0, 1 << 20]) {
            moment.parts.push(Part { used_for: Use::Brk, resident_bytes: bytes, count: None });
        }
        let sentences = advice(&found);
        let expected = [
            "30.0 MiB more are anonymous memory.",
            "1.00 MiB more are the heap by brk.",
            "Run it on primalloc to see what of that is in use: primalloc run -- served ...",
        ];
        assert_eq!(sentences[1..], expected);
    }

    #[test]
    fn one_look_is_no_course() {
        let mut found = watched(&[(2, 0, 0)]);
        found.end = End::ProcessEnded;
        found.set_peak(found.last.resident_bytes);
        let often =
            "It was over after one look, which tells nothing; --every 20ms looks more often.";
        assert_eq!(advice(&found), [often]);
        found.set_peak(17 << 20);
        assert!(advice(&found)[1].starts_with("The kernel counted 17.0 MiB resident at the peak"));
        found.moments.interval = EVERY_MIN;
        assert_eq!(advice(&found)[0], "It was over after one look, which tells nothing.");
    }

    #[test]
    fn two_looks_are_not_enough_for_a_verdict() {
        let sentences = advice(&watched(&[(70, 4, 24), (80, 4, 24)])).join("\n");
        assert!(sentences.contains("Watch it longer"), "{sentences}");
        assert!(!sentences.contains("quarter"), "{sentences}");
    }

    #[test]
    fn only_sizes_that_are_most_of_it_are_called_so() {
        let mut found = leaking();
        found.last.sizes[2].in_use_bytes -= 20 << 20;
        let sentences = advice(&found).join("\n");
        assert!(sentences.contains("allocated and not freed, in every quarter"), "{sentences}");
    }

    #[test]
    fn what_is_swapped_out_has_not_gone() {
        let mut found = at_rest();
        found.last.swapped_bytes = 30 << 20;
        assert_eq!(advice(&found)[1], "30.0 MiB more are swapped out, and not resident.");
        found.first.swapped_bytes = 30 << 20;
        assert_eq!(advice(&found).len(), 1);
    }

    #[test]
    fn what_comes_from_elsewhere_is_told() {
        let looks: Vec<(u64, u64, u64)> = (0..16).map(|index| (70, 4, 20 + index)).collect();
        let mut found = watched(&looks);
        let sentences = advice(&found).join("\n");
        assert!(sentences.contains("primalloc faults --pid 4711"), "{sentences}");
        found.end = End::ProcessEnded;
        let sentences = advice(&found).join("\n");
        assert!(sentences.contains("primalloc faults -- served ..."), "{sentences}");
        found.last.is_ours = false;
        found.end = End::Unreadable { why: "it is another user's now".to_owned() };
        let sentences = advice(&found).join("\n");
        assert!(sentences.contains("primalloc run -- served ..."), "{sentences}");
        assert!(
            sentences.starts_with("It could not be looked at to the end: it is"),
            "{sentences}"
        );
    }
}
