//! What was seen as one HTML page that needs nothing else: styles, chart and figures are inside.

use anyhow::Result;
use askama::Template;

use super::chart::{Chart, chart, color};
use super::json;
use super::words::{Per, change, headline, name, rows, size_cells, sizes, totals};
use crate::output::Host;
use crate::output::quantity::bytes_text;
use crate::watch::{Trend, Watched, advice};

#[derive(Template)]
#[template(path = "watch.html")]
struct Page {
    headline: String,
    totals: String,
    sentences: Vec<String>,
    chart: Option<Chart>,
    per: &'static str,
    rows: Vec<Row>,
    sizes: Vec<[String; 4]>,
    host: Host,
    tool_version: &'static str,
    /// Safe in a script element, as it has no `<` left.
    json: String,
}

struct Row {
    /// None is of all together.
    color: Option<String>,
    name: &'static str,
    first: String,
    last: String,
    change: String,
    rate: String,
    still_grows: bool,
}

pub fn html(found: &Watched) -> Result<String> {
    let per = Per::of(found);
    let row = |trend: Trend| Row {
        color: trend.used_for.map(color).map(|rgb| format!("rgb({},{},{})", rgb.0, rgb.1, rgb.2)),
        name: name(&trend),
        first: bytes_text(trend.first_bytes),
        last: bytes_text(trend.last_bytes),
        change: change(&trend),
        rate: per.rate(found, &trend),
        still_grows: trend.still_grows,
    };
    let page = Page {
        headline: headline(found),
        totals: totals(found),
        sentences: advice(found),
        chart: chart(found)?,
        per: per.name,
        rows: rows(found).into_iter().map(|(trend, _)| row(trend)).collect(),
        sizes: sizes(found).iter().map(size_cells).collect(),
        host: Host::of_this_machine(),
        tool_version: env!("CARGO_PKG_VERSION"),
        json: json(found).replace('<', "\\u003c"),
    };
    Ok(page.render()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::sample::{at_rest, leaking, watched};

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let mut found = leaking();
        found.last.program = "<b>it</b></script>".to_owned();
        let page = html(&found).unwrap();
        assert!(page.contains("&#60;b&#62;it") && page.matches("</script>").count() == 1);
        assert!(!page.contains("<b>"));
        for outside in ["http://", "https://", "src=", "<link", "@import", "url("] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_chart_is_there_where_there_is_a_course_and_is_named() {
        let page = html(&leaking()).unwrap();
        assert_eq!((page.matches("<svg").count(), page.matches("role=\"img\"").count()), (1, 1));
        let page = html(&watched(&[(70, 4, 24)])).unwrap();
        assert!(!page.contains("<svg") && page.contains("What has changed"));
    }

    #[test]
    fn every_part_has_its_row_and_its_colour() {
        let page = html(&leaking()).unwrap();
        assert_eq!(page.matches("class=\"dot\"").count(), 4, "{page}");
        assert!(page.contains("all of it") && page.contains("grows") && page.contains("1,024"));
        assert!(!html(&at_rest()).unwrap().contains("Blocks in use by size"));
    }
}
