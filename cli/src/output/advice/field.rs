//! What counts of the candidates, and who is better than whom.

use super::choice::Standing;
use crate::measure::{MEMORY, Summary, TIME, is_beyond_spread};
use crate::output::{Entry, Report};

/// What is at most so much more looks no worse in the table either.
const HARDLY_MORE: f64 = 1.01;

/// Nobody changes an allocator for less than this part of the time or of the memory.
pub const WORTH_CHANGING: f64 = 0.03;

/// What looks so much better may be more than noise, if only more runs showed it.
const LOOKS_BETTER: f64 = 0.05;

/// Candidates by their place in the report.
pub struct Field {
    pub times: Vec<Summary>,
    pub peaks: Vec<Summary>,
    /// Time times memory, run by run: what a shared machine pays.
    pub products: Vec<Summary>,
    /// Whether it is one of those to choose from.
    pub is_open: Vec<bool>,
}

impl Field {
    pub fn of(report: &Report) -> Field {
        let entries = &report.entries;
        let summaries = |metric: usize| {
            let of = |entry: &Entry| entry.figures[metric].summary.clone();
            entries.iter().map(of).collect::<Vec<Summary>>()
        };
        let is_open = |entry: &Entry| report.ends_alike(entry) && !report.is_left_out(entry);
        Field {
            times: summaries(TIME),
            peaks: summaries(MEMORY),
            products: entries.iter().map(product).collect(),
            is_open: entries.iter().map(is_open).collect(),
        }
    }

    pub fn is_faster(&self, index: usize, other: usize) -> bool {
        is_less(&self.times[index], &self.times[other])
    }

    pub fn is_smaller(&self, index: usize, other: usize) -> bool {
        is_less(&self.peaks[index], &self.peaks[other])
    }

    pub fn saves_time(&self, index: usize) -> bool {
        saves(&self.times[index], &self.times[0])
    }

    pub fn saves_memory(&self, index: usize) -> bool {
        saves(&self.peaks[index], &self.peaks[0])
    }

    /// Whether one to choose from is better than the reference, though not worth the change.
    pub fn has_small_gain(&self, of: &[Summary]) -> bool {
        self.open().any(|index| is_less(&of[index], &of[0]) && !saves(&of[index], &of[0]))
    }

    /// Those to choose from that look better than the reference, whatever the spread.
    pub fn looking_better(&self, of: &[Summary]) -> impl Iterator<Item = usize> {
        self.open().filter(|index| of[*index].median < of[0].median * (1.0 - LOOKS_BETTER))
    }

    fn open(&self) -> impl Iterator<Item = usize> {
        (1..self.is_open.len()).filter(|index| self.is_open[*index])
    }

    /// Whether it is better in time or memory and no worse in the other.
    pub fn beats(&self, index: usize, other: usize) -> bool {
        let is_better = |a, b| self.is_faster(a, b) || self.is_smaller(a, b);
        is_better(index, other) && !is_better(other, index)
    }

    /// Of few runs that vary much, not to be worse beyond the spread is little.
    fn is_hardly_more(&self, index: usize, other: usize) -> bool {
        let is_so = |of: &[Summary]| of[index].median <= of[other].median * HARDLY_MORE;
        is_so(&self.times) && is_so(&self.peaks)
    }

    pub fn standing_of(&self, report: &Report, index: usize) -> Standing {
        let entry = &report.entries[index];
        if !report.ends_alike(entry) {
            return Standing::Failed;
        }
        if report.is_left_out(entry) {
            return Standing::LeftOut;
        }
        let is_beaten = (0..self.times.len()).any(|other| {
            self.is_open[other] && self.beats(other, index) && self.is_hardly_more(other, index)
        });
        if is_beaten { Standing::Beaten } else { Standing::Unbeaten }
    }
}

fn is_less(a: &Summary, b: &Summary) -> bool {
    a.median < b.median && is_beyond_spread(a, b)
}

fn saves(own: &Summary, reference: &Summary) -> bool {
    is_less(own, reference) && own.median <= reference.median * (1.0 - WORTH_CHANGING)
}

fn product(entry: &Entry) -> Summary {
    let [times, peaks] = [TIME, MEMORY].map(|metric| &entry.figures[metric].values);
    let products: Vec<f64> = times.iter().zip(peaks).map(|(time, peak)| time * peak).collect();
    Summary::of(&products)
}
