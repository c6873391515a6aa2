//! Numbers in units that people read.

use crate::measure::{Summary, Unit};

const MEBIBYTE: f64 = 1_048_576.0;
const TEBIBYTE: f64 = MEBIBYTE * MEBIBYTE;

/// One unit and precision for all figures of a row, so that they can be compared at a glance.
pub struct Scale {
    divisor: f64,
    decimals: usize,
    pub suffix: &'static str,
}

impl Scale {
    /// A scale that suits figures from `lowest` to `highest`.
    pub fn for_range(unit: Unit, lowest: f64, highest: f64) -> Scale {
        let (divisor, suffix) = match unit {
            Unit::Count => {
                return Scale { divisor: 1.0, decimals: 0, suffix: "" };
            }
            Unit::Seconds if highest >= 1.0 => (1.0, "s"),
            Unit::Seconds => (1e-3, "ms"),
            Unit::Bytes if highest >= TEBIBYTE => (TEBIBYTE, "TiB"),
            Unit::Bytes if highest >= 1024.0 * MEBIBYTE => (1024.0 * MEBIBYTE, "GiB"),
            Unit::Bytes if highest >= MEBIBYTE => (MEBIBYTE, "MiB"),
            Unit::Bytes => (1024.0, "KiB"),
        };
        let decimals = match lowest / divisor {
            small if small < 1.0 => 3,
            small if small < 10.0 => 2,
            small if small < 100.0 => 1,
            _ => 0,
        };
        Scale { divisor, decimals, suffix }
    }

    pub fn divisor(&self) -> f64 {
        self.divisor
    }

    pub fn format(&self, value: f64) -> String {
        let scaled = value / self.divisor;
        // The median of an even number of counts may lie between two.
        if self.suffix.is_empty() && (scaled * 10.0).round() % 10.0 != 0.0 {
            let tenths = (scaled * 10.0).round() as u64;
            return format!("{}.{}", with_thousands(tenths / 10), tenths % 10);
        }
        if self.suffix.is_empty() || scaled == 0.0 {
            return with_thousands(scaled.round() as u64);
        }
        format!("{scaled:.*} {}", self.decimals, self.suffix)
    }
}

pub fn with_thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// How far runs lie from the median, in parts of it. One run alone tells nothing of that.
pub fn spread_text(summary: &Summary) -> String {
    let &Summary { median, spread, count, .. } = summary;
    if median == 0.0 || count == 1 {
        return String::new();
    }
    let percent = spread / median * 100.0;
    match percent {
        _ if percent < 0.05 => "±0 %".to_owned(),
        _ if percent < 9.95 => format!("±{percent:.1} %"),
        _ => format!("±{percent:.0} %"),
    }
}

/// A share of a whole; what is more than nothing is never shown as nothing.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        few if few < 0.1 => "<0.1 %".to_owned(),
        some if some < 10.0 => format!("{some:.1} %"),
        many => format!("{many:.0} %"),
    }
}

/// What is more than nothing is never shown as nothing.
pub fn ratio_text(ratio: Option<f64>) -> String {
    match ratio {
        None => "–".to_owned(),
        Some(ratio) if ratio >= 99.95 => format!("{ratio:.0}×"),
        Some(ratio) if ratio >= 9.995 => format!("{ratio:.1}×"),
        Some(ratio) if ratio > 0.0 && ratio < 0.005 => "<0.01×".to_owned(),
        Some(ratio) => format!("{ratio:.2}×"),
    }
}

pub fn bytes_text(bytes: u64) -> String {
    let bytes = bytes as f64;
    Scale::for_range(Unit::Bytes, bytes, bytes).format(bytes)
}

/// "500 ms", "3.50 s", "90 seconds", "2.5 minutes", "8 hours".
pub fn time_text(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    let (number, unit) = match seconds {
        short if short < 10.0 => {
            return Scale::for_range(Unit::Seconds, short, short).format(short);
        }
        some if some < 2.0 * MINUTE => (some, "seconds"),
        some if some < 2.0 * HOUR => (some / MINUTE, "minutes"),
        many if many < 2.0 * DAY => (many / HOUR, "hours"),
        many => (many / DAY, "days"),
    };
    let tenths = (number * 10.0).round() as u64;
    match tenths % 10 {
        rest if rest > 0 && tenths < 100 => format!("{}.{rest} {unit}", tenths / 10),
        _ => format!("{number:.0} {unit}"),
    }
}

/// A change, with its sign.
pub fn signed_bytes(change: i64) -> String {
    let sign = match change {
        0 => "",
        less if less < 0 => "-",
        _ => "+",
    };
    format!("{sign}{}", bytes_text(change.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_exact_as_they_are_short() {
        assert_eq!(time_text(0.5), "500 ms");
        assert_eq!(time_text(3.5), "3.50 s");
        assert_eq!(time_text(15.2), "15 seconds");
        assert_eq!(time_text(90.0), "90 seconds");
        assert_eq!(time_text(150.0), "2.5 minutes");
        assert_eq!(time_text(5400.0), "90 minutes");
        assert_eq!(time_text(3.0 * 3600.0), "3 hours");
        assert_eq!(time_text(2.26 * 86_400.0), "2.3 days");
    }

    #[test]
    fn shares_are_never_rounded_to_nothing() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.987), "99 %");
    }

    #[test]
    fn a_row_shares_unit_and_precision() {
        let scale = Scale::for_range(Unit::Seconds, 0.0123, 0.412);
        assert_eq!(scale.format(0.0123), "12.3 ms");
        assert_eq!(scale.format(0.412), "412.0 ms");
        assert_eq!(Scale::for_range(Unit::Seconds, 1.5, 2.0).format(1.5), "1.50 s");
    }

    #[test]
    fn memory_is_counted_in_binary_units() {
        assert_eq!(bytes_text(900 * 1024), "900 KiB");
        assert_eq!(bytes_text(1_600_000), "1.53 MiB");
        assert_eq!(bytes_text(3 << 30), "3.00 GiB");
        assert_eq!(bytes_text((1 << 40) - (1 << 30)), "1023 GiB");
        assert_eq!(bytes_text(20_480 << 30), "20.0 TiB");
    }

    #[test]
    fn a_median_between_two_counts_is_not_rounded() {
        let scale = Scale::for_range(Unit::Count, 0.5, 1_234.5);
        assert_eq!((scale.format(0.5), scale.format(1.0)), ("0.5".to_owned(), "1".to_owned()));
        assert_eq!((scale.format(1_234.5), scale.format(0.0)), ("1,234.5".into(), "0".into()));
    }

    #[test]
    fn counts_have_thousands() {
        assert_eq!(with_thousands(0), "0");
        assert_eq!(with_thousands(999), "999");
        assert_eq!(with_thousands(1_234_567), "1,234,567");
    }

    #[test]
    fn spreads_and_ratios() {
        let spread = |values: &[f64]| spread_text(&Summary::of(values));
        assert_eq!(spread(&[0.0, 0.0]), "");
        assert_eq!(spread(&[5.0]), "");
        assert_eq!(spread(&[5.0, 5.0]), "±0 %");
        assert_eq!(spread(&[4.8, 5.2]), "±4.0 %");
        assert_eq!(spread(&[3.0, 7.0]), "±40 %");
        assert_eq!(ratio_text(Some(0.824)), "0.82×");
        assert_eq!(ratio_text(Some(123.4)), "123×");
        assert_eq!(ratio_text(Some(0.003)), "<0.01×");
        assert_eq!(ratio_text(Some(0.0)), "0.00×");
        assert_eq!(ratio_text(None), "–");
    }
}
