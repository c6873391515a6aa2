//! Scales with round numbers, in the units that people read.

use super::super::words::size;

/// A mark on an axis: percent of its length, and what stands there.
pub struct Tick {
    pub at: f64,
    pub label: String,
    /// Left out where there is little room.
    pub is_minor: bool,
}

/// Round sizes from 0 upward, and the value at the end of the axis.
pub fn of_bytes(highest: u64) -> (Vec<Tick>, f64) {
    let step = step_of_bytes(highest.max(4) as f64 / 3.0);
    let steps = (highest.max(1) as f64 / step).ceil().max(1.0);
    let end = step * steps;
    let ticks = (0..=steps as u64).map(|number| Tick {
        at: 100.0 * number as f64 / steps,
        label: if number == 0 { "0".into() } else { round_size(step * number as f64) },
        is_minor: false,
    });
    (ticks.collect(), end)
}

/// 1, 2, 5, 10, 20, 50, 100, 200 or 500 of a unit.
fn step_of_bytes(least: f64) -> f64 {
    let mut unit = 1.0;
    while least / unit > 500.0 {
        unit *= 1024.0;
    }
    unit * round_up(least / unit)
}

fn round_up(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    power * factors.into_iter().find(|factor| power * factor >= least).unwrap_or(10.0)
}

/// Sizes that need no digits after the point have none.
pub fn round_size(bytes: f64) -> String {
    let text = size(bytes as i64);
    let Some((number, unit)) = text.split_once(' ') else { return text };
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}")
}

/// Round times within a length of time.
pub fn of_time(milliseconds: u64) -> Vec<Tick> {
    const MINUTE: f64 = 60_000.0;
    const HOUR: f64 = 60.0 * MINUTE;
    let end = milliseconds.max(1) as f64;
    let least = end / 6.0;
    let step = [5_000.0, 10_000.0, 15_000.0, 30_000.0, MINUTE, 2.0 * MINUTE, 5.0 * MINUTE]
        .into_iter()
        .chain([10.0 * MINUTE, 30.0 * MINUTE, HOUR, 2.0 * HOUR, 6.0 * HOUR, 12.0 * HOUR])
        .find(|step| *step >= least);
    let step = match step {
        _ if least < 2_500.0 => round_up(least),
        Some(step) => step,
        None => 24.0 * HOUR * round_up(least / (24.0 * HOUR)),
    };
    (0..=(end / step) as u64)
        .map(|number| Tick {
            at: 100.0 * step * number as f64 / end,
            label: time(step * number as f64),
            is_minor: number % 2 == 1,
        })
        .collect()
}

/// "250 ms", "12.5 s", "3 min", "2 h".
pub fn time(milliseconds: f64) -> String {
    let plain = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match milliseconds / 1000.0 {
        0.0 => "0".to_owned(),
        seconds if seconds < 1.0 => format!("{} ms", plain(milliseconds)),
        seconds if seconds < 120.0 => format!("{} s", plain(seconds)),
        seconds if seconds < 7200.0 => format!("{} min", plain(seconds / 60.0)),
        seconds => format!("{} h", plain(seconds / 3600.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn marks_are_at_round_numbers() {
        let (ticks, end) = of_bytes(46 << 20);
        assert_eq!(labels(ticks), ["0", "20 MiB", "40 MiB", "60 MiB"]);
        assert_eq!(end, f64::from(60 << 20));
        assert_eq!(labels(of_bytes(0).0), ["0", "2 B"]);
        assert_eq!(labels(of_bytes(900 << 10).0), ["0", "500 KiB", "1000 KiB"]);
        assert_eq!(labels(of_time(60_000)), ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]);
        assert_eq!(labels(of_time(30))[..2], ["0", "5 ms"]);
        assert_eq!(labels(of_time(9_000))[1], "2 s");
        assert_eq!(labels(of_time(3 * 86_400_000))[1], "12 h");
    }

    #[test]
    fn axes_end_at_or_after_the_highest_value() {
        for highest in [1, 999, 1023, 1025, 123_456_789, 1 << 40, u64::MAX >> 1] {
            let (ticks, end) = of_bytes(highest);
            assert!(end >= highest as f64 && (2..=5).contains(&ticks.len()), "{highest}");
        }
        for end in [1, 7, 100, 5_000, 86_400_000, u64::from(u32::MAX)] {
            assert!((2..=12).contains(&of_time(end).len()), "{end}");
        }
    }
}
