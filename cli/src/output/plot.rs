//! Plots: for each metric a strip per allocator, a dot per run, a bar at the median.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::quantity::with_thousands;
use super::report::Row;
use super::{Entry, Report};
use crate::environment::Setting;

const WIDTH: u32 = 560;
const STRIP_HEIGHT: u32 = 34;
const AXIS_HEIGHT: u32 = 40;
/// Of the names beside the strips, at least and at most; what is longer is cut.
const NAMES_WIDTH: (u32, u32) = (120, 240);
pub const LETTER_WIDTH: u32 = 7;
const LINE_HEIGHT: i32 = 14;
const MARKS: usize = 6;

/// The axis is drawn in a grey that can be read on light and on dark ground.
pub const INK: RGBColor = RGBColor(128, 128, 128);
pub const COLORS: [RGBColor; 8] = [
    RGBColor(127, 127, 127),
    RGBColor(13, 148, 136),
    RGBColor(234, 88, 12),
    RGBColor(99, 102, 241),
    RGBColor(219, 39, 119),
    RGBColor(202, 138, 4),
    RGBColor(34, 139, 230),
    RGBColor(132, 94, 194),
];

pub struct Plot {
    pub title: String,
    pub svg: String,
}

/// One plot for each metric that is not zero throughout.
pub fn plots(report: &Report) -> Result<Vec<Plot>> {
    let mut plots = Vec::new();
    for row in report.rows() {
        if row.cells.iter().any(|cell| cell.summary.max > 0.0) {
            let svg = draw(report, &row).map_err(|error| anyhow!("cannot draw: {error}"))?;
            let unit = row.scale.suffix;
            let title = match unit {
                "" => row.metric.label.to_owned(),
                _ => format!("{}, {unit}", row.metric.label),
            };
            plots.push(Plot { title, svg });
        }
    }
    Ok(plots)
}

type DrawResult<T> = Result<T, Box<dyn std::error::Error>>;

fn draw(report: &Report, row: &Row) -> DrawResult<String> {
    let strips = report.entries.len();
    let height = strips as u32 * STRIP_HEIGHT + AXIS_HEIGHT;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw_strips(&area, report, row)?;
        area.present()?;
    }
    Ok(scalable(&svg, (WIDTH, height)))
}

fn draw_strips(
    area: &DrawingArea<SVGBackend, Shift>,
    report: &Report,
    row: &Row,
) -> DrawResult<()> {
    let strips = report.entries.len();
    let names_width = names_width(report);
    let highest = row.cells.iter().map(|cell| cell.summary.max).fold(0.0, f64::max);
    let end = highest / row.scale.divisor() * 1.05;
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_top(6)
        .x_label_area_size(AXIS_HEIGHT - 12)
        .y_label_area_size(names_width)
        .build_cartesian_2d(0.0..end, (strips as f64)..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_labels(MARKS)
        .x_label_formatter(&|value| label(*value, end, MARKS))
        .axis_style(INK)
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;

    let name_style =
        ("sans-serif", 13).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
    for (index, entry) in report.entries.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let middle = index as f64 + 0.5;
        let figures = &entry.figures[row.index];
        let scaled = |value: f64| value / row.scale.divisor();
        let median = scaled(figures.summary.median);
        chart.draw_series([Rectangle::new(
            [(0.0, middle - 0.28), (median, middle + 0.28)],
            color.mix(0.25).filled(),
        )])?;
        chart.draw_series([PathElement::new(
            [(median, middle - 0.34), (median, middle + 0.34)],
            color.stroke_width(3),
        )])?;
        let dots = figures
            .values
            .iter()
            .map(|&value| Circle::new((scaled(value), middle), 3, color.mix(0.7).filled()));
        chart.draw_series(dots)?;
        let (_, y) = chart.backend_coord(&(0.0, middle));
        let lines = name_lines(entry);
        let first = y - (lines.len() as i32 - 1) * LINE_HEIGHT / 2;
        for (line, text) in (0..).zip(lines) {
            let place = (names_width as i32 - 8, first + line * LINE_HEIGHT);
            area.draw(&Text::new(text, place, &name_style))?;
        }
    }
    Ok(())
}

/// The allocator, and below it its settings.
fn name_lines(entry: &Entry) -> Vec<String> {
    let settings: Vec<String> = entry.settings.iter().map(Setting::to_string).collect();
    let lines = [entry.allocator.clone(), settings.join(" ")];
    lines.into_iter().filter(|line| !line.is_empty()).map(cut).collect()
}

fn cut(line: String) -> String {
    let letters = ((NAMES_WIDTH.1 - 16) / LETTER_WIDTH) as usize;
    if line.chars().count() <= letters {
        return line;
    }
    line.chars().take(letters - 1).chain(['…']).collect()
}

fn names_width(report: &Report) -> u32 {
    let lines = report.entries.iter().flat_map(name_lines);
    let letters = lines.map(|line| line.chars().count()).max().unwrap_or(0) as u32;
    (letters * LETTER_WIDTH + 16).clamp(NAMES_WIDTH.0, NAMES_WIDTH.1)
}

/// A number beside an axis from 0 to `end` that has so many marks at most: all have as many digits
/// as it takes to tell them apart.
pub fn label(value: f64, end: f64, marks: usize) -> String {
    match decimals(end, marks) {
        0 => with_thousands(value.round() as u64),
        some => format!("{value:.some$}"),
    }
}

/// Marks are at multiples of 1, 2 or 5 of some power of ten, which is more than this.
fn decimals(end: f64, marks: usize) -> usize {
    let distance = end / marks as f64;
    if distance < f64::EPSILON {
        return 0;
    }
    let power = distance.log10().floor();
    let is_next = distance >= 5.0 * 10_f64.powf(power);
    (-power - f64::from(u8::from(is_next))).max(0.0) as usize
}

/// An axis of time from 0 on, in the unit in which its marks are round.
pub struct TimeAxis {
    unit_seconds: f64,
    unit: &'static str,
    /// Here and below in that unit.
    pub end: f64,
}

impl TimeAxis {
    pub const MARKS: usize = 8;

    pub fn until(seconds: f64) -> TimeAxis {
        let (unit_seconds, unit) = match seconds {
            short if short < 300.0 => (1.0, "s"),
            some if some < 4.0 * 3600.0 => (60.0, "min"),
            _ => (3600.0, "h"),
        };
        TimeAxis { unit_seconds, unit, end: (seconds / unit_seconds).max(f64::MIN_POSITIVE) }
    }

    pub fn place(&self, seconds: f64) -> f64 {
        seconds / self.unit_seconds
    }

    pub fn label(&self, place: f64) -> String {
        format!("{} {}", label(place, self.end, TimeAxis::MARKS), self.unit)
    }
}

/// Lets the page choose the width.
pub fn scalable(svg: &str, (width, height): (u32, u32)) -> String {
    let fixed = format!("width=\"{width}\" height=\"{height}\"");
    svg.replacen(&fixed, "", 1)
}

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::{BoldPoints, Ranged};
    use plotters::coord::types::RangedCoordf64;

    use super::*;

    fn labels(end: f64, marks: usize, label: impl Fn(f64) -> String) -> Vec<String> {
        let places = RangedCoordf64::from(0.0..end).key_points(BoldPoints(marks));
        places.into_iter().map(label).collect()
    }

    #[test]
    fn marks_can_be_told_apart_and_are_where_they_say() {
        for end in (1..2000).map(|number| f64::from(number) * 0.003) {
            for marks in [4, MARKS, TimeAxis::MARKS] {
                let labels = labels(end, marks, |value| label(value, end, marks));
                let mut different = labels.clone();
                different.dedup();
                assert_eq!(labels, different, "{end}");
            }
        }
        let of = |end| labels(end, MARKS, |value| label(value, end, MARKS));
        assert_eq!(of(0.25), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"]);
        assert_eq!(of(2.1), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(of(3e6), ["0", "1,000,000", "2,000,000", "3,000,000"]);
        assert_eq!(of(f64::MIN_POSITIVE).len(), 1);
    }

    #[test]
    fn times_have_the_unit_in_which_marks_are_round() {
        let of = |seconds| {
            let axis = TimeAxis::until(seconds);
            labels(axis.end, TimeAxis::MARKS, |place| axis.label(place))
        };
        assert_eq!(of(0.3), ["0.00 s", "0.05 s", "0.10 s", "0.15 s", "0.20 s", "0.25 s", "0.30 s"]);
        assert_eq!(of(4.0)[1], "1 s");
        assert_eq!(of(300.0), ["0 min", "1 min", "2 min", "3 min", "4 min", "5 min"]);
        assert_eq!(of(8.0 * 3600.0), ["0 h", "2 h", "4 h", "6 h", "8 h"]);
        let axis = TimeAxis::until(600.0);
        assert_eq!((axis.place(600.0), axis.label(axis.place(120.0))), (10.0, "2 min".to_owned()));
    }
}
