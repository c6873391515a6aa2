//! For the terminal: first and last figures of each part with its course, and what follows.

use std::ops::Range;

use owo_colors::OwoColorize;

use super::words::{Per, change, headline, name, rows, size_cells, sizes, totals};
use crate::output::quantity::bytes_text;
use crate::output::table::{fitting, listing, wrapped};
use crate::watch::{Trend, Watched, advice};

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// How wide courses are, none where that is 0, and whether there are rates: as fits.
const LAYOUTS: [(usize, bool); 4] = [(16, true), (8, true), (8, false), (0, false)];

pub fn text(found: &Watched, width: usize) -> String {
    let [headline, totals] =
        [headline(found), totals(found)].map(|sentence| wrapped(&sentence, width));
    let mut text = format!("{}\n{}\n\n", headline.bold(), totals.dimmed());
    text += &fitting(LAYOUTS.map(|layout| course(found, layout)), Some(width));
    let sizes = sizes(found);
    if !sizes.is_empty() {
        let records = sizes.iter().map(|size| size_cells(size).to_vec()).collect();
        let header = ["SIZE", "BLOCKS FIRST", "LAST", "CHANGE"];
        text += &format!("\n{}", listing(&header, &[0, 1, 2, 3], records));
    }
    text.push('\n');
    for sentence in advice(found) {
        text += &format!("{}\n", wrapped(&sentence, width));
    }
    text
}

fn course(found: &Watched, (course_width, has_rate): (usize, bool)) -> String {
    let per = Per::of(found);
    let parts = found.moments.parts_of_time(course_width.min(found.moments.all.len()));
    let shown = |figures: [String; 4], rate: String, course: String| -> Vec<String> {
        let course = (course_width > 0).then_some(course);
        figures.into_iter().chain(has_rate.then_some(rate)).chain(course).collect()
    };
    let record = |(trend, values): (Trend, Vec<u64>)| {
        shown(
            [
                name(&trend).to_owned(),
                bytes_text(trend.first_bytes),
                bytes_text(trend.last_bytes),
                change(&trend),
            ],
            per.rate(found, &trend),
            line(&values, &parts, found.change_min() as u64).cyan().to_string(),
        )
    };
    let records = rows(found).into_iter().map(record).collect();
    let figures = ["MEMORY", "FIRST", "LAST", "CHANGE"].map(str::to_owned);
    let header = shown(figures, per.name.to_uppercase(), "COURSE".to_owned());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let numbers = if has_rate { 1..5 } else { 1..4 };
    listing(&header, &numbers.collect::<Vec<usize>>(), records)
}

/// A column for each part of the time, from the least to the most that there was; what changed by
/// less than `least` is flat. Where nobody looked, it stays as it was.
fn line(values: &[u64], parts: &[Range<usize>], least: u64) -> String {
    let low = values.iter().copied().min().unwrap_or(0);
    let range = (values.iter().copied().max().unwrap_or(0) - low).max(least).max(1);
    let mut level = LEVELS[0];
    let column = |part: &Range<usize>| {
        if !part.is_empty() {
            let sum: u64 = values[part.clone()].iter().map(|value| value - low).sum();
            let mean = sum as f64 / part.len() as f64;
            level = LEVELS[(mean / range as f64 * (LEVELS.len() - 1) as f64).round() as usize];
        }
        level
    };
    parts.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::watch::sample::leaking;

    #[test]
    fn the_whole_report() {
        let report = strip_str(&text(&leaking(), 80)).to_string();
        insta::assert_snapshot!(report, @"
        served (4711): 153 MiB resident, +47.0 MiB in 5.2 minutes
        on primalloc, 32 looks

        MEMORY              FIRST      LAST     CHANGE   A MINUTE  COURSE
        blocks in use    70.0 MiB   101 MiB  +31.0 MiB  +6.00 MiB  ▁▂▂▂▃▃▄▄▅▅▆▆▇▇▇█
        free pages       4.00 MiB  20.0 MiB  +16.0 MiB  +3.10 MiB  ▃███████████████
        other anonymous  24.0 MiB  24.0 MiB          0          –  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
        program          8.00 MiB  8.00 MiB          0          –  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
        all of it         106 MiB   153 MiB  +47.0 MiB  +9.10 MiB  ▂▄▄▄▅▅▅▆▆▆▆▇▇▇██

         SIZE  BLOCKS FIRST    LAST     CHANGE
        1,024        20,000  51,744  +31.0 MiB

        It has grown by 47.0 MiB in 5.2 minutes, from 106 MiB to 153 MiB, to the very
        end.
        31.0 MiB more are blocks that the program has allocated and not freed, most of
        1,024 bytes, in every quarter of the time. Who allocates them: primalloc profile
        -- served ... Whether anything still points to them: primalloc leaks -- served
        ...
        16.0 MiB more are free pages: a reserve, which goes back when nobody wants it.
        ");
    }

    #[test]
    fn a_course_shows_what_counts() {
        let each = |count: usize| (0..count).map(|at| at..at + 1).collect::<Vec<_>>();
        assert_eq!(line(&[0, 1, 2, 3, 4, 5, 6, 7], &each(8), 1), "▁▂▃▄▅▆▇█");
        assert_eq!(line(&[5, 5, 6], &each(3), 100), "▁▁▁");
        assert_eq!(line(&[7], &each(1), 1), "▁");
        assert_eq!(line(&[0, 4, 7, 8, 8], &[0..2, 2..2, 2..5], 1), "▃▃█");
    }

    #[test]
    fn a_narrow_terminal_has_less() {
        for (width, has_rate, has_course) in
            [(80, true, true), (70, true, true), (60, false, true), (50, false, false)]
        {
            let text = strip_str(&text(&leaking(), width)).to_string();
            let mut table = text.lines();
            assert!(table.all(|line| line.chars().count() <= width), "{width}: {text}");
            let seen = (text.contains("A MINUTE"), text.contains("COURSE"));
            assert_eq!(seen, (has_rate, has_course), "{width}: {text}");
        }
    }
}
