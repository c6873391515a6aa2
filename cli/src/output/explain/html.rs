//! What was found as one HTML page that needs nothing else: styles, bars and figures are inside.

use anyhow::Result;
use askama::Template;

use super::json;
use super::words::{
    headline, limits, meaning, name, option_cells, resident, share, shown_sizes, totals,
};
use crate::explain::{Explanation, Part, SizeRow, Source, Use, advice};
use crate::output::Host;
use crate::output::quantity::{bytes_text, percent, with_thousands};

#[derive(Template)]
#[template(path = "explain.html")]
struct Page<'a> {
    headline: String,
    totals: String,
    limits: Option<String>,
    resident: &'static str,
    sentences: Vec<String>,
    parts: Vec<PartRow>,
    sizes: Vec<SizePart>,
    options: Vec<[String; 4]>,
    /// Of a core the file, of a process the machine that it runs on.
    core: Option<&'a str>,
    host: Host,
    tool_version: &'static str,
    /// Safe in a script element, as it has no `<` left.
    json: String,
}

struct PartRow {
    class: &'static str,
    name: &'static str,
    size: String,
    share: String,
    /// In percent.
    width: f64,
    meaning: String,
}

struct SizePart {
    size: String,
    blocks: String,
    in_use: String,
    cached: String,
    free: String,
    resident: String,
    used: String,
    /// Classes, and widths in percent of the longest bar.
    bar: Vec<(&'static str, f64)>,
}

pub fn html(found: &Explanation) -> Result<String> {
    let page = Page {
        headline: headline(found),
        totals: totals(found),
        limits: limits(found),
        resident: resident(found),
        sentences: advice(found),
        parts: found.parts.iter().map(|part| part_row(found, part)).collect(),
        sizes: size_parts(&found.sizes),
        options: found.options.iter().map(option_cells).collect(),
        core: match &found.source {
            Source::Core { file, .. } => Some(file),
            Source::Process => None,
        },
        host: Host::of_this_machine(),
        tool_version: env!("CARGO_PKG_VERSION"),
        json: json(found).replace('<', "\\u003c"),
    };
    Ok(page.render()?)
}

fn part_row(found: &Explanation, part: &Part) -> PartRow {
    let share = share(found, part);
    PartRow {
        class: class(part.used_for),
        name: name(part.used_for),
        size: bytes_text(part.resident_bytes),
        share: percent(share),
        width: 100.0 * share,
        meaning: meaning(part, found.knows_heap()),
    }
}

/// One colour for what is in use, one for what is free, and others for what malloc has no part in.
fn class(used_for: Use) -> &'static str {
    match used_for {
        Use::Blocks => "used",
        Use::LargeBlocks => "used large",
        Use::Heaps => "used heaps",
        Use::Caches => "free cached",
        Use::FreeBlocks => "free",
        Use::FreePages => "free pages",
        Use::Records => "records",
        Use::Brk | Use::Anonymous => "anonymous",
        Use::Stacks => "stacks",
        Use::Programs => "programs",
        Use::Files => "files",
        Use::Shared => "shared",
    }
}

fn size_parts(rows: &[SizeRow]) -> Vec<SizePart> {
    let shown = shown_sizes(rows);
    let longest = shown.iter().map(|(_, row)| row.resident_bytes).max().unwrap_or(0).max(1);
    let bar = |row: &SizeRow| {
        [("used", row.in_use_bytes), ("free cached", row.cached_bytes), ("free", row.free_bytes)]
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(class, bytes)| (class, 100.0 * bytes as f64 / longest as f64))
            .collect()
    };
    let part = |(size, row): (String, SizeRow)| SizePart {
        size,
        blocks: with_thousands(row.blocks),
        in_use: bytes_text(row.in_use_bytes),
        cached: bytes_text(row.cached_bytes),
        free: bytes_text(row.free_bytes),
        resident: bytes_text(row.resident_bytes),
        used: percent(row.used_share()),
        bar: bar(&row),
    };
    shown.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::html;
    use crate::explain::sample::{core, service, set_and_limited};

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let mut found = service();
        found.program = "<b>it</b></script>".to_owned();
        let page = html(&found).unwrap();
        assert!(page.contains("&#60;b&#62;it") && page.matches("</script>").count() == 1);
        assert!(!page.contains("<b>"));
        for outside in ["http://", "https://", "src=", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn every_part_is_in_the_bar_and_in_the_table() {
        let page = html(&service()).unwrap();
        for name in ["blocks in use", "threads&#39; caches", "other anonymous", "stacks"] {
            assert_eq!(page.matches(&format!("</span>{name}</th>")).count(), 1, "{name}");
            assert_eq!(page.matches(&format!("title=\"{name}: ")).count(), 1, "{name}");
        }
        assert!(page.contains("Blocks by size") && page.contains("2 more"));
    }

    #[test]
    fn options_that_are_set_and_limits_are_shown() {
        let page = html(&set_and_limited()).unwrap();
        let row = "<tr><th class=\"text\">purge_delay</th><td class=\"text\">1,500 ms</td>";
        for shown in [
            row,
            "<td class=\"text faint\">prim_option_set</td>",
            "limits: cgroup\u{a0}512\u{a0}MiB\u{a0}(",
        ] {
            assert!(page.contains(shown), "{shown} in {page}");
        }
        let ordinary = html(&service()).unwrap();
        assert!(!ordinary.contains("Options") && !ordinary.contains("limits:"));
    }

    #[test]
    fn without_sizes_there_is_no_empty_table() {
        let mut found = core();
        found.sizes.clear();
        let page = html(&found).unwrap();
        assert!(!page.contains("Blocks by size") && page.contains("<dd>core.4711</dd>"));
    }
}
