//! What counts of the candidates, and who is better than whom.

use super::choice::Standing;
use crate::measure::{MEMORY, Summary, TIME, is_beyond_spread};
use crate::output::{Entry, Report};

/// What is at most so much more looks no worse in the table either.
const HARDLY_MORE: f64 = 1.01;

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
            let of = |entry: &Entry| entry.figures[metric].summary;
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

fn product(entry: &Entry) -> Summary {
    let [times, peaks] = [TIME, MEMORY].map(|metric| &entry.figures[metric].values);
    let products: Vec<f64> = times.iter().zip(peaks).map(|(time, peak)| time * peak).collect();
    Summary::of(&products)
}
