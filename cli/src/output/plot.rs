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
const LETTER_WIDTH: u32 = 7;
const LINE_HEIGHT: i32 = 14;

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
        .x_labels(6)
        .x_label_formatter(&|value| axis_label(*value))
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

fn axis_label(value: f64) -> String {
    if value.fract() == 0.0 { with_thousands(value as u64) } else { format!("{value:.1}") }
}

/// Lets the page choose the width.
pub fn scalable(svg: &str, (width, height): (u32, u32)) -> String {
    let fixed = format!("width=\"{width}\" height=\"{height}\"");
    svg.replacen(&fixed, "", 1)
}
