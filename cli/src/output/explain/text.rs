//! For the terminal: a balance of what is resident, and what follows from it.

use owo_colors::OwoColorize;

use super::words::{headline, meaning, name, resident, share, shown_sizes, totals};
use crate::explain::{Explanation, Part, SizeRow, advice};
use crate::output::quantity::{bytes_text, percent, with_thousands};
use crate::output::table::{listing, wrapped};

/// Eighths of a column, for bars.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const BAR_WIDTH: usize = 12;

pub fn text(found: &Explanation, with_sizes: bool, width: usize) -> String {
    let mut text = format!("{}\n{}\n\n", headline(found).bold(), totals(found).dimmed());
    text += &balance(found);
    if with_sizes && !found.sizes.is_empty() {
        text += &format!("\n{}", sizes(&found.sizes, &resident(found).to_uppercase()));
    }
    text.push('\n');
    for sentence in advice(found) {
        text += &format!("{}\n", wrapped(&sentence, width));
    }
    text
}

fn balance(found: &Explanation) -> String {
    let record = |part: &Part| {
        let share = share(found, part);
        vec![
            name(part.used_for).to_owned(),
            bytes_text(part.resident_bytes),
            percent(share),
            bar(share).cyan().to_string(),
            meaning(part, found.knows_heap()).dimmed().to_string(),
        ]
    };
    let records = found.parts.iter().map(record).collect();
    let resident = resident(found).to_uppercase();
    listing(&["MEMORY", &resident, "SHARE", "", "WHAT IT IS"], &[1, 2], records)
}

/// What is more than nothing is never shown as nothing.
fn bar(share: f64) -> String {
    let eighths = ((share * (BAR_WIDTH * 8) as f64).round() as usize).clamp(1, BAR_WIDTH * 8);
    let whole = "█".repeat(eighths / 8);
    format!("{:BAR_WIDTH$}", whole + EIGHTHS[eighths % 8])
}

fn sizes(rows: &[SizeRow], resident: &str) -> String {
    let bytes = |bytes| if bytes == 0 { "–".to_owned() } else { bytes_text(bytes) };
    let record = |(size, row): (String, SizeRow)| {
        vec![
            size,
            with_thousands(row.blocks),
            bytes(row.in_use_bytes),
            bytes(row.cached_bytes),
            bytes(row.free_bytes),
            bytes(row.resident_bytes),
            percent(row.used_share()),
        ]
    };
    let header = ["SIZE", "IN USE", "BYTES", "CACHED", "FREE", resident, "USED"];
    let records = shown_sizes(rows).into_iter().map(record).collect();
    listing(&header, &[0, 1, 2, 3, 4, 5, 6], records)
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::explain::sample::{core, service};

    #[test]
    fn the_whole_report() {
        let report = strip_str(&text(&service(), true, 80)).to_string();
        insta::assert_snapshot!(report, @"
        served (4711): 200 MiB resident
        on primalloc, 12 threads, 32.0 MiB of the heap in huge pages

        MEMORY           RESIDENT  SHARE                WHAT IT IS
        blocks in use    70.0 MiB   35 %  ████▎         320,011 blocks up to 256 KiB
        large blocks     40.0 MiB   20 %  ██▍           3 blocks above 256 KiB
        threads' caches  3.00 MiB  1.5 %  ▏             free, at hand for 12 threads
        free blocks      32.0 MiB   16 %  █▉            free, between blocks in use
        free pages       20.0 MiB   10 %  █▎            free, go back when unwanted
        records          1.00 MiB  0.5 %  ▏             primalloc's, of all that
        other anonymous  24.0 MiB   12 %  █▌            mapped past primalloc
        stacks           2.00 MiB  1.0 %  ▏             12 threads
        program          8.00 MiB  4.0 %  ▌             code and variables, libraries' too

          SIZE   IN USE     BYTES  CACHED       FREE  RESIDENT  USED
            64  300,000  18.3 MiB       –   2.00 MiB  20.3 MiB  90 %
         1,024   20,000  19.5 MiB       –   30.0 MiB  49.5 MiB  39 %
        2 more       11  2.16 KiB       –  0.098 KiB  2.25 KiB  96 %

        110 MiB, 55 %, are blocks that the program has allocated and not freed. Who
        allocated them: primalloc profile -- served ...
        32.0 MiB, 16 %, are free blocks, most of 1,024 bytes: they lie between blocks in
        use, and only allocations of their own size can have them until those are freed.
        24.0 MiB, 12 %, are anonymous memory that did not come from primalloc: the
        program or a library maps it by itself. Who touches more of it: primalloc faults
        --pid 4711
        20.0 MiB, 10 %, are free pages, at hand if the program wants them again: those
        that nobody wanted for purge_delay go back, above 8 MiB, or 32 where one thread
        computes, also while the program sleeps. With PRIMALLOC_TRIM_THRESHOLD=0 they go
        at once, for more page faults.
        ");
    }

    #[test]
    fn of_a_core_nothing_is_called_resident() {
        let report = strip_str(&text(&core(), true, 80)).to_string();
        assert!(report.starts_with("served (4711): 200 MiB in core.4711\n"), "{report}");
        assert!(report.contains("on primalloc, 12 threads; pages of zeros, and"), "{report}");
        assert!(report.contains("cut off: 3.00 MiB of what it should hold"), "{report}");
        assert!(!report.contains("RESIDENT"), "{report}");
    }

    #[test]
    fn bars_show_what_is_more_than_nothing() {
        assert_eq!(bar(0.0001).trim_end(), "▏");
        assert_eq!(bar(0.5).trim_end(), "██████");
        assert_eq!(bar(1.0), "█".repeat(BAR_WIDTH));
    }
}
