//! The parts over time, one upon the other: together they are what is resident.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::explain::Use;
use crate::measure::Unit;
use crate::output::plot::{INK, TimeAxis, label, scalable};
use crate::output::quantity::Scale;
use crate::watch::Watched;

const SIZE: (u32, u32) = (920, 320);
const LABELS_WIDTH: u32 = 84;
const TIME_HEIGHT: u32 = 26;
const MARKS: usize = 6;

pub struct Chart {
    /// What the figures beside it are.
    pub unit: &'static str,
    pub svg: String,
}

/// One colour for what is in use, one for what is free, and others for what malloc has no part in.
pub fn color(used_for: Use) -> RGBColor {
    match used_for {
        Use::Blocks => RGBColor(13, 148, 136),
        Use::LargeBlocks => RGBColor(45, 190, 175),
        Use::Heaps => RGBColor(120, 215, 205),
        Use::Caches => RGBColor(214, 112, 20),
        Use::FreeBlocks => RGBColor(245, 158, 11),
        Use::FreePages => RGBColor(250, 200, 110),
        Use::Records => RGBColor(107, 114, 128),
        Use::Brk => RGBColor(67, 56, 202),
        Use::Anonymous => RGBColor(99, 102, 241),
        Use::Stacks => RGBColor(219, 39, 119),
        Use::Programs => RGBColor(96, 165, 250),
        Use::Files => RGBColor(168, 85, 247),
        Use::Shared => RGBColor(132, 163, 23),
    }
}

/// What every part reaches up to at each moment, from the lowest part on.
fn layers(found: &Watched) -> Vec<(Use, Vec<u64>)> {
    let mut tops = vec![0; found.moments.all.len()];
    let stacked = |used_for| {
        for (top, bytes) in tops.iter_mut().zip(found.moments.bytes(used_for)) {
            *top += bytes;
        }
        (used_for, tops.clone())
    };
    found.moments.uses().into_iter().map(stacked).collect()
}

/// None of one look, which is no course.
pub fn chart(found: &Watched) -> Result<Option<Chart>> {
    if found.is_one_look() {
        return Ok(None);
    }
    let layers = layers(found);
    let most = layers.last().and_then(|(_, tops)| tops.iter().copied().max()).unwrap_or(0) as f64;
    let scale = Scale::for_range(Unit::Bytes, most, most);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, found, &layers, most, &scale)
            .and_then(|()| Ok(area.present()?))
            .map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(Some(Chart { unit: scale.suffix, svg: scalable(&svg, SIZE) }))
}

fn draw(
    area: &DrawingArea<SVGBackend, Shift>,
    found: &Watched,
    layers: &[(Use, Vec<u64>)],
    most: f64,
    scale: &Scale,
) -> Result<(), Box<dyn std::error::Error>> {
    let top = (most / scale.divisor()).max(f64::MIN_POSITIVE) * 1.06;
    let time = TimeAxis::until(found.seconds());
    let mut chart = ChartBuilder::on(area)
        .margin_right(18)
        .margin_top(8)
        .x_label_area_size(TIME_HEIGHT)
        .y_label_area_size(LABELS_WIDTH)
        .build_cartesian_2d(0.0..time.end, 0.0..top)?;
    // The highest first: each lower one covers what is not that one's own.
    for (used_for, tops) in layers.iter().rev() {
        let places = found.moments.all.iter().map(|moment| time.place(moment.seconds));
        let heights = tops.iter().map(|top| *top as f64 / scale.divisor());
        chart.draw_series(AreaSeries::new(places.zip(heights), 0.0, color(*used_for)))?;
    }
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::sample::{leaking, watched};

    #[test]
    fn the_parts_lie_one_upon_the_other() {
        let found = leaking();
        let layers = layers(&found);
        assert_eq!(layers.last().unwrap().1, found.moments.resident());
        assert!(
            layers.windows(2).all(|pair| pair[0].1.iter().zip(&pair[1].1).all(|(a, b)| a <= b))
        );
        let chart = chart(&found).unwrap().unwrap();
        assert_eq!(chart.unit, "MiB");
        assert!(chart.svg.matches("<polygon").count() >= layers.len(), "{}", chart.svg);
    }

    #[test]
    fn marks_of_time_are_where_they_say() {
        let svg = chart(&leaking()).unwrap().unwrap().svg;
        let place = |label: &str| -> f64 {
            let end = svg.find(&format!("\n{label}\n</text>")).unwrap();
            let begin = svg[..end].rfind("<text").unwrap();
            svg[begin..end].split('"').nth(1).unwrap().parse().unwrap()
        };
        let [zero, two, four] = ["0 min", "2 min", "4 min"].map(place);
        assert!((four - two - (two - zero)).abs() <= 1.0, "{zero} {two} {four}");
    }

    #[test]
    fn one_look_has_no_chart() {
        assert!(chart(&watched(&[(70, 4, 24)])).unwrap().is_none());
    }
}
