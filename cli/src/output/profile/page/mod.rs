//! Who holds memory, as one HTML page that needs nothing else: pictures, tables, figures, script.
//!
//!   view.rs     one view (live, peak, ...): its flame graph, treemap and tables
//!   flame.rs    where the frames of a flame graph lie
//!   treemap.rs  where libraries and their functions lie
//!   charts.rs   the timeline and the histograms; axis.rs their scales
//!   changes.rs  the page of two profiles; losses.rs what is special to leaks
//!   colours.rs  which library has which colour
//!
//! The markup is templates/profile.html, where everything that is shown is escaped. Places are
//! percents across and pixels down, so that letters keep their size on every screen.

mod axis;
mod changes;
mod charts;
mod colours;
mod flame;
mod losses;
mod treemap;
mod view;

use anyhow::Result;
use askama::Template;

use self::charts::{Histogram, Timeline};
use self::colours::Colours;
use self::losses::Group;
use self::view::ViewPart;
use super::json;
use super::words::{caption, count, counted, duration, size, utc};
use crate::output::Host;
use crate::profile::{Kind, Profile, Series, Sites, Stacks};

pub use changes::{Sources, changes_html, together};

/// More views than a profile of ours or of others has; the style sheet knows so many.
const VIEWS_MAX: usize = 8;
/// Functions that the JSON in the page has; `--json` has them all.
const FUNCTIONS_INSIDE: usize = 500;

/// What a page is made from.
pub struct Source<'a> {
    pub verb: &'static str,
    /// The command or the file.
    pub title: &'a str,
    pub stacks: &'a Stacks<'a>,
    pub series: &'a [Series],
    pub remarks: &'a [String],
    /// Where it ran, if that was here and now.
    pub host: Option<Host>,
}

#[derive(Template)]
#[template(path = "profile.html")]
struct Page<'a> {
    verb: &'static str,
    title: &'a str,
    caption: String,
    lead: Vec<String>,
    remarks: &'a [String],
    views: Vec<ViewPart>,
    timeline: Option<Timeline>,
    histograms: Vec<Histogram>,
    groups: Vec<Group>,
    facts: Vec<(&'static str, String)>,
    style: &'static str,
    script: &'static str,
    /// Safe in a script element, as it has no `<` left.
    json: String,
}

const STYLE: &str = include_str!("../../../../templates/profile.css");
const SCRIPT: &str = include_str!("../../../../templates/profile.js");

pub fn html(source: &Source) -> Result<String> {
    let profile = source.stacks.profile;
    let shown: Vec<&Series> =
        source.series.iter().filter(|series| view::says_something(profile, series)).collect();
    let colours = Colours::new(source.stacks, &Sites::new(source.stacks, &source.series[0]));
    let views = shown.iter().take(VIEWS_MAX);
    let views = views.map(|series| view::view(source.stacks, series, &colours));
    let is_leaks = profile.facts.kind == Some(Kind::Leaks);
    let page = Page {
        verb: source.verb,
        title: source.title,
        caption: caption(profile),
        lead: if is_leaks { losses::lead(source.stacks) } else { Vec::new() },
        remarks: source.remarks,
        views: views.collect::<Result<_>>()?,
        timeline: charts::timeline(&profile.facts),
        histograms: charts::histograms(&profile.facts),
        groups: if is_leaks { losses::groups(source.stacks) } else { Vec::new() },
        facts: facts(source),
        style: STYLE,
        script: SCRIPT,
        json: inside(&json::profile(source, Some(FUNCTIONS_INSIDE))),
    };
    Ok(page.render()?)
}

/// JSON that may stand in a script element.
fn inside(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn facts(source: &Source) -> Vec<(&'static str, String)> {
    let profile = source.stacks.profile;
    let mut facts =
        vec![(if source.verb == "report" { "file" } else { "command" }, source.title.to_owned())];
    facts.extend(facts_of(profile));
    if let Some(host) = &source.host {
        let processors = counted(host.processors as i64, "processor");
        facts.push(("processor", format!("{}, {processors}", host.processor)));
        facts.push(("kernel", host.kernel.clone()));
        facts.push(("C library", host.libc.clone()));
    }
    facts.push(("made by", made_by(source.verb)));
    facts
}

fn made_by(verb: &str) -> String {
    format!("primalloc {verb} {}", env!("CARGO_PKG_VERSION"))
}

/// What the profile tells about itself.
fn facts_of(profile: &Profile) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some((pid, name)) = &profile.facts.program {
        facts.push(("program", format!("{name}, process {pid}")));
    }
    if profile.time_nanos > 0 {
        let why = profile.facts.event.as_ref();
        let why = why.map_or_else(String::new, |(_, why)| format!(", at {}", event_text(why)));
        facts.push(("written", utc(profile.time_nanos) + &why));
    }
    if profile.duration_nanos > 0 {
        facts.push(("profiled for", duration(profile)));
    }
    facts.push((
        "sampling",
        match profile.period {
            Some(1) => "every call: figures are exact".to_owned(),
            Some(period) => format!("one in every {}: figures are estimates", size(period)),
            None => "not told".to_owned(),
        },
    ));
    facts.push(("stacks", count(profile.sample_count() as i64)));
    if profile.facts.lost > 0 {
        facts.push(("lost samples", count(profile.facts.lost as i64)));
    }
    if let Some(library) = &profile.facts.library {
        facts.push(("library", format!("primalloc {library}")));
    }
    facts
}

fn event_text(event: &str) -> String {
    match event {
        "exit" => "the program's end".to_owned(),
        "bytes" | "seconds" => format!("its turn ({event})"),
        "signal" | "call" | "peak" => format!("a {event}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{sample, series};

    fn page_of(profile: &Profile, title: &str) -> String {
        let stacks = Stacks::new(profile);
        let series = series(profile);
        let remarks = ["A <remark>.".to_owned()];
        let source = Source {
            verb: "report",
            title,
            stacks: &stacks,
            series: &series,
            remarks: &remarks,
            host: None,
        };
        html(&source).unwrap()
    }

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let mut profile = sample::service();
        for location in &mut profile.locations {
            for frame in &mut location.frames {
                frame.function = format!("{}<script>alert(1)</script>", frame.function).into();
                frame.library = format!("{}&<b>", frame.library).into();
            }
        }
        let page = page_of(&profile, "grep '<u>' </script>");
        for raw in ["<b>", "<u>", "<script>alert", "<remark>"] {
            assert!(!page.contains(raw), "{raw}");
        }
        assert!(page.contains("&#60;script&#62;"));
        assert_eq!(page.matches("</script>").count(), 2);
        for outside in ["http://", "https://", " src=", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn all_views_and_pictures_are_there() {
        let page = page_of(&sample::service(), "service.pb.gz");
        for part in [
            "id=\"view2\"",
            "class=\"flame\"",
            "class=\"treemap\"",
            "class=\"timeline\"",
            "id=\"sizes\"",
            "id=\"lifetimes\"",
            "cache.cc:42",
            "Cache::put",
            "46.0 MiB at 30 s",
            "one in every 512 KiB",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("id=\"view3\""), "the first file of a process has not grown");
    }

    #[test]
    fn one_processor_is_no_plural() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let host = Host { processors: 1, ..Host::of_this_machine() };
        let series = series(&profile);
        let source = Source {
            verb: "profile",
            title: "service",
            stacks: &stacks,
            series: &series,
            remarks: &[],
            host: Some(host),
        };
        let facts = facts(&source);
        assert!(facts.iter().any(|(_, fact)| fact.ends_with(", 1 processor")), "{facts:?}");
    }

    #[test]
    fn a_profile_without_samples_has_a_page_too() {
        let mut profile = sample::service();
        profile.retain(|_, _| false);
        assert!(page_of(&profile, "empty").contains("Too little was allocated"));
    }
}
