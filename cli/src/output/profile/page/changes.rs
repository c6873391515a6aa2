//! Two profiles side by side as one page: differential flame graphs, and who holds more or less.

use std::collections::BTreeMap;

use anyhow::Result;
use askama::Template;

use super::super::collapsed::by_function;
use super::super::json;
use super::super::words::{clipped, count_difference, difference, size};
use super::flame::{Dress, Flame, Line, flame};
use super::view::{self, Figure, part};
use super::{FUNCTIONS_INSIDE, SCRIPT, STYLE, VIEWS_MAX, facts_of, inside, made_by};
use crate::profile::{Change, Common, Comparison, Function, Profile, Series, Stacks};

const ROWS: usize = 60;

/// The earlier and the later profile.
pub struct Sources<'a> {
    pub titles: [&'a str; 2],
    pub stacks: [&'a Stacks<'a>; 2],
    /// Those that both have.
    pub series: &'a [[Series; 2]],
    pub remarks: &'a [String],
}

#[derive(Template)]
#[template(path = "diff.html")]
struct Page<'a> {
    titles: [&'a str; 2],
    remarks: &'a [String],
    views: Vec<ViewPart>,
    facts: Vec<Facts>,
    made_by: String,
    style: &'static str,
    script: &'static str,
    json: String,
}

struct ViewPart {
    label: String,
    before: String,
    after: String,
    change: String,
    is_more: bool,
    flames: Vec<Flame>,
    has_objects: bool,
    rows: Vec<RowPart>,
    rest: usize,
}

struct RowPart {
    name: String,
    full_name: String,
    line: String,
    library: String,
    is_more: bool,
    change: Figure,
    objects: Figure,
    before: Figure,
    after: Figure,
    /// Percent of the largest change.
    width: f64,
}

struct Facts {
    title: String,
    facts: Vec<(&'static str, String)>,
}

pub fn changes_html(sources: &Sources) -> Result<String> {
    let facts = |(title, stacks): (&&str, &&Stacks)| {
        let profile: &Profile = stacks.profile;
        Facts { title: (*title).to_owned(), facts: facts_of(profile) }
    };
    let says_something =
        |[_, after]: &&[Series; 2]| view::says_something(sources.stacks[1].profile, after);
    let shown = sources.series.iter().filter(says_something).take(VIEWS_MAX);
    let page = Page {
        titles: sources.titles,
        remarks: sources.remarks,
        views: shown.map(|series| view_part(sources, series)).collect::<Result<_>>()?,
        facts: sources.titles.iter().zip(&sources.stacks).map(facts).collect(),
        made_by: made_by("diff"),
        style: STYLE,
        script: SCRIPT,
        json: inside(&json::changes(sources, Some(FUNCTIONS_INSIDE))),
    };
    Ok(page.render()?)
}

fn view_part(sources: &Sources, series: &[Series; 2]) -> Result<ViewPart> {
    let [before, after] = [0, 1].map(|number| (sources.stacks[number], &series[number]));
    let found = Comparison::new(before, after);
    let (functions, lines) = together([before, after]);
    let mut flames = Vec::new();
    flames.extend(flame("as it is after".into(), &functions, &lines, &Dress::Change)?);
    let turned: Vec<Line> = lines
        .into_iter()
        .map(|line| Line { stack: line.stack, before: line.bytes, bytes: line.before })
        .collect();
    flames.extend(flame("as it was before".into(), &functions, &turned, &Dress::Return)?);
    let largest = found.changes.first().map_or(0, |change| change.growth().abs());
    Ok(ViewPart {
        label: series[1].label.clone(),
        before: size(found.bytes.0),
        after: size(found.bytes.1),
        change: difference(found.bytes.1 - found.bytes.0),
        is_more: found.bytes.1 > found.bytes.0,
        flames,
        has_objects: found.objects.is_some(),
        rows: found.changes.iter().take(ROWS).map(|change| row(change, largest)).collect(),
        rest: found.changes.len().saturating_sub(ROWS),
    })
}

fn row(change: &Change, largest: i64) -> RowPart {
    let objects = change.objects.map_or(0, |(before, after)| after - before);
    RowPart {
        name: clipped(&change.function.short_name, 120),
        full_name: clipped(&change.function.name, 480),
        line: change.line.clone().unwrap_or_default(),
        library: change.function.library.to_string(),
        is_more: change.growth() >= 0,
        change: Figure { text: difference(change.growth()), value: change.growth() },
        objects: Figure { text: count_difference(objects), value: objects },
        before: Figure { text: size(change.bytes.0), value: change.bytes.0 },
        after: Figure { text: size(change.bytes.1), value: change.bytes.1 },
        width: part(change.growth(), largest),
    }
}

/// The stacks of both, with functions that are the same in both.
pub fn together(sides: [(&Stacks, &Series); 2]) -> (Vec<Function>, Vec<Line>) {
    let common = Common::new(sides[0].0, sides[1].0);
    let mut lines: BTreeMap<Vec<u32>, (i64, i64)> = BTreeMap::new();
    for (side, (stacks, series)) in sides.into_iter().enumerate() {
        let numbers = &common.numbers[side];
        for (stack, bytes) in by_function(stacks, series.bytes) {
            let stack = stack.into_iter().map(|function| numbers[function as usize]).collect();
            let sums = lines.entry(stack).or_default();
            let sum = if side == 0 { &mut sums.0 } else { &mut sums.1 };
            *sum = sum.saturating_add(bytes);
        }
    }
    let line = |(stack, (before, bytes))| Line { stack, before, bytes };
    (common.functions, lines.into_iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, parse, sample, series};

    fn page_of(profiles: &[Profile; 2]) -> String {
        let stacks = [Stacks::new(&profiles[0]), Stacks::new(&profiles[1])];
        let all = series(&profiles[0]).into_iter().zip(series(&profiles[1]));
        let all: Vec<[Series; 2]> = all.map(|(before, after)| [before, after]).collect();
        let sources = Sources {
            titles: ["before <1>", "after"],
            stacks: [&stacks[0], &stacks[1]],
            series: &all,
            remarks: &[],
        };
        changes_html(&sources).unwrap()
    }

    #[test]
    fn a_page_shows_both_sides() {
        let page = page_of(&[sample::service(), sample::service_later()]);
        for part in
            ["+8.00 MiB", "before &#60;1&#62;", "id=\"view2\"", "as it was before", "log_line"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("before <1>"));
        assert!(page.contains("before 12.0 MiB, +8.00 MiB"));
        assert!(page.contains("after 20.0 MiB, +8.00 MiB"));
        assert!(page.contains(">objects</th>"));
    }

    #[test]
    fn what_does_not_count_objects_has_no_column_of_them() {
        let profiles = ["main;f 1000\n", "main;f 3000\n"];
        let page = page_of(&profiles.map(|text| parse(text.as_bytes()).unwrap()));
        assert!(page.contains("+1.95 KiB") && !page.contains(">objects</th>"));
    }
}
