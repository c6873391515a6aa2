//! Faults and sizes over time, in a bounded number of intervals.

use std::time::Duration;

use serde::Serialize;

/// Where no interval is asked for, it begins so short and doubles when there are too many.
const FIRST_INTERVAL: Duration = Duration::from_millis(5);
const POINTS_MAX: usize = 240;

/// What happened until `seconds`, since the point before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub seconds: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// The largest that was seen.
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Timeline {
    pub interval: Duration,
    is_adaptive: bool,
    pub points: Vec<Point>,
    counted: (u64, u64),
}

impl Timeline {
    pub fn new(interval: Option<Duration>) -> Timeline {
        Timeline {
            interval: interval.unwrap_or(FIRST_INTERVAL),
            is_adaptive: interval.is_none(),
            points: Vec::new(),
            counted: (0, 0),
        }
    }

    /// Adds what `minor` and `major`, counted from the beginning, have grown by.
    pub fn push(&mut self, at: Duration, (minor, major): (u64, u64), resident: u64, mapped: u64) {
        let new = Point {
            seconds: at.as_secs_f64(),
            minor_faults: minor.saturating_sub(self.counted.0),
            major_faults: major.saturating_sub(self.counted.1),
            resident_bytes: resident,
            virtual_bytes: mapped,
        };
        self.counted = (self.counted.0.max(minor), self.counted.1.max(major));
        match self.points.pop() {
            // The end may be known later than what was seen after it.
            Some(last) if last.seconds >= new.seconds => self.points.push(merged(&[new, last])),
            last => self.points.extend(last.into_iter().chain([new])),
        }
        if self.is_adaptive && self.points.len() > POINTS_MAX {
            self.points = self.points.chunks(2).map(merged).collect();
            self.interval *= 2;
        }
    }

    /// The last interval is cut off by the program's end: too short for a rate of its own.
    pub fn close(&mut self) {
        if let [.., before, last] = self.points[..] {
            if last.seconds - before.seconds < self.interval.as_secs_f64() / 2.0 {
                self.points.truncate(self.points.len() - 2);
                self.points.push(merged(&[before, last]));
            }
        }
    }

    /// Adds what had not been seen of these totals: it happened after the last look.
    pub fn complete(&mut self, (minor, major): (u64, u64)) {
        if let Some(last) = self.points.last_mut() {
            last.minor_faults += minor.saturating_sub(self.counted.0);
            last.major_faults += major.saturating_sub(self.counted.1);
            self.counted = (self.counted.0.max(minor), self.counted.1.max(major));
        }
    }

    /// Minor and major faults of all points.
    pub fn counted(&self) -> (u64, u64) {
        self.counted
    }

    /// Whether there is something to draw: sizes were seen, and it took long enough for a rate.
    pub fn is_seen(&self) -> bool {
        let shortest = self.interval.min(FIRST_INTERVAL) / 2;
        self.seconds() >= shortest.as_secs_f64() && self.peak(|point| point.virtual_bytes) > 0
    }

    pub fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.seconds)
    }

    pub fn peak(&self, of: fn(&Point) -> u64) -> u64 {
        self.points.iter().map(of).max().unwrap_or(0)
    }

    /// Faults a second in each interval. One that the end has cut off has no rate of its own, but
    /// where there is no other.
    pub fn rates(&self, of: fn(&Point) -> u64) -> Vec<f64> {
        let begins = [0.0].into_iter().chain(self.points.iter().map(|point| point.seconds));
        let shortest = (self.interval.as_secs_f64() / 2.0).min(self.seconds());
        let rate = |(point, begin): (&Point, f64)| {
            of(point) as f64 / (point.seconds - begin).max(shortest).max(f64::MIN_POSITIVE)
        };
        self.points.iter().zip(begins).map(rate).collect()
    }
}

/// One point for several that follow each other.
pub fn merged(points: &[Point]) -> Point {
    let largest = |of: fn(&Point) -> u64| points.iter().map(of).max().unwrap_or(0);
    Point {
        seconds: points.last().map_or(0.0, |point| point.seconds),
        minor_faults: points.iter().map(|point| point.minor_faults).sum(),
        major_faults: points.iter().map(|point| point.major_faults).sum(),
        resident_bytes: largest(|point| point.resident_bytes),
        virtual_bytes: largest(|point| point.virtual_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn points_hold_what_was_added_in_each_interval() {
        let mut timeline = Timeline::new(Some(milliseconds(100)));
        timeline.push(milliseconds(100), (10, 1), 5, 50);
        timeline.push(milliseconds(200), (30, 1), 9, 40);
        assert_eq!(timeline.points[1].minor_faults, 20);
        assert_eq!(timeline.points[1].major_faults, 0);
        assert_eq!(timeline.rates(|point| point.minor_faults), [100.0, 200.0]);
        assert_eq!(timeline.peak(|point| point.virtual_bytes), 50);
    }

    #[test]
    fn time_never_goes_back() {
        let mut timeline = Timeline::new(Some(milliseconds(100)));
        timeline.push(milliseconds(100), (10, 0), 7, 1);
        timeline.push(milliseconds(99), (15, 0), 5, 1);
        let [point] = timeline.points[..] else { panic!("{:?}", timeline.points) };
        assert_eq!((point.seconds, point.minor_faults, point.resident_bytes), (0.1, 15, 7));
    }

    #[test]
    fn an_adaptive_timeline_stays_short_and_loses_nothing() {
        let mut timeline = Timeline::new(None);
        for number in 1..=5000 {
            timeline.push(milliseconds(5 * number), (number * 3, number), number, number);
        }
        assert!(timeline.points.len() <= POINTS_MAX);
        assert!(timeline.interval > FIRST_INTERVAL);
        let sum: u64 = timeline.points.iter().map(|point| point.minor_faults).sum();
        assert_eq!((sum, timeline.peak(|point| point.resident_bytes)), (15_000, 5000));
        assert_eq!(timeline.seconds(), 25.0);
    }

    #[test]
    fn an_interval_longer_than_the_program_is_not_what_it_took() {
        let mut timeline = Timeline::new(Some(Duration::from_secs(10)));
        timeline.push(milliseconds(500), (100, 0), 1, 1);
        assert_eq!(timeline.rates(|point| point.minor_faults), [200.0]);
        assert!(timeline.is_seen());
    }

    #[test]
    fn what_was_over_before_a_look_is_not_seen() {
        let mut timeline = Timeline::new(None);
        assert!(!timeline.is_seen());
        timeline.push(milliseconds(1), (49, 0), 5, 50);
        assert!(!timeline.is_seen(), "too short for a rate");
        let mut blind = Timeline::new(None);
        blind.push(milliseconds(100), (49, 0), 0, 0);
        assert!(!blind.is_seen(), "without sizes");
    }

    #[test]
    fn what_came_after_the_last_look_is_added_to_it() {
        let mut timeline = Timeline::new(Some(milliseconds(100)));
        timeline.push(milliseconds(100), (10, 1), 1, 1);
        timeline.complete((30, 1));
        timeline.complete((30, 0));
        assert_eq!((timeline.points[0].minor_faults, timeline.points[0].major_faults), (30, 1));
    }

    #[test]
    fn a_last_moment_has_no_rate_of_its_own() {
        let mut timeline = Timeline::new(Some(milliseconds(100)));
        timeline.push(milliseconds(100), (10, 0), 1, 1);
        timeline.push(milliseconds(101), (20, 0), 1, 1);
        timeline.close();
        assert_eq!(timeline.points.len(), 1);
        assert_eq!(timeline.points[0].minor_faults, 20);
    }
}
