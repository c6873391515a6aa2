//! Where libraries and their functions lie in the treemap: areas are bytes.

use super::super::words::{share, size};
use super::colours::Colours;
use crate::profile::{Series, Sites, Stacks};

/// Pixels; the width is only what shapes are chosen for.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 340.0;
const HEAD: f64 = 22.0;
/// Libraries and functions in them; what is beyond lies in one part.
const LIBRARIES: usize = 12;
const FUNCTIONS: usize = 40;
/// Parts of the whole below this would be no more than a line.
const SHARE_MIN: f64 = 0.002;

pub struct Treemap {
    pub height: f64,
    pub libraries: Vec<Part>,
}

pub struct Part {
    pub class: String,
    pub name: String,
    pub size: String,
    pub title: String,
    /// Percents.
    pub x: f64,
    pub width: f64,
    /// Pixels.
    pub y: f64,
    pub height: f64,
    pub functions: Vec<Part>,
}

/// A name and its bytes.
type Weight = (String, i64);

#[derive(Clone, Copy)]
struct Rect {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

pub fn treemap(
    stacks: &Stacks,
    sites: &Sites,
    series: &Series,
    colours: &Colours,
) -> Option<Treemap> {
    let libraries: Vec<Weight> = sites
        .libraries
        .iter()
        .map(|(name, values)| (name.clone(), values[series.bytes]))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let whole: i64 = libraries.iter().map(|(_, bytes)| bytes).sum();
    if whole == 0 {
        return None;
    }
    let functions = |library: &str| -> Vec<Weight> {
        let rows = sites.rows.iter().map(|row| (row, &stacks.functions[row.function as usize]));
        rows.filter(|(_, function)| &*function.library == library)
            .map(|(row, function)| (function.short_name.to_string(), row.own[series.bytes]))
            .filter(|(_, bytes)| *bytes > 0)
            .collect()
    };
    let area = Rect { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
    let mut parts = parts(gathered(libraries, LIBRARIES, whole, "libraries"), area, whole);
    for part in &mut parts {
        part.class = colours.class(&part.name);
        let has_head = part.height > 2.0 * HEAD;
        let head = if has_head { HEAD } else { 0.0 };
        let inner = Rect {
            x: part.x / 100.0 * WIDTH,
            y: part.y + head,
            width: part.width / 100.0 * WIDTH,
            height: part.height - head,
        };
        let weights = gathered(functions(&part.name), FUNCTIONS, whole, "functions");
        part.functions = self::parts(weights, inner, whole);
        if part.name.is_empty() {
            part.name = "(unknown)".to_owned();
        }
        if !has_head {
            part.size.clear();
        }
    }
    Some(Treemap { height: HEIGHT, libraries: parts })
}

/// The small ones as one, at the end.
fn gathered(mut weights: Vec<Weight>, most: usize, whole: i64, what: &str) -> Vec<Weight> {
    let is_visible = |(_, bytes): &&Weight| *bytes as f64 >= SHARE_MIN * whole as f64;
    let visible = weights.iter().take(most).take_while(is_visible).count();
    let rest = weights.split_off(visible);
    match rest.len() {
        0 => {}
        1 => weights.extend(rest),
        many => {
            let bytes = rest.iter().map(|(_, bytes)| bytes).sum();
            weights.push((format!("{many} more {what}"), bytes));
        }
    }
    weights
}

/// The heaviest first.
fn parts(weights: Vec<Weight>, area: Rect, whole: i64) -> Vec<Part> {
    let mut weights = weights;
    weights.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let bytes: Vec<f64> = weights.iter().map(|(_, bytes)| *bytes as f64).collect();
    let part = |((name, bytes), place): (Weight, Rect)| Part {
        class: String::new(),
        title: format!("{name}\n{} ({})", size(bytes), share(bytes, whole)),
        size: size(bytes),
        name,
        x: place.x / WIDTH * 100.0,
        width: place.width / WIDTH * 100.0,
        y: place.y,
        height: place.height,
        functions: Vec::new(),
    };
    weights.into_iter().zip(squarified(&bytes, area)).map(part).collect()
}

/// Rectangles as large as the weights, which fall, and as square as rows of them can be: a row
/// stands at the shorter side of what is left, and takes the next one in while that makes its
/// worst rectangle better.
fn squarified(weights: &[f64], mut area: Rect) -> Vec<Rect> {
    let mut placed = Vec::with_capacity(weights.len());
    while placed.len() < weights.len() {
        let rest = &weights[placed.len()..];
        let sum: f64 = rest.iter().sum();
        let scale = area.width * area.height / sum;
        let side = area.width.min(area.height);
        let mut count = 1;
        while count < rest.len()
            && worst(&rest[..count + 1], scale, side) <= worst(&rest[..count], scale, side)
        {
            count += 1;
        }
        let row = &rest[..count];
        let depth = row.iter().sum::<f64>() * scale / side;
        let mut along = 0.0;
        for weight in row {
            let length = weight * scale / depth;
            placed.push(if area.width > area.height {
                Rect { x: area.x, y: area.y + along, width: depth, height: length }
            } else {
                Rect { x: area.x + along, y: area.y, width: length, height: depth }
            });
            along += length;
        }
        if area.width > area.height {
            area = Rect { x: area.x + depth, width: area.width - depth, ..area };
        } else {
            area = Rect { y: area.y + depth, height: area.height - depth, ..area };
        }
    }
    placed
}

/// How long the longest rectangle of a row is against its width.
fn worst(row: &[f64], scale: f64, side: f64) -> f64 {
    let depth = row.iter().sum::<f64>() * scale / side;
    let longest = |weight: &f64| {
        let length = weight * scale / depth;
        (length / depth).max(depth / length)
    };
    row.iter().map(longest).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{sample, series};

    #[test]
    fn areas_are_as_bytes() {
        let profile = sample::service();
        let stacks = Stacks::new(&profile);
        let live = &series(&profile)[0];
        let sites = Sites::new(&stacks, live);
        let map = treemap(&stacks, &sites, live, &Colours::new(&stacks, &sites)).unwrap();
        let whole: f64 = map.libraries.iter().map(|part| part.width * part.height).sum();
        assert!((whole - 100.0 * HEIGHT).abs() < 1.0, "{whole}");
        let service = map.libraries.iter().find(|part| part.name == "service").unwrap();
        let share = service.width * service.height / whole;
        assert!((share - 16.0 / 23.0).abs() < 0.01, "{share}");
        let names: Vec<&str> = service.functions.iter().map(|part| &*part.name).collect();
        assert_eq!(names, ["Cache::put"]);
        assert!(service.functions.iter().all(|part| part.y >= service.y + HEAD - 0.01));
    }

    #[test]
    fn rectangles_fill_the_area_and_are_not_long() {
        let weights: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let area = Rect { x: 10.0, y: 20.0, width: 400.0, height: 300.0 };
        let placed = squarified(&weights, area);
        let sum: f64 = weights.iter().sum();
        for (rect, weight) in placed.iter().zip(&weights) {
            let part = rect.width * rect.height / (area.width * area.height);
            assert!((part - weight / sum).abs() < 1e-9);
            assert!(rect.x >= 9.99 && rect.x + rect.width <= 410.01, "{}", rect.x);
            assert!(rect.y >= 19.99 && rect.y + rect.height <= 320.01, "{}", rect.y);
            assert!((rect.width / rect.height).max(rect.height / rect.width) < 3.0);
        }
    }

    #[test]
    fn small_ones_lie_together() {
        let weights = (0..60).map(|number| (format!("f{number}"), 100 - number)).collect();
        let found = gathered(weights, 40, 4000, "functions");
        assert_eq!((found.len(), found[40].0.as_str()), (41, "20 more functions"));
        assert_eq!(gathered(vec![("a".into(), 1)], 40, 1, "functions").len(), 1);
    }
}
