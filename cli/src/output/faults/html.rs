//! The findings as one HTML page that needs nothing else: styles, plots and figures are inside.

use anyhow::Result;
use askama::Template;

use super::chart::{self, Chart};
use super::json;
use super::words::{
    caption, kind_explained, kind_name, remarks, repeated_text, site_name, site_place, totals,
    visible_kinds,
};
use crate::faults::{Findings, Kind, SiteRow, advice};
use crate::output::Host;
use crate::output::quantity::{percent, with_thousands};

#[derive(Template)]
#[template(path = "faults.html")]
struct Page<'a> {
    command: &'a str,
    caption: String,
    totals: String,
    advice: Vec<String>,
    remarks: Vec<String>,
    charts: Vec<Chart>,
    kinds: Vec<KindPart>,
    sites: Vec<SitePart>,
    host: Host,
    tool_version: &'static str,
    /// Safe in a script element, as it has no `<` left.
    json: String,
}

struct KindPart {
    class: String,
    name: &'static str,
    explained: &'static str,
    minor: String,
    major: String,
    share: String,
    /// Widths in percent, of the share and of its repeated part.
    width: f64,
    repeated_width: f64,
    repeated: String,
}

struct SitePart {
    class: String,
    kind: &'static str,
    name: String,
    via: String,
    place: String,
    path: String,
    faults: String,
    share: String,
    width: f64,
}

pub fn html(findings: &Findings) -> Result<String> {
    let page = Page {
        command: &findings.subject.command,
        caption: caption(findings),
        totals: totals(findings),
        advice: advice(findings),
        remarks: remarks(findings),
        charts: match findings.timeline.is_seen() {
            true => chart::charts(&findings.timeline)?,
            false => Vec::new(),
        },
        kinds: kinds(findings),
        sites: findings.sites.iter().map(site).collect(),
        host: Host::of_this_machine(),
        tool_version: env!("CARGO_PKG_VERSION"),
        json: json(findings).replace('<', "\\u003c"),
    };
    Ok(page.render()?)
}

fn kinds(findings: &Findings) -> Vec<KindPart> {
    let part = |row: &crate::faults::KindRow| KindPart {
        class: class(row.kind),
        name: kind_name(row.kind),
        explained: kind_explained(row),
        minor: with_thousands(row.minor_faults),
        major: with_thousands(row.major_faults),
        share: percent(row.share),
        width: 100.0 * row.share,
        repeated_width: 100.0 * row.share * row.repeated_share.unwrap_or(0.0),
        repeated: repeated_text(row),
    };
    visible_kinds(findings).map(part).collect()
}

fn site(site: &SiteRow) -> SitePart {
    SitePart {
        class: class(site.kind),
        kind: kind_name(site.kind),
        name: site_name(site),
        via: site.via.clone().unwrap_or_default(),
        place: site_place(site),
        path: site.object.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        faults: with_thousands(site.minor_faults + site.major_faults),
        share: percent(site.share),
        width: 100.0 * site.share,
    }
}

fn class(kind: Kind) -> String {
    kind_name(kind).replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use crate::faults::sample;

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let mut findings = sample::storm();
        findings.subject.command = "grep '<b>' </script>".to_owned();
        let page = super::html(&findings).unwrap();
        assert!(page.contains("<svg") && page.contains("solve&#60;double&#62;"));
        assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"").count());
        assert!(!page.contains("<b>") && page.matches("</script>").count() == 1);
        let namespaces = page.matches("http://www.w3.org").count();
        assert_eq!(page.matches("http://").count(), namespaces);
        for outside in ["https://", "src=", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn without_kinds_the_page_has_no_empty_tables() {
        let mut findings = sample::storm();
        findings.kinds.clear();
        findings.sites.clear();
        findings.unattributed = Some("--no-perf was given".to_owned());
        let page = super::html(&findings).unwrap();
        assert!(!page.contains("<table") && page.contains("not attributed"));
    }
}
