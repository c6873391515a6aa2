//! For the terminal: a balance of what is resident, and what follows from it.

use owo_colors::OwoColorize;

use super::words::{
    headline, limits, meaning, name, option_cells, resident, share, shown_sizes, totals,
};
use crate::explain::{Explanation, Part, SizeRow, advice};
use crate::output::quantity::{bytes_text, percent, with_thousands};
use crate::output::table::{fitting, listing, with_names_cut, without_beginning, wrapped};

/// Eighths of a column, for bars.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// How wide bars are, none where that is 0, and whether it is told what things are: as fits.
const LAYOUTS: [(usize, bool); 4] = [(12, true), (8, true), (0, true), (12, false)];
/// Of the columns about sizes.
const SIZE_LAYOUTS: [&[usize]; 3] = [&[0, 1, 2, 3, 4, 5, 6], &[0, 1, 2, 4, 5, 6], &[0, 1, 2, 5, 6]];
/// Of those about options.
const OPTION_LAYOUTS: [&[usize]; 2] = [&[0, 1, 2, 3], &[0, 1, 3]];

pub fn text(found: &Explanation, with_sizes: bool, width: usize) -> String {
    let [headline, totals] =
        [headline(found), totals(found)].map(|sentence| wrapped(&sentence, width));
    let mut text = format!("{}\n{}\n", headline.bold(), totals.dimmed());
    if let Some(limits) = limits(found) {
        text += &format!("{}\n", wrapped(&limits, width).replace('\u{a0}', " ").dimmed());
    }
    text.push('\n');
    text += &fitting(LAYOUTS.map(|layout| balance(found, layout)), Some(width));
    if with_sizes && !found.sizes.is_empty() {
        let resident = resident(found).to_uppercase();
        let layouts = SIZE_LAYOUTS.map(|columns| sizes(&found.sizes, &resident, columns));
        text += &format!("\n{}", fitting(layouts, Some(width)));
    }
    if !found.options.is_empty() {
        text += &format!("\n{}", options(found, width));
    }
    text.push('\n');
    for sentence in advice(found) {
        text += &format!("{}\n", wrapped(&sentence, width));
    }
    text
}

fn balance(found: &Explanation, (bar_width, has_meaning): (usize, bool)) -> String {
    let shown = |figures: [String; 3], bar: String, meaning: String| -> Vec<String> {
        let bar = (bar_width > 0).then_some(bar);
        figures.into_iter().chain(bar).chain(has_meaning.then_some(meaning)).collect()
    };
    let record = |part: &Part| {
        let share = share(found, part);
        shown(
            [name(part.used_for).to_owned(), bytes_text(part.resident_bytes), percent(share)],
            bar(share, bar_width).cyan().to_string(),
            meaning(part, found.knows_heap()).dimmed().to_string(),
        )
    };
    let records = found.parts.iter().map(record).collect();
    let figures = ["MEMORY".into(), resident(found).to_uppercase(), "SHARE".into()];
    let header = shown(figures, String::new(), "WHAT IT IS".into());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    listing(&header, &[1, 2], records)
}

/// What is more than nothing is never shown as nothing.
fn bar(share: f64, width: usize) -> String {
    let eighths = ((share * (width * 8) as f64).round() as usize).min(width * 8).max(1);
    let whole = "█".repeat(eighths / 8);
    format!("{:width$}", whole + EIGHTHS[eighths % 8])
}

fn sizes(rows: &[SizeRow], resident: &str, columns: &[usize]) -> String {
    let bytes = |bytes| if bytes == 0 { "–".to_owned() } else { bytes_text(bytes) };
    let record = |(size, row): (String, SizeRow)| {
        let cells = [
            size,
            with_thousands(row.blocks),
            bytes(row.in_use_bytes),
            bytes(row.cached_bytes),
            bytes(row.free_bytes),
            bytes(row.resident_bytes),
            percent(row.used_share()),
        ];
        columns.iter().map(|&column| cells[column].clone()).collect()
    };
    let header = ["SIZE", "IN USE", "BYTES", "CACHED", "FREE", resident, "USED"];
    let records = shown_sizes(rows).into_iter().map(record).collect();
    let header: Vec<&str> = columns.iter().map(|&column| header[column]).collect();
    listing(&header, &[0, 1, 2, 3, 4, 5, 6][..columns.len()], records)
}

/// A path that does not fit loses its beginning.
fn options(found: &Explanation, width: usize) -> String {
    let rows: Vec<[String; 4]> = found.options.iter().map(option_cells).collect();
    let header = ["OPTION", "VALUE", "DEFAULT", "SET BY"];
    let longest = rows.iter().map(|[_, value, ..]| value.chars().count()).max().unwrap_or(0);
    let table = |columns: &[usize], most: usize| {
        let cell = |row: &[String; 4], column: usize| match column {
            1 => without_beginning(&row[column], most),
            _ => row[column].clone(),
        };
        let record = |row: &[String; 4]| columns.iter().map(|&column| cell(row, column)).collect();
        let header: Vec<&str> = columns.iter().map(|&column| header[column]).collect();
        listing(&header, &[], rows.iter().map(record).collect())
    };
    with_names_cut(longest, Some(width), |most| {
        fitting(OPTION_LAYOUTS.map(|columns| table(columns, most)), Some(width))
    })
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::explain::sample::{core, service, set_and_limited};

    #[test]
    fn a_narrow_terminal_has_less() {
        let whole = |width: usize| strip_str(&text(&service(), true, width)).to_string();
        for (width, has_bar, has_meaning) in
            [(80, true, true), (72, false, true), (60, true, false)]
        {
            let text = whole(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            let seen = (text.contains('█'), text.contains("WHAT IT IS"));
            assert_eq!(seen, (has_bar, has_meaning), "{width}: {text}");
        }
    }

    #[test]
    fn the_whole_report() {
        let report = strip_str(&text(&service(), true, 80)).to_string();
        insta::assert_snapshot!(report, @"
        served (4711): 200 MiB resident
        on primalloc, 12 threads, 32.0 MiB of the heap in huge pages

        MEMORY           RESIDENT  SHARE            WHAT IT IS
        blocks in use    70.0 MiB   35 %  ██▊       320,011 blocks up to 256 KiB
        large blocks     40.0 MiB   20 %  █▋        3 blocks above 256 KiB
        threads' caches  3.00 MiB  1.5 %  ▏         free, at hand for 12 threads
        free blocks      32.0 MiB   16 %  █▎        free, between blocks in use
        free pages       20.0 MiB   10 %  ▊         free, go back when unwanted
        records          1.00 MiB  0.5 %  ▏         primalloc's, of all that
        other anonymous  24.0 MiB   12 %  █         mapped past primalloc
        stacks           2.00 MiB  1.0 %  ▏         12 threads
        program          8.00 MiB  4.0 %  ▍         code and variables, libraries' too

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

    /// What is not in the report without options and limits.
    fn more(width: usize) -> String {
        let plain = |found: &Explanation| strip_str(&text(found, false, width)).to_string();
        let (whole, ordinary) = (plain(&set_and_limited()), plain(&service()));
        let ordinary: Vec<&str> = ordinary.lines().collect();
        let lines = whole.lines().filter(|line| !line.is_empty() && !ordinary.contains(line));
        lines.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn options_that_are_set_and_limits_are_shown() {
        insta::assert_snapshot!(more(80), @"
        limits: cgroup 512 MiB (300 MiB in use), memory.high 400 MiB,
        RLIMIT_AS 4.00 GiB (1.17 GiB in use)
        OPTION          VALUE                       DEFAULT  SET BY
        shards          4                           0        MALLOC_ARENA_MAX
        purge_delay     1,500 ms                    500 ms   PRIMALLOC_OPTIONS
        trim_threshold  0                           auto     GLIBC_TUNABLES
        thp             always                      auto     –
        large_os_pages  1                           0        PRIMALLOC_LARGE_OS_PAGES
        hard_limit      3 GiB                       0        prim_option_set
        profile         /var/lib/served/heap.pb.gz  –        PRIMALLOC_PROFILE
        ");
        insta::assert_snapshot!(more(60), @"
        limits: cgroup 512 MiB (300 MiB in use),
        memory.high 400 MiB, RLIMIT_AS 4.00 GiB (1.17 GiB in use)
        OPTION          VALUE               SET BY
        shards          4                   MALLOC_ARENA_MAX
        purge_delay     1,500 ms            PRIMALLOC_OPTIONS
        trim_threshold  0                   GLIBC_TUNABLES
        thp             always              –
        large_os_pages  1                   PRIMALLOC_LARGE_OS_PAGES
        hard_limit      3 GiB               prim_option_set
        profile         …served/heap.pb.gz  PRIMALLOC_PROFILE
        ");
    }

    #[test]
    fn of_a_core_nothing_is_called_resident() {
        let report = strip_str(&text(&core(), true, 80)).to_string();
        assert!(report.starts_with("served (4711): 200 MiB in core.4711\n"), "{report}");
        assert!(report.contains("on primalloc, 12 threads; pages of zeros, and"), "{report}");
        assert!(report.contains("cut off: 3.00 MiB of what it should hold"), "{report}");
        assert!(!report.contains("RESIDENT"), "{report}");
        for width in [40, 60, 80] {
            let report = strip_str(&text(&core(), true, width)).to_string();
            let mut head = report.lines().take_while(|line| !line.is_empty());
            assert!(head.all(|line| line.chars().count() <= width), "{width}: {report}");
        }
    }

    #[test]
    fn bars_show_what_is_more_than_nothing() {
        assert_eq!(bar(0.0001, 12).trim_end(), "▏");
        assert_eq!(bar(0.5, 12).trim_end(), "██████");
        assert_eq!(bar(1.0, 12), "█".repeat(12));
    }
}
