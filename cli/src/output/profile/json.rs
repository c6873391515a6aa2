//! Profiles, changes and leaks as JSON. The names are an interface: docs/tool.md lists them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::leaks::Losses;
use super::page::{Source, Sources};
use crate::profile::{
    Bucket, Change, Comparison, Kind, Point, Profile, Row, Series, Sites, Stacks,
};

/// Goes up when a name changes its meaning or goes away.
const FORMAT: u32 = 1;
const TOOL: &str = concat!("primalloc ", env!("CARGO_PKG_VERSION"));

/// Bytes and objects; objects are null where nobody counted them.
#[derive(Serialize)]
struct Amount {
    bytes: i64,
    objects: Option<i64>,
}

type Amounts<'a> = BTreeMap<&'a str, Amount>;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    tool: &'static str,
    kind: &'static str,
    title: &'a str,
    #[serde(flatten)]
    about: About<'a>,
    /// Names of what amounts are told for each function.
    views: Vec<&'a str>,
    totals: Amounts<'a>,
    functions: Vec<FunctionPart<'a>>,
    libraries: Vec<NamePart<'a>>,
    threads: Vec<NamePart<'a>>,
    tags: Vec<NamePart<'a>>,
    timeline: &'a [Point],
    live_sizes: &'a [Bucket],
    alloc_sizes: &'a [Bucket],
    lifetimes: &'a [Bucket],
    #[serde(skip_serializing_if = "Option::is_none")]
    leaks: Option<LeaksPart<'a>>,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct About<'a> {
    program: Option<&'a str>,
    pid: Option<u64>,
    library_version: Option<&'a str>,
    event: Option<&'a str>,
    unix_seconds: f64,
    seconds: f64,
    sample_bytes: Option<i64>,
    stacks: usize,
    lost_samples: u64,
}

#[derive(Serialize)]
struct FunctionPart<'a> {
    function: &'a str,
    library: &'a str,
    line: Option<&'a str>,
    via: Option<&'a str>,
    own: Amounts<'a>,
    with_callees: Amounts<'a>,
}

#[derive(Serialize)]
struct NamePart<'a> {
    name: &'a str,
    #[serde(flatten)]
    amounts: Amounts<'a>,
}

#[derive(Serialize)]
struct LeaksPart<'a> {
    direct: Amount,
    indirect: Amount,
    reachable: Option<Amount>,
    ignored: Option<Amount>,
    groups: Vec<GroupPart<'a>>,
}

#[derive(Serialize)]
struct GroupPart<'a> {
    own: Amount,
    held: Amount,
    inner: bool,
    stack: Vec<FramePart<'a>>,
}

#[derive(Serialize)]
struct FramePart<'a> {
    function: &'a str,
    library: &'a str,
    line: Option<String>,
}

#[derive(Serialize)]
struct ChangesDocument<'a> {
    format: u32,
    tool: &'static str,
    kind: &'static str,
    before: SidePart<'a>,
    after: SidePart<'a>,
    views: Vec<ViewPart<'a>>,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct SidePart<'a> {
    title: &'a str,
    #[serde(flatten)]
    about: About<'a>,
}

#[derive(Serialize)]
struct ViewPart<'a> {
    view: &'a str,
    before: Amount,
    after: Amount,
    functions: Vec<ChangePart>,
}

#[derive(Serialize)]
struct ChangePart {
    function: String,
    library: String,
    line: Option<String>,
    before: Amount,
    after: Amount,
}

/// With so many functions at most, the heaviest first.
pub fn profile(source: &Source, most: Option<usize>) -> String {
    let (stacks, profile) = (source.stacks, source.stacks.profile);
    let sites = Sites::new(stacks, &source.series[0]);
    let is_leaks = profile.facts.kind == Some(Kind::Leaks);
    let facts = &profile.facts;
    let rows = sites.rows.iter().take(most.unwrap_or(usize::MAX));
    text(&Document {
        format: FORMAT,
        tool: TOOL,
        kind: if is_leaks { "leaks" } else { "heap" },
        title: source.title,
        about: about(profile),
        views: source.series.iter().map(|series| series.label.as_str()).collect(),
        totals: amounts(source.series, &sites.totals),
        functions: rows.map(|row| function_part(source, row)).collect(),
        libraries: named(source.series, &sites.libraries),
        threads: named(source.series, &sites.threads),
        tags: named(source.series, &sites.tags),
        timeline: &facts.timeline,
        live_sizes: &facts.live_sizes,
        alloc_sizes: &facts.alloc_sizes,
        lifetimes: &facts.lifetimes,
        leaks: if is_leaks { leaks_part(stacks, most) } else { None },
        remarks: source.remarks,
    })
}

/// Two profiles, each view with so many functions at most.
pub fn changes(sources: &Sources, most: Option<usize>) -> String {
    let side = |number: usize| SidePart {
        title: sources.titles[number],
        about: about(sources.stacks[number].profile),
    };
    let view = |series: &'_ [Series; 2]| {
        let [before, after] = [0, 1].map(|number| (sources.stacks[number], &series[number]));
        let found = Comparison::new(before, after);
        let amounts = |bytes: (i64, i64), objects: Option<(i64, i64)>| {
            let (before, after) = objects.unzip();
            let amount = |bytes, objects| Amount { bytes, objects };
            (amount(bytes.0, before), amount(bytes.1, after))
        };
        let part = |change: &Change| {
            let (before, after) = amounts(change.bytes, change.objects);
            ChangePart {
                function: change.function.name.to_string(),
                library: change.function.library.to_string(),
                line: change.line.clone(),
                before,
                after,
            }
        };
        let changes = found.changes.iter().take(most.unwrap_or(usize::MAX)).map(part);
        (amounts(found.bytes, found.objects), changes.collect())
    };
    let views = sources.series.iter().map(|series| {
        let ((before, after), functions) = view(series);
        ViewPart { view: &series[1].label, before, after, functions }
    });
    text(&ChangesDocument {
        format: FORMAT,
        tool: TOOL,
        kind: "diff",
        before: side(0),
        after: side(1),
        views: views.collect(),
        remarks: sources.remarks,
    })
}

fn text(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("numbers and strings always become JSON") + "\n"
}

fn about(profile: &Profile) -> About<'_> {
    let facts = &profile.facts;
    About {
        program: facts.program.as_ref().map(|(_, name)| name.as_str()),
        pid: facts.program.as_ref().map(|(pid, _)| *pid),
        library_version: facts.library.as_deref(),
        event: facts.event.as_ref().map(|(_, event)| event.as_str()),
        unix_seconds: profile.time_nanos as f64 / 1e9,
        seconds: profile.duration_nanos as f64 / 1e9,
        sample_bytes: profile.period,
        stacks: profile.sample_count(),
        lost_samples: facts.lost,
    }
}

fn amounts<'a>(series: &'a [Series], values: &[i64]) -> Amounts<'a> {
    let amount = |series: &'a Series| {
        let objects = series.objects.map(|value| values[value]);
        (series.label.as_str(), Amount { bytes: values[series.bytes], objects })
    };
    series.iter().map(amount).collect()
}

fn named<'a>(series: &'a [Series], parts: &'a [(String, Vec<i64>)]) -> Vec<NamePart<'a>> {
    let part = |(name, values): &'a (String, Vec<i64>)| NamePart {
        name,
        amounts: amounts(series, values),
    };
    parts.iter().map(part).collect()
}

fn function_part<'a>(source: &Source<'a>, row: &'a Row) -> FunctionPart<'a> {
    let function = |number: u32| &source.stacks.functions[number as usize];
    FunctionPart {
        function: &function(row.function).name,
        library: &function(row.function).library,
        line: row.line.as_deref(),
        via: row.via.map(|via| &*function(via).name),
        own: amounts(source.series, &row.own),
        with_callees: amounts(source.series, &row.with_callees),
    }
}

fn leaks_part<'a>(stacks: &'a Stacks, most: Option<usize>) -> Option<LeaksPart<'a>> {
    let losses = Losses::of(stacks)?;
    let facts = &stacks.profile.facts;
    let amount = |(objects, bytes)| Amount { bytes, objects: Some(objects) };
    let fact = |pair: Option<(u64, u64)>| pair.map(|(o, b)| amount((o as i64, b as i64)));
    let frame = |(number, line): (u32, Option<String>)| {
        let function = &stacks.functions[number as usize];
        FramePart { function: &function.name, library: &function.library, line }
    };
    let groups = losses.groups.iter().take(most.unwrap_or(usize::MAX)).map(|loss| GroupPart {
        own: amount(loss.own),
        held: amount(loss.held),
        inner: loss.is_inner,
        stack: stacks
            .frames_of(stacks.profile.sample(loss.sample).stack)
            .into_iter()
            .map(frame)
            .collect(),
    });
    Some(LeaksPart {
        direct: amount(losses.direct),
        indirect: amount(losses.indirect),
        reachable: fact(facts.reachable),
        ignored: fact(facts.ignored),
        groups: groups.collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::profile::{sample, series};

    #[test]
    fn the_parts_of_a_profile_are_there() {
        let loaded = sample::service();
        let stacks = Stacks::new(&loaded);
        let all = series(&loaded);
        let source = Source {
            verb: "report",
            title: "x",
            stacks: &stacks,
            series: &all,
            remarks: &[],
            host: None,
        };
        let document: Value = serde_json::from_str(&profile(&source, None)).unwrap();
        assert_eq!((&document["format"], &document["kind"]), (&1.into(), &"heap".into()));
        assert_eq!((&document["pid"], &document["sample_bytes"]), (&4711.into(), &524_288.into()));
        assert_eq!(document["totals"]["live"]["bytes"], 23 << 20);
        let first = &document["functions"][0];
        assert_eq!(first["function"], "Cache::put(std::string const&)");
        assert_eq!((&first["line"], &first["via"]), (&"cache.cc:42".into(), &"xmalloc".into()));
        assert_eq!(first["own"]["peak"]["objects"], 3000);
        assert_eq!(document["threads"][0]["live"]["bytes"], 21 << 20);
        assert_eq!(document["timeline"][2]["bytes"], 48_234_496);
        assert!(document.get("leaks").is_none());
        let short: Value = serde_json::from_str(&profile(&source, Some(1))).unwrap();
        assert_eq!(short["functions"].as_array().unwrap().len(), 1);
    }
}
