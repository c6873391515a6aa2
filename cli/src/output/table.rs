//! The report as a table for the terminal, in colours where the terminal has them.

use anstream::adapter::strip_str;
use owo_colors::OwoColorize;
use tabled::Table;
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Object, Rows};
use tabled::settings::span::Span;
use tabled::settings::style::{HorizontalLine, VerticalLine};
use tabled::settings::themes::Theme;
use tabled::settings::{Alignment, Modify, Padding, Style};

use super::quantity::{ratio_text, spread_text};
use super::report::Row;
use super::{Entry, Report};

/// Where there is no terminal to ask.
pub const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// So much stays of a name that is cut.
const NAME_WIDTH_MIN: usize = 12;

/// The whole report; lines are at most as wide as the limit where the names allow it. Without one
/// the sentences are not broken, so that they can be looked for.
///
/// Allocators that do not fit beside each other are continued in further tables below. Where not
/// even two do, spreads are left out.
pub fn table(report: &Report, limit: Option<usize>) -> String {
    let width = limit.unwrap_or(WIDTH_WITHOUT_TERMINAL);
    let caption = wrapped_to(&report.caption(), limit);
    let mut text = format!("{}\n{}\n", report.command.bold(), caption.dimmed());
    let rows: Vec<Row> = report.rows().collect();
    let mut sheet = Sheet { report, rows: &rows, has_spreads: true };
    sheet.has_spreads = sheet.part(0, report.entries.len().min(2)).total_width() <= width;
    let mut first = 0;
    while first < report.entries.len() {
        let (count, part) = sheet.widest_part(first, width);
        text += &format!("{part}\n");
        first += count;
    }
    text += &failures(report);
    for sentence in report.conclusions() {
        text += &format!("{}\n", wrapped_to(&sentence, limit));
    }
    text
}

/// What is to say of a program that did not end well.
pub fn failures(report: &Report) -> String {
    let sentences = report.failures().into_iter();
    let mut text: String = sentences.map(|sentence| format!("{}\n", sentence.red())).collect();
    if let Some((name, messages)) = report.failure_messages() {
        text += &format!("It said, under {name}:\n{}\n", messages.dimmed());
    }
    text
}

struct Sheet<'a> {
    report: &'a Report,
    rows: &'a [Row<'a>],
    has_spreads: bool,
}

impl Sheet<'_> {
    /// As many allocators from `first` on as fit, but at least one.
    fn widest_part(&self, first: usize, width: usize) -> (usize, Table) {
        let mut best = (1, self.part(first, 1));
        for count in 2..=self.report.entries.len() - first {
            let wider = self.part(first, count);
            if wider.total_width() > width {
                break;
            }
            best = (count, wider);
        }
        best
    }

    fn part(&self, first: usize, count: usize) -> Table {
        let shown = first..first + count;
        let mut builder = Builder::default();
        let mut header = vec![String::new()];
        for index in shown.clone() {
            header.push(heading(&self.report.entries[index]));
            header.resize(header.len() + self.columns_of(index) - 1, String::new());
        }
        builder.push_record(header);
        for row in self.rows {
            let mut record = vec![self.label(row)];
            shown.clone().for_each(|index| record.extend(self.cells(row, index)));
            builder.push_record(record);
        }

        let mut table = builder.build();
        table.with(self.theme(shown.clone()));
        table.with(Modify::new(Columns::new(1..)).with(Alignment::right()));
        table.with(Modify::new(Rows::first()).with(Alignment::left()));
        let mut column = 1;
        for index in shown {
            let span = Span::column(self.columns_of(index) as isize);
            table.with(Modify::new((0, column)).with(span));
            if self.has_spreads {
                // The spread belongs to the median before it.
                let spread = Columns::one(column + 1).not(Rows::first());
                table.with(Modify::new(spread).with(Padding::new(0, 1, 0, 0)));
            }
            column += self.columns_of(index);
        }
        table
    }

    /// The columns of one allocator: median, spread, and, but for the reference, the ratio.
    fn columns_of(&self, entry: usize) -> usize {
        1 + usize::from(self.has_spreads) + usize::from(entry > 0)
    }

    fn label(&self, row: &Row) -> String {
        match self.has_spreads {
            true => row.metric.label.to_owned(),
            false => row.metric.label.replace("voluntary", "vol."),
        }
    }

    fn cells(&self, row: &Row, index: usize) -> Vec<String> {
        let cell = &row.cells[index];
        let median = row.scale.format(cell.summary.median);
        let mut cells = vec![if cell.is_best { median.green().bold().to_string() } else { median }];
        if self.has_spreads {
            cells.push(spread_text(cell.summary).dimmed().to_string());
        }
        if index > 0 {
            cells.push(ratio_text(cell.ratio));
        }
        cells
    }

    /// A frame, a line below the names, and a line between allocators.
    fn theme(&self, shown: std::ops::Range<usize>) -> Theme {
        let mut theme = Theme::from_style(Style::rounded().remove_horizontals().remove_vertical());
        let below_names = HorizontalLine::new('─').left('├').right('┤').intersection('┼');
        theme.insert_horizontal_line(1, below_names);
        let mut column = 1;
        for index in shown {
            let between = VerticalLine::new('│').top('┬').bottom('┴').intersection('┼');
            theme.insert_vertical_line(column, between);
            column += self.columns_of(index);
        }
        theme
    }
}

/// The allocator, and below it what is set for it.
fn heading(entry: &Entry) -> String {
    let settings = entry.settings.iter().map(|setting| format!("\n{setting}"));
    entry.allocator_title().bold().to_string() + &settings.collect::<String>()
}

/// A plain table with a header, as `allocators` and `ps` print it.
pub fn listing(header: &[&str], right_aligned: &[usize], records: Vec<Vec<String>>) -> String {
    let mut builder = Builder::default();
    builder.push_record(header.iter().map(|name| name.dimmed().to_string()));
    records.into_iter().for_each(|record| builder.push_record(record));
    let mut table = builder.build();
    table.with(Style::empty());
    table.with(Padding::new(0, 2, 0, 0));
    for &column in right_aligned {
        table.with(Modify::new(Columns::one(column)).with(Alignment::right()));
    }
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Of the widest line, without colours.
pub fn width_of(text: &str) -> usize {
    let plain = strip_str(text).to_string();
    plain.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0)
}

/// The first that fits, else the last.
pub fn fitting(texts: impl IntoIterator<Item = String>, limit: Option<usize>) -> String {
    let mut last = String::new();
    for text in texts {
        last = text;
        if limit.is_none_or(|limit| width_of(&last) <= limit) {
            break;
        }
    }
    last
}

/// What `text` makes with names of at most so many characters: all of the longest, or fewer, so
/// that it fits.
pub fn with_names_cut(
    longest: usize,
    limit: Option<usize>,
    text: impl Fn(usize) -> String,
) -> String {
    let mut most = longest;
    loop {
        let text = text(most);
        let excess = limit.map_or(0, |limit| width_of(&text).saturating_sub(limit));
        if excess == 0 || most <= NAME_WIDTH_MIN {
            return text;
        }
        most = most.saturating_sub(excess).max(NAME_WIDTH_MIN);
    }
}

pub fn without_beginning(name: &str, width: usize) -> String {
    match name.chars().count().saturating_sub(width) {
        0 => name.to_owned(),
        excess => format!("…{}", name.chars().skip(excess + 1).collect::<String>()),
    }
}

/// Broken at blanks, each line at most `width` wide where the words allow it.
pub fn wrapped(sentence: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in sentence.lines() {
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current += word;
        }
        lines.push(current);
    }
    lines.join("\n")
}

pub fn wrapped_to(sentence: &str, limit: Option<usize>) -> String {
    limit.map_or_else(|| sentence.to_owned(), |width| wrapped(sentence, width))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn what_does_not_fit_is_continued_below() {
        let text = table(&sample::report(), Some(80));
        let text = strip_str(&text).to_string();
        insta::assert_snapshot!(text, @r"
        sort -n 'big file'
        median of 5 runs after one to warm up, in turns
        ╭──────────────────────┬────────────────┬───────────────────────╮
        │                      │ glibc 2.36     │ primalloc 0.1.0       │
        ├──────────────────────┼────────────────┼───────────────────────┤
        │ wall time            │  1.25 s ±1.0 % │  1.00 s ±1.0 %  0.80× │
        │ user time            │ 1.000 s ±1.0 % │ 0.800 s ±1.0 %  0.80× │
        │ system time          │  250 ms ±1.0 % │  200 ms ±1.0 %  0.80× │
        │ peak memory          │ 180 MiB   ±0 % │ 150 MiB   ±0 %  0.84× │
        │ minor faults         │  45,210   ±0 % │   1,204   ±0 %  0.03× │
        │ major faults         │       0        │       0             – │
        │ voluntary switches   │       3   ±0 % │       3   ±0 %  1.00× │
        │ involuntary switches │      12   ±0 % │      12   ±0 %  1.00× │
        ╰──────────────────────┴────────────────┴───────────────────────╯
        ╭──────────────────────┬───────────────────────╮
        │                      │ jemalloc 5.3.0        │
        ├──────────────────────┼───────────────────────┤
        │ wall time            │  1.26 s ±1.0 %  1.01× │
        │ user time            │ 1.008 s ±1.0 %  1.01× │
        │ system time          │  252 ms ±1.0 %  1.01× │
        │ peak memory          │ 412 MiB   ±0 %  2.29× │
        │ minor faults         │   9,981   ±0 %  0.22× │
        │ major faults         │       0             – │
        │ voluntary switches   │       3   ±0 %  1.00× │
        │ involuntary switches │      12   ±0 %  1.00× │
        ╰──────────────────────┴───────────────────────╯
        primalloc: 20 % less time, 16 % less memory, 97 % fewer page faults than glibc.
        jemalloc: 129 % more memory, 78 % fewer page faults than glibc.
        ");
        assert!(strip_str(&text).to_string().lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_narrow_terminal_has_no_spreads() {
        let text = strip_str(&table(&sample::report(), Some(60))).to_string();
        let rows: Vec<&str> = text.lines().skip(2).take(5).collect();
        insta::assert_snapshot!(rows.join("\n"), @r"
        ╭─────────────────┬────────────┬─────────────────╮
        │                 │ glibc 2.36 │ primalloc 0.1.0 │
        ├─────────────────┼────────────┼─────────────────┤
        │ wall time       │     1.25 s │   1.00 s  0.80× │
        │ user time       │    1.000 s │  0.800 s  0.80× │
        ");
        for width in [40, 60] {
            let text = strip_str(&table(&sample::report(), Some(width))).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn settings_stand_below_their_allocator() {
        let text = table(&sample::report_of_settings(), Some(100));
        let text = strip_str(&text).to_string();
        let head: Vec<&str> = text.lines().skip(2).take(6).collect();
        insta::assert_snapshot!(head.join("\n"), @r"
        ╭──────────────────────┬────────────────┬───────────────────────┬───────────────────────╮
        │                      │ glibc 2.36     │ primalloc 0.1.0       │ jemalloc 0.1.0        │
        │                      │                │ purge_delay=0         │ MALLOC_CONF=a|b       │
        │                      │                │ thp=never             │                       │
        ├──────────────────────┼────────────────┼───────────────────────┼───────────────────────┤
        │ wall time            │  1.25 s ±1.0 % │  1.00 s ±1.0 %  0.80× │  1.00 s ±1.0 %  0.80× │
        ");
    }

    #[test]
    fn listings_are_aligned_and_end_without_blanks() {
        let records = vec![vec!["7".into(), "a".into()], vec!["12345".into(), "b".into()]];
        let text = listing(&["PID", "PROGRAM"], &[0], records);
        assert_eq!(strip_str(&text).to_string(), "  PID  PROGRAM\n    7  a\n12345  b\n");
    }

    #[test]
    fn names_are_cut_until_it_fits() {
        // The longest name is not in the widest line.
        let text = |most: usize| {
            format!(
                "{} (deleted)\n{}",
                without_beginning("/usr/lib/one/libx.so", most),
                without_beginning("/usr/lib/another/libx.so", most)
            )
        };
        assert_eq!(with_names_cut(24, None, text), text(24));
        assert_eq!(with_names_cut(24, Some(30), text), text(24));
        let cut = with_names_cut(24, Some(26), text);
        assert_eq!(cut, "…lib/one/libx.so (deleted)\n…another/libx.so");
        assert_eq!(with_names_cut(24, Some(1), text), text(NAME_WIDTH_MIN));
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three\nfour", 8), "one two\nthree\nfour");
    }
}
