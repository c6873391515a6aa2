//! Where the frames of a flame graph lie. inferno puts the stacks together, leaves out what would
//! be too narrow to see, and draws; what is read back from its drawing is dressed for the page,
//! which has its own colours and letters, and several graphs in one document.

use std::collections::HashMap;
use std::io::Cursor;

use anyhow::{Context, Result};
use inferno::flamegraph::{self, Direction, Options};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::super::words::{clipped, difference, share, size};
use super::colours::Colours;
use crate::profile::Function;

/// Pixels of a frame, the gap below it included.
pub const ROW: usize = 19;
/// Percents of the whole; narrower frames are left out, and more of them where there are too many.
const WIDTH_MIN: f64 = 0.1;
const WIDTH_MIN_MAX: f64 = 10.0;
const FRAMES_MAX: usize = 3000;
/// Below so many percents a name would be no more than a letter.
const WIDTH_OF_NAMES: f64 = 2.0;
/// Names of templates have no end.
const NAME_MAX: usize = 160;
const TITLE_MAX: usize = 400;
/// In percent of the colour for a change.
const SHIFT_MAX: u8 = 68;
/// A stack of which nobody knows a frame.
const UNKNOWN: &str = "?";

/// A stack from the outermost function inward, and its bytes in an earlier profile and now.
pub struct Line {
    pub stack: Vec<u32>,
    pub before: i64,
    pub bytes: i64,
}

pub struct Flame {
    pub label: String,
    pub height: usize,
    pub frames: Vec<FramePart>,
}

pub struct FramePart {
    pub class: String,
    pub name: String,
    pub title: String,
    /// Percents.
    pub x: String,
    pub width: String,
    /// Pixels.
    pub y: usize,
    /// How much of the change's colour it has, in percent.
    pub shift: Option<u8>,
}

/// What colours mean.
pub enum Dress<'a> {
    Libraries(&'a Colours),
    /// How far it has grown or shrunk.
    Change,
    /// The same, of lines whose earlier and later bytes have changed places.
    Return,
}

/// A frame as inferno has laid it out, in bytes.
struct Placed {
    /// None for all together.
    function: Option<u32>,
    depth: usize,
    begin: i64,
    bytes: i64,
}

pub fn flame(
    label: String,
    functions: &[Function],
    lines: &[Line],
    dress: &Dress,
) -> Result<Option<Flame>> {
    let whole: i64 = lines.iter().map(|line| line.bytes.max(0)).sum();
    if whole == 0 {
        return Ok(None);
    }
    let mut width_min = WIDTH_MIN;
    let mut placed = layout(lines, width_min)?;
    while placed.len() > FRAMES_MAX && width_min < WIDTH_MIN_MAX {
        width_min *= 2.0;
        placed = layout(lines, width_min)?;
    }
    placed.sort_by_key(|frame| (frame.depth, frame.begin));
    placed.truncate(FRAMES_MAX); // of stacks deeper than that, the outer part
    let before = match dress {
        Dress::Change | Dress::Return => befores(&placed, lines),
        Dress::Libraries(_) => Vec::new(),
    };
    let whole_before: i64 = lines.iter().map(|line| line.before).sum();
    let wholes = (whole, whole.max(whole_before));
    let frames = placed.iter().enumerate().map(|(number, frame)| {
        dressed(frame, functions, before.get(number).copied(), wholes, dress)
    });
    let depth = placed.iter().map(|frame| frame.depth + 1).max().unwrap_or(0);
    Ok(Some(Flame { label, height: depth * ROW, frames: frames.collect() }))
}

/// `wholes` are what widths and changes are parts of.
fn dressed(
    frame: &Placed,
    functions: &[Function],
    other: Option<i64>,
    wholes: (i64, i64),
    dress: &Dress,
) -> FramePart {
    let (whole, whole_of_changes) = wholes;
    let function = frame.function.map(|number| &functions[number as usize]);
    let nameless = if frame.depth == 0 { "all" } else { "(unknown)" };
    let name = function.map_or(nameless, |function| &*function.short_name);
    let full = function.map_or(nameless, |function| &*function.name);
    let library = function.map_or("", |function| &*function.library);
    let mut title = format!("{}\n", clipped(full, TITLE_MAX));
    if !library.is_empty() {
        title += &format!("{library}\n");
    }
    title += &format!("{} ({})", size(frame.bytes), share(frame.bytes, whole));
    let mut class = match (dress, frame.function) {
        (Dress::Libraries(colours), Some(number)) => {
            format!("{} s{}", colours.class(library), number % 3)
        }
        _ => "plain".to_owned(),
    };
    let mut shift = None;
    if let Some(other) = other {
        let (change, word) = match dress {
            Dress::Return => (other - frame.bytes, "after"),
            _ => (frame.bytes - other, "before"),
        };
        title += &format!("\n{word} {}, {}", size(other), difference(change));
        class = if change >= 0 { "grown" } else { "shrunk" }.to_owned();
        shift = Some(shift_of(change, whole_of_changes));
    }
    let width = 100.0 * frame.bytes as f64 / whole as f64;
    if width < WIDTH_OF_NAMES {
        class += " thin";
    }
    FramePart {
        class,
        name: clipped(name, NAME_MAX),
        title,
        x: format!("{:.4}", 100.0 * frame.begin as f64 / whole as f64),
        width: format!("{width:.4}"),
        y: frame.depth * ROW,
        shift,
    }
}

/// A change of a hundredth is to be seen, one of a third is as strong as can be: names must stay
/// readable on it.
fn shift_of(change: i64, whole: i64) -> u8 {
    let part = (change.unsigned_abs() as f64 / whole as f64 * 3.0).min(1.0);
    (part.sqrt() * f64::from(SHIFT_MAX)).round() as u8
}

fn layout(lines: &[Line], width_min: f64) -> Result<Vec<Placed>> {
    let text = |line: &Line| {
        let names: Vec<String> = line.stack.iter().map(u32::to_string).collect();
        let stack = if names.is_empty() { UNKNOWN.to_owned() } else { names.join(";") };
        format!("{stack} {}", line.bytes)
    };
    let texts: Vec<String> = lines.iter().filter(|line| line.bytes > 0).map(text).collect();
    let mut options = Options::default();
    options.direction = Direction::Inverted;
    options.frame_height = ROW;
    options.min_width = width_min;
    let mut drawing = Vec::new();
    flamegraph::from_lines(&mut options, texts.iter().map(String::as_str), &mut drawing)
        .context("the flame graph cannot be drawn")?;
    read_back(&drawing)
}

/// The frames of inferno's drawing: a title that begins with the name, and a rectangle.
fn read_back(drawing: &[u8]) -> Result<Vec<Placed>> {
    let mut reader = Reader::from_reader(Cursor::new(drawing));
    let (mut buffer, mut is_title, mut name) = (Vec::new(), false, None);
    let mut frames: Vec<(Option<u32>, usize, i64, i64)> = Vec::new();
    loop {
        match reader.read_event_into(&mut buffer).context("the flame graph cannot be read")? {
            Event::Eof => break,
            Event::Start(element) => is_title = element.name().as_ref() == b"title",
            Event::Text(text) if is_title => {
                let text = String::from_utf8_lossy(&text).into_owned();
                name = text.split(' ').next().map(|name| name.parse::<u32>().ok());
                is_title = false;
            }
            Event::Empty(element) if element.name().as_ref() == b"rect" => {
                let place = ["y", "fg:x", "fg:w"].map(|key| number(&element, key));
                if let ([Some(y), Some(begin), Some(bytes)], Some(function)) = (place, name.take())
                {
                    frames.push((function, y as usize, begin, bytes));
                }
            }
            _ => {}
        }
        buffer.clear();
    }
    let top = frames.iter().map(|frame| frame.1).min().unwrap_or(0);
    Ok(frames
        .into_iter()
        .map(|(function, y, begin, bytes)| Placed {
            function,
            depth: (y - top) / ROW,
            begin,
            bytes,
        })
        .collect())
}

fn number(element: &BytesStart, key: &str) -> Option<i64> {
    let attribute = element.try_get_attribute(key).ok()??;
    std::str::from_utf8(&attribute.value).ok()?.parse().ok()
}

/// What each frame's stacks had before, found by the way to it from the outermost one.
fn befores(placed: &[Placed], lines: &[Line]) -> Vec<i64> {
    let mut nodes: HashMap<(usize, u32), usize> = HashMap::new();
    let mut sums = vec![0];
    for line in lines {
        let mut node = 0;
        sums[node] += line.before;
        for &function in &line.stack {
            let next = sums.len();
            node = *nodes.entry((node, function)).or_insert(next);
            if node == next {
                sums.push(0);
            }
            sums[node] += line.before;
        }
    }
    // By depth and place, so that a frame's caller is the last of the row above that begins
    // before it.
    let mut found: Vec<usize> = Vec::with_capacity(placed.len());
    for frame in placed {
        let callers = &placed[..found.len()];
        let row = callers.partition_point(|caller| caller.depth + 1 < frame.depth);
        let next = callers[row..]
            .partition_point(|caller| caller.depth < frame.depth && caller.begin <= frame.begin);
        let caller = found.get(row + next.max(1) - 1).copied().unwrap_or(0);
        let node = frame.function.and_then(|function| nodes.get(&(caller, function)));
        found.push(node.copied().unwrap_or(caller));
    }
    found.into_iter().map(|node| sums[node]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| Function {
            name: (*name).into(),
            short_name: (*name).into(),
            library: "program".into(),
            is_wrapper: false,
            is_nameless: false,
        };
        names.iter().map(function).collect()
    }

    fn line(stack: &[u32], before: i64, bytes: i64) -> Line {
        Line { stack: stack.into(), before, bytes }
    }

    fn find<'a>(flame: &'a Flame, name: &str) -> &'a FramePart {
        flame.frames.iter().find(|frame| frame.name == name).unwrap()
    }

    #[test]
    fn frames_lie_below_their_callers() {
        let functions = functions(&["main", "read", "parse", "never"]);
        let lines = [line(&[0, 1], 0, 300), line(&[0, 2], 0, 100), line(&[0, 3], 0, 0)];
        let found = flame("x".into(), &functions, &lines, &Dress::Change).unwrap().unwrap();
        assert_eq!((found.frames.len(), found.height), (4, 3 * ROW));
        let (main, read) = (find(&found, "main"), find(&found, "read"));
        assert_eq!((main.x.as_str(), main.width.as_str(), main.y), ("0.0000", "100.0000", ROW));
        assert_eq!((read.width.as_str(), read.y), ("75.0000", 2 * ROW));
        assert!(read.title.contains("300 B (75 %)"), "{}", read.title);
        assert_eq!(find(&found, "all").y, 0);
        assert!(flame("x".into(), &functions, &lines[2..], &Dress::Change).unwrap().is_none());
    }

    #[test]
    fn changes_are_those_of_whole_branches() {
        let functions = functions(&["main", "read", "parse", "gone"]);
        let lines = [
            line(&[0, 1], 100, 300),
            line(&[0, 1, 2], 500, 100),
            line(&[0, 3], 70, 0),
            line(&[1], 5, 40),
        ];
        let found = flame("x".into(), &functions, &lines, &Dress::Change).unwrap().unwrap();
        assert!(find(&found, "main").title.contains("before 670 B, -270 B"));
        let parse = find(&found, "parse");
        assert!(parse.title.contains("before 500 B, -400 B") && parse.class.contains("shrunk"));
        let reads: Vec<&FramePart> = found.frames.iter().filter(|f| f.name == "read").collect();
        assert!(reads.iter().any(|read| read.title.contains("before 600 B, -200 B")));
        let outer = reads.iter().find(|read| read.y == ROW).unwrap();
        assert!(outer.title.contains("before 5 B, +35 B") && outer.class.contains("grown"));
        assert!(found.frames.iter().all(|frame| frame.name != "gone"));
    }

    #[test]
    fn too_many_frames_become_fewer() {
        let names: Vec<String> = (0..800).map(|number| format!("f{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let functions = functions(&names);
        let lines: Vec<Line> = (0..800_u32)
            .map(|n| line(&(0..8).map(|deep| (n + deep) % 800).collect::<Vec<_>>(), 0, 10))
            .collect();
        let found = flame("x".into(), &functions, &lines, &Dress::Change).unwrap().unwrap();
        assert!(found.frames.len() <= FRAMES_MAX, "{}", found.frames.len());
    }

    #[test]
    fn of_a_stack_without_a_bottom_the_outer_part_is_drawn() {
        let lines = [line(&vec![0; 2 * FRAMES_MAX], 0, 10), line(&[1], 0, 30)];
        let found = flame("x".into(), &functions(&["f", "g"]), &lines, &Dress::Change);
        let found = found.unwrap().unwrap();
        assert_eq!((found.frames.len(), found.frames[0].name.as_str()), (FRAMES_MAX, "all"));
        assert_eq!(find(&found, "g").width, "75.0000");
        assert!(found.height > (FRAMES_MAX - 10) * ROW, "{}", found.height);
    }
}
