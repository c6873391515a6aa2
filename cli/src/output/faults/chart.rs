//! The timeline as plots, one below the other on the same axis of time.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::faults::{Point, Timeline};
use crate::measure::Unit;
use crate::output::plot::{INK, TimeAxis, label, scalable};
use crate::output::quantity::Scale;

const SIZE: (u32, u32) = (920, 190);
const LABELS_WIDTH: u32 = 84;
const TIME_HEIGHT: u32 = 26;
const MARKS: usize = 4;

const TEAL: RGBColor = RGBColor(13, 148, 136);
const ORANGE: RGBColor = RGBColor(234, 88, 12);
const INDIGO: RGBColor = RGBColor(99, 102, 241);

pub struct Chart {
    pub title: String,
    pub svg: String,
}

/// Faults a second, resident and virtual size; major faults where there are any.
pub fn charts(timeline: &Timeline) -> Result<Vec<Chart>> {
    let size = |of: fn(&Point) -> u64| -> Vec<f64> {
        timeline.points.iter().map(|point| of(point) as f64).collect()
    };
    let mut lanes = vec![(
        "minor faults a second",
        Unit::Count,
        TEAL,
        timeline.rates(|point| point.minor_faults),
    )];
    if timeline.points.iter().any(|point| point.major_faults > 0) {
        let rates = timeline.rates(|point| point.major_faults);
        lanes.push(("major faults a second", Unit::Count, ORANGE, rates));
    }
    lanes.push(("resident size", Unit::Bytes, INDIGO, size(|point| point.resident_bytes)));
    lanes.push(("virtual size", Unit::Bytes, INK, size(|point| point.virtual_bytes)));
    lanes
        .into_iter()
        .map(|(title, unit, color, values)| chart(timeline, title, unit, color, &values))
        .collect()
}

fn chart(
    timeline: &Timeline,
    title: &str,
    unit: Unit,
    color: RGBColor,
    values: &[f64],
) -> Result<Chart> {
    let top = values.iter().copied().fold(0.0, f64::max);
    let scale = Scale::for_range(unit, top, top);
    let scaled: Vec<f64> = values.iter().map(|value| value / scale.divisor()).collect();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, timeline, color, &scaled)
            .and_then(|()| Ok(area.present()?))
            .map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    let title = match scale.suffix {
        "" => title.to_owned(),
        suffix => format!("{title}, {suffix}"),
    };
    Ok(Chart { title, svg: scalable(&svg, SIZE) })
}

type DrawResult = Result<(), Box<dyn std::error::Error>>;

fn draw(
    area: &DrawingArea<SVGBackend, Shift>,
    timeline: &Timeline,
    color: RGBColor,
    values: &[f64],
) -> DrawResult {
    let top = values.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let time = TimeAxis::until(timeline.seconds());
    let mut chart = ChartBuilder::on(area)
        .margin_right(18)
        .margin_top(8)
        .x_label_area_size(TIME_HEIGHT)
        .y_label_area_size(LABELS_WIDTH)
        .build_cartesian_2d(0.0..time.end, 0.0..top * 1.06)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(TimeAxis::MARKS)
        .y_labels(MARKS)
        .x_label_formatter(&|place| time.label(*place))
        .y_label_formatter(&|value| label(*value, top, MARKS))
        .axis_style(INK)
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    let steps = steps(timeline, values).map(|(seconds, value)| (time.place(seconds), value));
    chart.draw_series(
        AreaSeries::new(steps, 0.0, color.mix(0.25)).border_style(color.stroke_width(2)),
    )?;
    Ok(())
}

/// A value holds for its whole interval: the line goes in steps.
fn steps(timeline: &Timeline, values: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let begins = [0.0].into_iter().chain(timeline.points.iter().map(|point| point.seconds));
    let interval =
        |((begin, point), &value): ((f64, &Point), &f64)| [(begin, value), (point.seconds, value)];
    begins.zip(&timeline.points).zip(values).flat_map(interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::sample;

    #[test]
    fn every_chart_is_drawn_and_named() {
        let charts = charts(&sample::storm().timeline).unwrap();
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "minor faults a second",
                "major faults a second",
                "resident size, MiB",
                "virtual size, MiB"
            ]
        );
        assert!(charts.iter().all(|chart| chart.svg.contains("<polygon")));
    }

    #[test]
    fn a_timeline_without_points_is_an_empty_chart() {
        assert_eq!(charts(&Timeline::new(None)).unwrap().len(), 3);
    }
}
