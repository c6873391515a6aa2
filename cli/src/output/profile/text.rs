//! A profile for the terminal: a table of functions, and the heaviest stacks.

use clap::ValueEnum;
use owo_colors::OwoColorize;

use super::columns::{Column, Columns, Name, STAYS};
use super::words::{caption, clipped, count, share, size, total};
use crate::output::printable;
use crate::output::table::{listing, wrapped_to};
use crate::profile::{Profile, Row, Sample, Series, Sites, Stacks, View};

const NAME_WIDTH_MIN: usize = 24;
const PARTS_SHOWN: usize = 8;
/// Stacks that are drawn in full, and how many frames of each.
const STACKS_SHOWN: usize = 3;
const FRAMES_SHOWN: usize = 12;

const NO_STACKS: &str = "No stacks were recorded: the program has no tables to unwind them. One \
                         linked with -static has with -Wl,--eh-frame-hdr.\n";

/// How much is shown.
pub struct Layout {
    /// Of the terminal. None where the text goes to a file or to another program.
    pub width: Option<usize>,
    pub rows: usize,
    /// In order of what functions asked for with those that they call.
    pub is_cumulative: bool,
}

/// `series` are all that the profile has, the one that is asked for first.
pub fn text(
    title: &str,
    stacks: &Stacks,
    sites: &Sites,
    series: &[Series],
    layout: &Layout,
) -> String {
    let caption = wrapped_to(&caption(stacks.profile), layout.width);
    let mut text = format!("{}\n{}\n", title.bold(), caption.dimmed());
    let series = &telling(stacks.profile, series);
    let totals: Vec<String> = series.iter().map(|series| total(series, &sites.totals)).collect();
    text += &format!("{}\n", folded(&totals, layout.width));
    if sites.rows.is_empty() {
        return text
            + match (stacks.profile.sample_count(), stacks.profile.period) {
                (1.., _) => NO_STACKS,
                (0, Some(1)) => "Nothing was allocated.\n",
                _ => "No samples: too little was allocated. A smaller rate takes more of them.\n",
            };
    }
    let order = order(sites, &series[0], layout);
    if order.is_empty() {
        return text + &format!("{}\n", nothing_of(sites, series));
    }
    text += &format!("\n{}", rows(stacks, &order, series, sites, layout));
    let whole = sites.totals[series[0].bytes];
    for (name, parts) in
        [("LIBRARY", &sites.libraries), ("THREAD", &sites.threads), ("TAG", &sites.tags)]
    {
        if parts.len() > 1 {
            text += &parts_table(name, parts, &series[0], whole);
        }
    }
    text + &heaviest(stacks, sites, &series[0], layout)
}

/// Without what says nothing new: where there is no profile before, all that lives has grown.
fn telling(profile: &Profile, series: &[Series]) -> Vec<Series> {
    let live = series.iter().find(|series| series.key == View::Live.key());
    let is_new = |growth: &Series| {
        let bytes =
            |s: Sample| live.is_none_or(|live| s.values[live.bytes] != s.values[growth.bytes]);
        growth.key != View::Growth.key() || profile.samples().any(bytes)
    };
    let others = series[1..].iter().filter(|series| is_new(series));
    series[..1].iter().chain(others).cloned().collect()
}

/// Several totals to a line, as many as have room.
fn folded(totals: &[String], width: Option<usize>) -> String {
    let mut text = String::new();
    let mut room = usize::MAX;
    for (at, total) in totals.iter().enumerate() {
        let needed = total.chars().count() + "; ".len();
        match at {
            0 => room = width.unwrap_or(usize::MAX),
            _ if needed > room => {
                text += ";\n";
                room = width.unwrap_or(usize::MAX);
            }
            _ => text += "; ",
        }
        text += total;
        room = room.saturating_sub(needed);
    }
    text
}

/// Where the view that was asked for is empty, and which is not.
fn nothing_of(sites: &Sites, series: &[Series]) -> String {
    let nothing = match series[0].key.as_str() {
        "inuse" => "Nothing is live",
        "growth" => "Nothing has grown",
        _ => "No function has any of it",
    };
    let view = |series: &Series| {
        let views = View::value_variants().iter();
        views.filter(|view| view.key() == series.key).find_map(|view| view.to_possible_value())
    };
    let others = series[1..].iter().filter(|series| sites.totals[series.bytes] != 0);
    match others.filter_map(view).next() {
        Some(view) => format!("{nothing}; --view {0} shows the {0}.", view.get_name()),
        None => format!("{nothing}."),
    }
}

/// The functions that have a row, most first.
fn order<'a>(sites: &'a Sites, chosen: &Series, layout: &Layout) -> Vec<&'a Row> {
    let mut order: Vec<&Row> = sites.rows.iter().collect();
    if layout.is_cumulative {
        order.retain(|row| row.with_callees[chosen.bytes] != 0);
        order.sort_by_key(|row| std::cmp::Reverse(row.with_callees[chosen.bytes].abs()));
    } else {
        order.retain(|row| row.own[chosen.bytes] != 0);
    }
    order
}

fn rows(
    stacks: &Stacks,
    order: &[&Row],
    series: &[Series],
    sites: &Sites,
    layout: &Layout,
) -> String {
    let (chosen, others) = (&series[0], &series[1..]);
    let shown = &order[..order.len().min(layout.rows)];
    let whole = sites.totals[chosen.bytes];
    let column = |title: &str, rank: u8, cell: &dyn Fn(&Row) -> String| {
        Column::new(title, rank, shown.iter().map(|row| cell(row)))
    };
    let own = |row: &Row| size(row.own[chosen.bytes]);
    let mut numbers = vec![
        column(&chosen.label, STAYS, &own),
        column("share", STAYS, &|row| share(row.own[chosen.bytes], whole)),
    ];
    numbers.extend(
        chosen.objects.map(|objects| column("objects", 101, &|row| count(row.own[objects]))),
    );
    let callees_rank = if layout.is_cumulative { STAYS } else { 102 };
    let with_callees = |row: &Row| size(row.with_callees[chosen.bytes]);
    numbers.push(column("with callees", callees_rank, &with_callees));
    // The last of them is asked for least.
    let ranks = (1..100).rev();
    numbers.extend(
        others
            .iter()
            .zip(ranks)
            .map(|(series, rank)| column(&series.label, rank, &|row| size(row.own[series.bytes]))),
    );
    let names = shown.iter().map(|row| name(stacks, row, chosen)).collect();
    let library = |row: &Row| stacks.functions[row.function as usize].library.to_string();
    let places = vec![
        column("line", 103, &|row| row.line.clone().unwrap_or_default()),
        column("library", 100, &library),
    ];
    let table = Columns { numbers, names, places }.table(layout.width);
    match order.len() - shown.len() {
        0 => table,
        rest => {
            table + &format!("{}\n", format!("and {rest} more (--top {})", order.len()).dimmed())
        }
    }
}

fn name(stacks: &Stacks, row: &Row, chosen: &Series) -> Name {
    let short = |function: u32| &stacks.functions[function as usize].short_name;
    let via = row.via.filter(|_| row.own[chosen.bytes] != 0);
    Name::new(short(row.function), via.map(|via| &**short(via)))
}

fn parts_table(name: &str, parts: &[(String, Vec<i64>)], series: &Series, whole: i64) -> String {
    let record = |(name, values): &(String, Vec<i64>)| {
        let bytes = values[series.bytes];
        let name = if name.is_empty() { "(none)" } else { &printable(name) };
        vec![size(bytes), share(bytes, whole), name.to_owned()]
    };
    let records = parts.iter().filter(|(_, values)| values[series.bytes] != 0);
    let records: Vec<Vec<String>> = records.take(PARTS_SHOWN).map(record).collect();
    if records.is_empty() {
        return String::new();
    }
    format!("\n{}", listing(&[&series.label.to_uppercase(), "SHARE", name], &[0, 1], records))
}

fn heaviest(stacks: &Stacks, sites: &Sites, series: &Series, layout: &Layout) -> String {
    let whole = sites.totals[series.bytes];
    let mut text = String::new();
    for row in sites.stacks.iter().take(STACKS_SHOWN) {
        let bytes = row.values[series.bytes];
        if bytes == 0 {
            break;
        }
        let head = format!("{} ({}) through", size(bytes), share(bytes, whole));
        text += &format!("\n{}\n", head.bold());
        text += &stack(stacks, row.sample, layout.width, FRAMES_SHOWN);
    }
    text
}

/// The frames of a sample's stack, a line each, outward.
pub fn stack(stacks: &Stacks, sample: usize, width: Option<usize>, most: usize) -> String {
    let frames = stacks.frames_to_read(stacks.profile.sample(sample).stack);
    let mut text = String::new();
    for (function, line) in frames.iter().take(most) {
        let function = &stacks.functions[*function as usize];
        let place = printable(line.as_deref().unwrap_or(&function.library));
        let own = printable(&function.short_name);
        let name = match width {
            Some(width) => {
                let beside = place.chars().count() + "      ".len();
                clipped(&own, width.saturating_sub(beside).max(NAME_WIDTH_MIN))
            }
            None => own,
        };
        text += &format!("    {name}  {}\n", place.dimmed());
    }
    if frames.len() > most {
        text += &format!("    {}\n", format!("… {} more", frames.len() - most).dimmed());
    }
    text
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::profile::{sample, series};

    #[test]
    fn the_whole_report() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let series = series(&profile);
        let sites = Sites::new(&stacks, &series[0]);
        let layout = Layout { width: Some(120), rows: 2, is_cumulative: false };
        let report = text("service.pb.gz", &stacks, &sites, &series, &layout);
        let report = strip_str(&report).to_string();
        for part in [
            "live 23.0 MiB in 2,000 objects",
            "Cache::put > xmalloc",
            "cache.cc:42",
            "52 %",
            "THREAD",
            "LIBRARY",
            "TAG",
            "12.0 MiB (52 %) through",
            "and 1 more (--top 3)",
            "service, process 4711, 60.0 s, estimates from a sample every 512 KiB",
        ] {
            assert!(report.contains(part), "{part}\n{report}");
        }
        let cumulative = Layout { is_cumulative: true, ..layout };
        let report = text("service.pb.gz", &stacks, &sites, &series, &cumulative);
        let first = strip_str(&report).to_string();
        let first = first
            .lines()
            .find(|line| line.contains("main.cc:10") || line.contains("main"))
            .unwrap()
            .to_owned();
        assert!(first.contains("23.0 MiB"), "{first}");
    }
    fn report(profile: &Profile, first: usize, width: Option<usize>) -> String {
        let stacks = Stacks::new(profile);
        let mut series = series(profile);
        series.swap(0, first);
        let sites = Sites::new(&stacks, &series[0]);
        let layout = Layout { width, rows: 20, is_cumulative: false };
        strip_str(&text("a.pb.gz", &stacks, &sites, &series, &layout)).to_string()
    }

    #[test]
    fn what_has_no_stack_is_not_nothing() {
        let mut profile = sample::service();
        let (values, labels) = (profile.sample(0).values.to_vec(), profile.sample(0).labels);
        profile.retain(|_, _| false);
        assert!(report(&profile, 0, None).contains("No samples: too little"));
        profile.push([], values, labels);
        let text = report(&profile, 0, None);
        assert!(text.contains("No stacks were recorded") && !text.contains("No samples"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_has_room_for_all_lines() {
        for width in [72, 80, 100] {
            let text = report(&sample::service(), 0, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(text.contains("Cache::put > xmalloc"), "{width}: {text}");
        }
        assert!(report(&sample::service(), 0, Some(80)).contains("cache.cc:42"));
        let whole = report(&sample::service(), 0, None);
        assert!(whole.contains("GROWTH") && whole.contains("growth 11.5 MiB"), "{whole}");
    }

    #[test]
    fn the_head_fits_a_narrow_terminal() {
        let text = report(&sample::service(), 0, Some(40));
        let mut head = text.lines().take_while(|line| !line.is_empty());
        assert!(head.all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn what_has_no_rows_has_no_header_either() {
        let mut profile = sample::service();
        profile.retain(|_, _| false);
        profile.push([0], [1, 8, 0, 0, 1, 8, 0, 0], crate::profile::Labels::default());
        let text = report(&profile, 0, None);
        assert!(text.ends_with("\nNothing is live; --view peak shows the peak.\n"), "{text}");
        assert!(!text.contains("growth"), "{text}");
        let text = report(&profile, 3, None);
        assert!(text.ends_with("\nNothing has grown; --view peak shows the peak.\n"), "{text}");
    }
}
