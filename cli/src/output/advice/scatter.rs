//! Time against memory, a dot for each candidate, in parts of the reference's.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Advice;
use super::choice::Standing;
use crate::measure::{MEMORY, TIME};
use crate::output::plot::{COLORS, INK, LETTER_WIDTH, Plot, scalable};
use crate::output::without_beginning;

const SIZE: (u32, u32) = (960, 460);
const NAMES_WIDTH: u32 = 300;
/// What is longer loses its beginning: the settings at its end tell more.
const NAME_LETTERS: usize = ((NAMES_WIDTH - 16) / LETTER_WIDTH) as usize;
const NAME_HEIGHT: i32 = 17;
const BEST: RGBColor = COLORS[1];

/// A candidate's place, and how far its runs lie around it.
struct Dot<'a> {
    name: &'a str,
    is_unbeaten: bool,
    time: f64,
    memory: f64,
    spread: (f64, f64),
}

/// None where the reference is 0.
pub fn scatter(advice: &Advice) -> Result<Option<Plot>> {
    let dots: Vec<Dot> = dots(advice);
    if dots.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, &dots).map_err(|error| anyhow!("cannot draw: {error}"))?;
        area.present()?;
    }
    let title = format!("Time and peak memory, in parts of {}'s", advice.report.reference().name);
    Ok(Some(Plot { title, svg: scalable(&svg, SIZE) }))
}

/// Of all that ran to the end: what is far behind would press the others together.
fn dots<'a>(advice: &Advice<'a>) -> Vec<Dot<'a>> {
    let report = advice.report;
    let entries = report.entries.iter().zip(&advice.choice.standings);
    let dot = |(entry, standing): (&'a _, &Standing)| {
        let [time, memory] = [TIME, MEMORY].map(|metric| report.ratio(entry, metric));
        let relative = |metric: usize| {
            let summary = &entry.figures[metric].summary;
            summary.spread / report.reference().figures[metric].summary.median
        };
        Some(Dot {
            name: &entry.name,
            is_unbeaten: *standing == Standing::Unbeaten,
            time: time?,
            memory: memory?,
            spread: (relative(TIME), relative(MEMORY)),
        })
    };
    entries.filter(|(_, standing)| **standing <= Standing::Beaten).filter_map(dot).collect()
}

type DrawResult<T> = Result<T, Box<dyn std::error::Error>>;

fn draw(area: &DrawingArea<SVGBackend, Shift>, dots: &[Dot]) -> DrawResult<()> {
    let times = dots.iter().flat_map(|dot| [dot.time - dot.spread.0, dot.time + dot.spread.0]);
    let peaks = dots.iter().flat_map(|dot| [dot.memory - dot.spread.1, dot.memory + dot.spread.1]);
    let label = |value: &f64| format!("{value:.2}×");
    let mut chart = ChartBuilder::on(area)
        .margin_top(10)
        .margin_right(NAMES_WIDTH)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(range_around(times), range_around(peaks))?;
    chart
        .configure_mesh()
        .x_desc("time")
        .y_desc("peak memory")
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .axis_style(INK)
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    for dot in dots {
        let color = color_of(dot);
        let (across, up) = dot.spread;
        let bars = [
            [(dot.time - across, dot.memory), (dot.time + across, dot.memory)],
            [(dot.time, dot.memory - up), (dot.time, dot.memory + up)],
        ];
        chart.draw_series(bars.map(|bar| PathElement::new(bar, color.mix(0.5))))?;
        chart.draw_series([Circle::new((dot.time, dot.memory), 5, color.filled())])?;
    }
    let places = dots.iter().map(|dot| chart.backend_coord(&(dot.time, dot.memory)));
    draw_names(area, dots, &places.collect::<Vec<_>>())
}

fn color_of(dot: &Dot) -> RGBColor {
    if dot.is_unbeaten { BEST } else { INK }
}

/// All names beside the plot, as high as their dots where there is room, and a line to each: on the
/// dots they would hide each other.
fn draw_names(
    area: &DrawingArea<SVGBackend, Shift>,
    dots: &[Dot],
    places: &[(i32, i32)],
) -> DrawResult<()> {
    let mut order: Vec<usize> = (0..dots.len()).collect();
    order.sort_by_key(|index| places[*index].1);
    let wanted: Vec<i32> = order.iter().map(|index| places[*index].1).collect();
    let left = (SIZE.0 - NAMES_WIDTH) as i32 + 16;
    for (index, height) in order.into_iter().zip(spread_out(&wanted, SIZE.1 as i32 - 50)) {
        let (dot, (x, y)) = (&dots[index], places[index]);
        let color = color_of(dot);
        let line = PathElement::new(
            [(x + 6, y), (left - 12, height), (left - 4, height)],
            color.mix(0.35),
        );
        area.draw(&line)?;
        let font = ("sans-serif", 13).into_font();
        let style = font.color(&color).pos(Pos::new(HPos::Left, VPos::Center));
        let name = without_beginning(dot.name, NAME_LETTERS);
        area.draw(&Text::new(name, (left, height), &style))?;
    }
    Ok(())
}

/// Sorted heights, moved so that each is a name's height from the next and none beyond `bottom`.
fn spread_out(wanted: &[i32], bottom: i32) -> Vec<i32> {
    let mut heights: Vec<i32> = Vec::new();
    for (index, &height) in wanted.iter().enumerate() {
        let below = (wanted.len() - 1 - index) as i32 * NAME_HEIGHT;
        let lowest = heights.last().map_or(NAME_HEIGHT, |last| last + NAME_HEIGHT);
        heights.push(height.min(bottom - below).max(lowest));
    }
    heights
}

/// With the reference and some room.
fn range_around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((1.0, 1.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    let room = ((high - low) * 0.08).max(0.02);
    (low - room)..(high + room)
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    #[test]
    fn names_stand_apart_and_within_the_picture() {
        assert_eq!(spread_out(&[100, 101, 200], 400), [100, 117, 200]);
        assert_eq!(spread_out(&[390, 395, 399], 400), [366, 383, 400]);
        assert_eq!(spread_out(&[0], 400), [NAME_HEIGHT]);
    }

    #[test]
    fn all_that_ran_to_the_end_are_drawn() {
        let candidates = [("glibc", 1.0, 1.0), ("fast", 0.5, 1.0), ("out", 9.0, 9.0)];
        let mut report = sample::report_of(0.01, &candidates);
        sample::keep_runs(&mut report.entries[2], 2);
        let advice = Advice::on(&report, &[], &[]);
        let svg = scatter(&advice).unwrap().unwrap().svg;
        assert!(svg.contains("fast") && svg.contains("glibc") && !svg.contains("out\n"));
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn a_name_that_has_no_room_shows_its_end() {
        let long = "primalloc:purge_delay=0:thp=never:cache_thread=256K";
        let report = sample::report_of(0.01, &[("glibc", 1.0, 1.0), (long, 0.9, 0.9)]);
        let svg = scatter(&Advice::on(&report, &[], &[])).unwrap().unwrap().svg;
        assert!(svg.contains("\n…rge_delay=0:thp=never:cache_thread=256K\n"), "{svg}");
    }
}
