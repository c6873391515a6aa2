//! A profile for the terminal: a table of functions, and the heaviest stacks.

use owo_colors::OwoColorize;

use super::words::{caption, clipped, count, share, size, total};
use crate::output::table::listing;
use crate::profile::{Series, Sites, Stacks};

const NAME_WIDTH_MIN: usize = 24;
const PARTS_SHOWN: usize = 8;
/// Stacks that are drawn in full, and how many frames of each.
const STACKS_SHOWN: usize = 3;
const FRAMES_SHOWN: usize = 12;

/// How much is shown.
pub struct Layout {
    pub width: usize,
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
    let mut text = format!("{}\n{}\n", title.bold(), caption(stacks.profile).dimmed());
    let totals: Vec<String> = series.iter().map(|series| total(series, &sites.totals)).collect();
    text += &format!("{}\n", totals.join("; "));
    if sites.rows.is_empty() {
        return text + "No samples: too little was allocated. A smaller rate takes more of them.\n";
    }
    text += &format!("\n{}", rows(stacks, sites, series, layout));
    let whole = sites.totals[series[0].bytes];
    for (name, parts) in
        [("LIBRARY", &sites.libraries), ("THREAD", &sites.threads), ("TAG", &sites.tags)]
    {
        if parts.len() > 1 {
            text += &format!("\n{}", parts_table(name, parts, &series[0], whole));
        }
    }
    text + &heaviest(stacks, sites, &series[0], layout)
}

fn rows(stacks: &Stacks, sites: &Sites, series: &[Series], layout: &Layout) -> String {
    let (chosen, others) = (&series[0], &series[1..]);
    let mut header = vec![chosen.label.to_uppercase(), "SHARE".into()];
    if chosen.objects.is_some() {
        header.push("OBJECTS".into());
    }
    header.push("WITH CALLEES".into());
    header.extend(others.iter().map(|series| series.label.to_uppercase()));
    let numbers: Vec<usize> = (0..header.len()).collect();
    header.extend(["FUNCTION".into(), "LINE".into(), "LIBRARY".into()]);

    let whole = sites.totals[chosen.bytes];
    let mut order: Vec<_> = sites.rows.iter().collect();
    if layout.is_cumulative {
        order.sort_by_key(|row| std::cmp::Reverse(row.with_callees[chosen.bytes].abs()));
    } else {
        order.retain(|row| row.own[chosen.bytes] != 0);
    }
    let name_width = layout.width.saturating_sub(12 * numbers.len() + 30).max(NAME_WIDTH_MIN);
    let record = |row: &&crate::profile::Row| {
        let function = &stacks.functions[row.function as usize];
        let own = row.own[chosen.bytes];
        let mut cells = vec![size(own), share(own, whole)];
        cells.extend(chosen.objects.map(|objects| count(row.own[objects])));
        cells.push(size(row.with_callees[chosen.bytes]));
        cells.extend(others.iter().map(|series| size(row.own[series.bytes])));
        let via = row.via.map(|via| format!(" > {}", stacks.functions[via as usize].short_name));
        let via = via.filter(|_| own != 0).unwrap_or_default();
        let name = clipped(&function.short_name, name_width);
        cells.push(name + &clipped(&via, 24).dimmed().to_string());
        cells.push(row.line.clone().unwrap_or_default());
        cells.push(function.library.to_string());
        cells
    };
    let shown = order.iter().take(layout.rows).map(record).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let table = listing(&header, &numbers, shown);
    match order.len().saturating_sub(layout.rows) {
        0 => table,
        rest => {
            table + &format!("{}\n", format!("and {rest} more (--top {})", order.len()).dimmed())
        }
    }
}

fn parts_table(name: &str, parts: &[(String, Vec<i64>)], series: &Series, whole: i64) -> String {
    let record = |(name, values): &(String, Vec<i64>)| {
        let bytes = values[series.bytes];
        let name = if name.is_empty() { "(none)" } else { name };
        vec![size(bytes), share(bytes, whole), name.to_owned()]
    };
    let records = parts.iter().filter(|(_, values)| values[series.bytes] != 0);
    let records = records.take(PARTS_SHOWN).map(record).collect();
    listing(&[&series.label.to_uppercase(), "SHARE", name], &[0, 1], records)
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
pub fn stack(stacks: &Stacks, sample: usize, width: usize, most: usize) -> String {
    let frames = stacks.frames_to_read(stacks.profile.sample(sample).stack);
    let mut text = String::new();
    for (function, line) in frames.iter().take(most) {
        let function = &stacks.functions[*function as usize];
        let place = line.clone().unwrap_or_else(|| function.library.to_string());
        let name = clipped(&function.short_name, width.saturating_sub(40).max(NAME_WIDTH_MIN));
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
        let layout = Layout { width: 120, rows: 2, is_cumulative: false };
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
}
