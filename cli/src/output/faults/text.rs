//! The findings for the terminal: a picture in block characters, tables, and plain words.

use owo_colors::OwoColorize;

use super::words::{
    caption, command, kind_explained, kind_name, remarks, repeated_text, site_name, site_place,
    totals, visible_kinds,
};
use crate::faults::{Findings, Point, Timeline, advice};
use crate::output::quantity::{bytes_text, percent, with_thousands};
use crate::output::table::{WIDTH_WITHOUT_TERMINAL, fitting, listing, without_beginning, wrapped};

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LABEL_WIDTH: usize = 12;
/// Room for "  123,456 a second" after the picture.
const SCALE_WIDTH: usize = 22;
const COLUMNS_MIN: usize = 20;
const COLUMNS_MAX: usize = 80;
const SITES_SHOWN: usize = 10;
const SITE_WIDTH_MAX: usize = 60;
const SITE_WIDTH_MIN: usize = 24;
const PLACE_WIDTH_MIN: usize = 16;

/// Lines are at most so wide, where there is a limit.
pub fn text(findings: &Findings, limit: Option<usize>) -> String {
    let width = limit.unwrap_or(WIDTH_WITHOUT_TERMINAL);
    let mut text = format!("{}\n{}\n", command(findings).bold(), caption(findings).dimmed());
    text += &format!("{}\n\n", wrapped(&totals(findings), width));
    let room = width.saturating_sub(LABEL_WIDTH + SCALE_WIDTH);
    text += &picture(findings, room.clamp(COLUMNS_MIN, COLUMNS_MAX));
    if !findings.kinds.is_empty() {
        text += &format!("\n{}", kinds(findings, limit));
    }
    if !findings.sites.is_empty() {
        text += &format!("\n{}", sites(findings, limit));
    }
    text.push('\n');
    for remark in remarks(findings) {
        text += &format!("{}\n", wrapped(&remark, width).dimmed());
    }
    for sentence in advice(findings) {
        text += &format!("{}\n", wrapped(&sentence, width));
    }
    text
}

struct Lane {
    label: &'static str,
    values: Vec<f64>,
    scale: String,
}

/// Faults a second above the sizes, on one axis of time.
fn picture(findings: &Findings, columns: usize) -> String {
    let timeline = &findings.timeline;
    if !timeline.is_seen() {
        return "The program was over before its sizes could be seen.\n".to_owned();
    }
    let rate = |of: fn(&Point) -> u64| resampled(timeline, &timeline.rates(of), columns);
    let size = |of: fn(&Point) -> u64| {
        let values: Vec<f64> = timeline.points.iter().map(|point| of(point) as f64).collect();
        resampled(timeline, &values, columns)
    };
    let top = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let a_second =
        |values: &[f64]| format!("{} a second", with_thousands(top(values).round() as u64));
    let bytes = |values: &[f64]| bytes_text(top(values) as u64);
    let (minor, major) = (rate(|p| p.minor_faults), rate(|p| p.major_faults));
    let (resident, mapped) = (size(|p| p.resident_bytes), size(|p| p.virtual_bytes));
    let lanes = [
        Lane { label: "minor faults", scale: a_second(&minor), values: minor },
        Lane { label: "major faults", scale: a_second(&major), values: major },
        Lane { label: "resident", scale: seen(bytes(&resident), findings), values: resident },
        Lane { label: "virtual", scale: bytes(&mapped), values: mapped },
    ];
    let mut text = String::new();
    for lane in lanes {
        let bars: String = bars(&lane.values).into_iter().collect();
        text += &format!("{:LABEL_WIDTH$}  {}  {}\n", lane.label, bars.cyan(), lane.scale.dimmed());
    }
    let end = format!("{:.2} s", timeline.seconds());
    let axis = format!("0{end:>rest$}", rest = columns - 1);
    text + &format!("{:LABEL_WIDTH$}  {}\n", "", axis.dimmed())
}

/// The kernel knows a higher peak where the program was larger when nobody looked.
fn seen(peak: String, findings: &Findings) -> String {
    let is_whole = peak == bytes_text(findings.peak_resident_bytes);
    if is_whole { peak } else { format!("{peak} at a look") }
}

/// Eighths of the largest; what is more than nothing is never shown as nothing.
fn bars(values: &[f64]) -> Vec<char> {
    let top = values.iter().copied().fold(0.0, f64::max);
    let bar = |&value: &f64| match value {
        nothing if nothing <= 0.0 => BLOCKS[0],
        some => BLOCKS[(some / top * 8.0).round().clamp(1.0, 8.0) as usize],
    };
    values.iter().map(bar).collect()
}

/// For each column of equal time, the largest value of the points that reach into it.
fn resampled(timeline: &Timeline, values: &[f64], columns: usize) -> Vec<f64> {
    let column_seconds = timeline.seconds().max(f64::MIN_POSITIVE) / columns as f64;
    let mut result = vec![0.0_f64; columns];
    let mut begin = 0.0;
    for (point, &value) in timeline.points.iter().zip(values) {
        let first = ((begin / column_seconds) as usize).min(columns - 1);
        // An end exactly between two columns belongs to the left one.
        let last = (point.seconds / column_seconds - 1e-9).max(0.0) as usize;
        for column in &mut result[first..=last.clamp(first, columns - 1)] {
            *column = column.max(value);
        }
        begin = point.seconds;
    }
    result
}

fn kinds(findings: &Findings, limit: Option<usize>) -> String {
    let record = |row: &crate::faults::KindRow, columns: usize| {
        let mut record = vec![
            kind_name(row.kind).to_owned(),
            with_thousands(row.minor_faults),
            with_thousands(row.major_faults),
            percent(row.share),
            repeated_text(row),
            kind_explained(row).dimmed().to_string(),
        ];
        record.truncate(columns);
        record
    };
    let header = ["KIND", "MINOR", "MAJOR", "SHARE", "REPEATED", "MEMORY"];
    let with = |columns: usize| {
        let records = visible_kinds(findings).map(|row| record(row, columns)).collect();
        listing(&header[..columns], &[1, 2, 3, 4], records)
    };
    fitting([6, 5, 4].map(with), limit)
}

/// Of what does not fit kinds go first, then ends of names and beginnings of places, then places.
fn sites(findings: &Findings, limit: Option<usize>) -> String {
    let with = |has_kind: bool, widths: (usize, usize)| {
        let header = ["FAULTS", "SHARE", "KIND", "CALL SITE", "WHERE"];
        let is_shown = [true, true, has_kind, true, widths.1 > 0];
        let kept = |cells: [String; 5]| -> Vec<String> {
            let shown = cells.into_iter().zip(is_shown);
            shown.filter_map(|(cell, is_shown)| is_shown.then_some(cell)).collect()
        };
        let shown = findings.sites.iter().take(SITES_SHOWN);
        let records = shown.map(|site| kept(cells_of(site, widths))).collect();
        let header = kept(header.map(str::to_owned));
        listing(&header.iter().map(String::as_str).collect::<Vec<_>>(), &[0, 1], records)
    };
    let whole = (usize::MAX, usize::MAX);
    let both = (PLACE_WIDTH_MIN..=SITE_WIDTH_MAX).rev();
    let both = both.map(|width| (width.max(SITE_WIDTH_MIN), width));
    let names = (SITE_WIDTH_MIN..=SITE_WIDTH_MAX).rev().map(|width| (width, 0));
    let narrower = both.chain(names).map(|widths| with(false, widths));
    fitting([with(true, whole), with(false, whole)].into_iter().chain(narrower), limit)
}

/// The call site with what it called, and the place, at most so wide.
fn cells_of(site: &crate::faults::SiteRow, (width, place_width): (usize, usize)) -> [String; 5] {
    let name = shortened(&site_name(site), width.min(SITE_WIDTH_MAX));
    let via = site.via.as_ref().map_or_else(String::new, |via| format!(" > {via}"));
    let via = shortened(&via, width.saturating_sub(name.chars().count()));
    [
        with_thousands(site.minor_faults + site.major_faults),
        percent(site.share),
        kind_name(site.kind).to_owned(),
        name + &via.dimmed().to_string(),
        without_beginning(&site_place(site), place_width),
    ]
}

fn shortened(name: &str, width: usize) -> String {
    match name.chars().count() {
        fits if fits <= width => name.to_owned(),
        _ if width < 2 => String::new(),
        _ => name.chars().take(width - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::faults::sample;

    #[test]
    fn the_whole_report() {
        let report = text(&sample::storm(), Some(90));
        insta::assert_snapshot!(strip_str(&report).to_string(), @r"
        ./solver -n 'big file'
        1.00 s on glibc
        327,680 minor faults, 327,680 a second at worst; 2 major; at most 67.0 MiB resident, 70.0
        MiB virtual

        minor faults  ████████████████████████████████████████████████████████  327,680 a second
        major faults  ██████                                                    20 a second
        resident      ████████████▁▁▁▁████████████▁▁▁▁▁████████████▁▁▁▁▁██████  67.0 MiB
        virtual       ████████████████████████████████████████████████████████  70.0 MiB
                      0                                                 1.00 s

        KIND            MINOR  MAJOR  SHARE  REPEATED  MEMORY
        allocator     324,403      0   99 %      95 %  the heap and malloc's mappings
        stack             655      0  0.2 %       0 %  of the threads
        file            1,966      2  0.6 %      10 %  programs, libraries, mapped files
        own mappings      327      0  0.1 %       0 %  anonymous memory, mapped past malloc
        other             327      0  0.1 %       0 %  shared memory, the kernel's own pages

         FAULTS  SHARE  KIND       CALL SITE                  WHERE
        324,403   99 %  allocator  solve<double> > memset     solver  solver.c:120
          1,902  0.6 %  file       (in ld-linux-x86-64.so.2)  ld-linux-x86-64.so.2

        99 % of the faults are in the allocator's memory, and 95 % of those hit pages that had
        been there before: glibc returns memory to the system and takes the same memory again.
        primalloc keeps memory that is used again: primalloc run -- ./solver -n 'big file'
        glibc does with MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0 in the environment, and then
        never gives any back.
        ");
    }

    #[test]
    fn tables_fit_the_terminal() {
        for width in [40, 60, 80] {
            let report = strip_str(&text(&sample::storm(), Some(width))).to_string();
            let tables = report.lines().skip_while(|line| !line.starts_with("KIND"));
            assert!(tables.clone().all(|line| line.chars().count() <= width), "{report}");
        }
        let narrow = strip_str(&text(&sample::storm(), Some(60))).to_string();
        let tables: Vec<&str> =
            narrow.lines().skip_while(|line| !line.starts_with("KIND")).take(9).collect();
        insta::assert_snapshot!(tables.join("\n"), @r"
        KIND            MINOR  MAJOR  SHARE  REPEATED
        allocator     324,403      0   99 %      95 %
        stack             655      0  0.2 %       0 %
        file            1,966      2  0.6 %      10 %
        own mappings      327      0  0.1 %       0 %
        other             327      0  0.1 %       0 %

         FAULTS  SHARE  CALL SITE                 WHERE
        324,403   99 %  solve<double> > memset    …ver  solver.c:120
        ");
    }

    #[test]
    fn of_a_short_program_nothing_is_made_up() {
        let mut findings = sample::storm();
        findings.timeline = Timeline::new(None);
        (findings.minor_faults, findings.major_faults) = (49, 0);
        (findings.peak_resident_bytes, findings.peak_virtual_bytes) = (2 << 20, 0);
        let report = strip_str(&text(&findings, Some(90))).to_string();
        assert!(report.contains("\n49 minor faults; 0 major; at most 2.00 MiB resident\n"));
        assert!(report.contains("before its sizes could be seen"), "{report}");
        for made_up in ["a second", "virtual", "█"] {
            assert!(!report.contains(made_up), "{report}");
        }
    }

    #[test]
    fn the_picture_agrees_with_the_totals() {
        let mut findings = sample::storm();
        findings.timeline = Timeline::new(Some(std::time::Duration::from_millis(300)));
        findings.timeline.push(std::time::Duration::from_millis(300), (200, 0), 67 << 20, 70 << 20);
        let report = strip_str(&text(&findings, Some(90))).to_string();
        assert!(report.contains("327,680 minor faults, 667 a second at worst;"), "{report}");
        assert!(report.contains("█  667 a second\n"), "{report}");
        assert!(!report.contains("at a look"), "{report}");
        findings.peak_resident_bytes = 69 << 20;
        let report = strip_str(&text(&findings, Some(90))).to_string();
        assert!(report.contains("at most 69.0 MiB resident"), "{report}");
        assert!(report.contains("  67.0 MiB at a look\n"), "{report}");
    }

    #[test]
    fn what_may_be_the_programs_own_is_not_said_to_be_mallocs() {
        let mut findings = sample::storm();
        findings.kinds[0].guessed_share = 0.9;
        let report = strip_str(&text(&findings, None)).to_string();
        assert!(report.contains("  the heap and anonymous memory\n"), "{report}");
        assert!(report.contains("89 % of the faults are in anonymous memory that may be"));
    }

    #[test]
    fn what_is_sampled_is_said_to_be() {
        let mut findings = sample::storm();
        (findings.every, findings.recorded_share) = (1000, 0.99);
        findings.kinds.iter_mut().for_each(|row| row.repeated_share = None);
        let report = strip_str(&text(&findings, None)).to_string();
        assert!(report.contains("One in 1,000 faults is recorded: kinds and"), "{report}");
        assert!(report.contains("99 %         –  the heap"), "{report}");
        assert!(!report.contains("too fast"), "{report}");
    }

    #[test]
    fn bars_show_what_is_more_than_nothing() {
        assert_eq!(bars(&[0.0, 0.001, 4.0, 8.0]), [' ', '▁', '▄', '█']);
        assert_eq!(bars(&[0.0, 0.0]), [' ', ' ']);
    }

    #[test]
    fn columns_are_of_equal_time() {
        let mut timeline = Timeline::new(Some(std::time::Duration::from_secs(1)));
        for (second, total) in [(1, 10), (3, 20), (4, 60)] {
            timeline.push(std::time::Duration::from_secs(second), (total, 0), 0, 0);
        }
        let values = timeline.rates(|point| point.minor_faults);
        assert_eq!(resampled(&timeline, &values, 4), [10.0, 5.0, 5.0, 40.0]);
        assert_eq!(resampled(&timeline, &values, 2), [10.0, 40.0]);
    }
}
