//! What a profile of ours tells beside its samples: lines that begin with a word.
//!
//! docs/profile-format.md describes them. What is not understood is passed over, as it says there.

use serde::Serialize;

/// Which kind of profile of ours it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Heap,
    Leaks,
}

/// A bucket of a histogram: up to and with `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bucket {
    pub limit: u64,
    pub objects: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub milliseconds: u64,
    pub bytes: u64,
    pub objects: u64,
}

/// Samples that came more seldom than was asked for, to keep within the budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretched {
    pub samples: u64,
    /// All of them, and how many were stretched.
    pub stretched: u64,
    /// How many times greater the interval was at most.
    pub times: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// None in profiles of others.
    pub kind: Option<Kind>,
    pub version: u64,
    pub library: Option<String>,
    pub program: Option<(u64, String)>,
    pub event: Option<(u64, String)>,
    pub lost: u64,
    pub stretched: Option<Stretched>,
    pub peak: Option<Point>,
    pub timeline: Vec<Point>,
    pub live_sizes: Vec<Bucket>,
    pub alloc_sizes: Vec<Bucket>,
    pub lifetimes: Vec<Bucket>,
    /// Objects and bytes.
    pub reachable: Option<(u64, u64)>,
    pub ignored: Option<(u64, u64)>,
    /// All lines as they were read, those that say nothing here among them.
    pub lines: Vec<String>,
}

impl Facts {
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Facts {
        let mut facts = Facts::default();
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let _ = facts.take(word, rest);
            facts.lines.push(line.to_owned());
        }
        facts
    }

    /// None where the line says nothing that is known here.
    fn take(&mut self, word: &str, rest: &str) -> Option<()> {
        let mut words = rest.split(' ');
        match word {
            "format" => {
                let kind = match words.next()? {
                    "primalloc-heap" => Kind::Heap,
                    "primalloc-leaks" => Kind::Leaks,
                    _ => return None,
                };
                self.version = words.next()?.parse().ok()?;
                self.kind = Some(kind);
            }
            "library" => self.library = Some(words.next()?.to_owned()),
            "program" => {
                let (pid, name) = rest.split_once(' ')?;
                self.program = Some((pid.parse().ok()?, name.to_owned()));
            }
            "event" => {
                self.event = Some((words.next()?.parse().ok()?, words.next()?.to_owned()));
            }
            "lost" => self.lost = number(words.next()?)?,
            "stretched" => {
                let [samples, stretched, times] = triples(rest).next()?;
                self.stretched = Some(Stretched { samples, stretched, times });
            }
            "peak" => {
                let numbers: Vec<u64> = words.map_while(number).collect();
                self.peak = point(&numbers);
            }
            "timeline" => self.timeline = triples(rest).filter_map(|t| point(&t)).collect(),
            "live_sizes" => self.live_sizes = buckets(rest),
            "alloc_sizes" => self.alloc_sizes = buckets(rest),
            "lifetimes" => self.lifetimes = buckets(rest),
            "reachable" => self.reachable = Some(pair(&mut words)?),
            "ignored" => self.ignored = Some(pair(&mut words)?),
            _ => return None,
        }
        Some(())
    }
}

fn pair<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(u64, u64)> {
    Some((number(words.next()?)?, number(words.next()?)?))
}

/// Bytes and what else is counted have room in a number with a sign.
fn number(word: &str) -> Option<u64> {
    word.parse::<i64>().ok().and_then(|number| number.try_into().ok())
}

fn triples(list: &str) -> impl Iterator<Item = [u64; 3]> {
    list.split(' ').filter_map(|triple| {
        let mut numbers = triple.split(':').map(number);
        Some([numbers.next()??, numbers.next()??, numbers.next()??])
    })
}

fn point(numbers: &[u64]) -> Option<Point> {
    let &[milliseconds, bytes, objects, ..] = numbers else { return None };
    Some(Point { milliseconds, bytes, objects })
}

fn buckets(list: &str) -> Vec<Bucket> {
    triples(list).map(|[limit, objects, bytes]| Bucket { limit, objects, bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_is_understood() {
        let facts = Facts::parse([
            "format primalloc-heap 1",
            "library 0.1.0 and more",
            "program 42 a name with blanks",
            "event 3 exit",
            "lost 7",
            "stretched 120:80:4096",
            "peak 100 2048 2 9",
            "timeline 0:10:1 50:2048:2:77",
            "live_sizes 16:1:16 32:2:50",
            "lifetimes 1:5:80",
            "reachable 3 4",
            "ignored 5 6",
            "unknown word",
        ]);
        assert_eq!((facts.kind, facts.version), (Some(Kind::Heap), 1));
        assert_eq!(facts.library.as_deref(), Some("0.1.0"));
        assert_eq!(facts.program, Some((42, "a name with blanks".into())));
        assert_eq!((facts.event, facts.lost), (Some((3, "exit".into())), 7));
        let stretched = Stretched { samples: 120, stretched: 80, times: 4096 };
        assert_eq!(facts.stretched, Some(stretched));
        let peak = Point { milliseconds: 100, bytes: 2048, objects: 2 };
        assert_eq!((facts.peak, facts.timeline.len()), (Some(peak), 2));
        assert_eq!(facts.live_sizes[1], Bucket { limit: 32, objects: 2, bytes: 50 });
        assert_eq!((facts.lifetimes.len(), facts.reachable), (1, Some((3, 4))));
        assert_eq!(facts.ignored, Some((5, 6)));
        assert_eq!(facts.lines.last().unwrap(), "unknown word");
    }

    #[test]
    fn what_is_damaged_is_passed_over() {
        let facts = Facts::parse([
            "peak",
            "program x",
            "stretched 5",
            "timeline 5 6:7:x 7:9223372036854775808:1",
            "reachable 1 18446744073709551615",
            "format other 1",
            "",
        ]);
        assert_eq!((facts.peak, facts.program, facts.kind), (None, None, None));
        assert!(facts.timeline.is_empty() && facts.stretched.is_none());
        assert_eq!(facts.reachable, None);
    }

    #[test]
    fn the_words_are_those_of_the_table() {
        let table = include_str!("../../../src/watch/profile_format.def");
        let words = table.lines().filter_map(|line| line.strip_prefix("FACT(")?.strip_suffix(')'));
        let source = include_str!("facts.rs");
        for word in words.filter(|&word| word != "key") {
            assert!(source.contains(&format!("\"{word}\" =>")), "{word}");
        }
    }
}
