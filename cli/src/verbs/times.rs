//! Lengths of time as options take them.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

pub fn time(text: &str) -> Result<Duration, String> {
    time_from(SHORTEST, text)
}

/// "100ms", "10s", "2m", "8h", and no less than `shortest`. Of a plain number some would say that
/// it is seconds, and the allocator's options that it is milliseconds.
pub fn time_from(shortest: Duration, text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| "not a time such as 100ms or 10s".to_owned())?;
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" => {
            return Err(format!(
                "a unit is missing: {number}ms, {number}s, {number}m or {number}h"
            ));
        }
        unit => return Err(format!("'{unit}' is no unit of time: ms, s, m or h")),
    };
    match Duration::try_from_secs_f64(number * factor) {
        Ok(time) if (shortest..=LONGEST).contains(&time) => Ok(time),
        _ => Err(format!("a time from {}ms to 168 hours is needed", shortest.as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(time("10").unwrap_err(), "a unit is missing: 10ms, 10s, 10m or 10h");
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(time("8h"), Ok(Duration::from_secs(8 * 3600)));
        assert!(time("0s").unwrap_err().contains("1ms"));
        assert!(time("5d").unwrap_err().contains("no unit"));
        assert!(time("-5s").is_err() && time("fast").is_err() && time("").is_err());
        assert!(time("169h").is_err() && time("1e300h").is_err() && time("nans").is_err());
    }
}
