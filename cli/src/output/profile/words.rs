//! Names and figures that the formats share.

use crate::output::printable;
use crate::output::quantity::{bytes_text, time_text, with_thousands};
use crate::profile::{Profile, Series};

const KIBIBYTE: u64 = 1024;
/// Of so many a sum is right within a fifth, as a rule.
const SAMPLES_ENOUGH: u64 = 30;

/// "12.3 MiB"; few bytes as they are.
pub fn size(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    match bytes {
        few if few < KIBIBYTE => format!("{sign}{few} B"),
        many => format!("{sign}{}", bytes_text(many)),
    }
}

/// With a plus where it is more.
pub fn difference(bytes: i64) -> String {
    if bytes > 0 { format!("+{}", size(bytes)) } else { size(bytes) }
}

pub fn count(objects: i64) -> String {
    let sign = if objects < 0 { "-" } else { "" };
    format!("{sign}{}", with_thousands(objects.unsigned_abs()))
}

/// "1 object", "2,000 objects".
pub fn counted(number: i64, what: &str) -> String {
    format!("{} {what}{}", count(number), plural(number))
}

/// The end of a noun.
fn plural(number: i64) -> &'static str {
    if number.unsigned_abs() == 1 { "" } else { "s" }
}

pub fn count_difference(objects: i64) -> String {
    if objects > 0 { format!("+{}", count(objects)) } else { count(objects) }
}

/// "+1 object", "-20 objects".
pub fn counted_difference(number: i64, what: &str) -> String {
    format!("{} {what}{}", count_difference(number), plural(number))
}

pub fn share(part: i64, whole: i64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    match part as f64 / whole as f64 * 100.0 {
        0.0 => "0 %".to_owned(),
        few if few.abs() < 0.1 => "<0.1 %".to_owned(),
        some if some.abs() < 10.0 => format!("{some:.1} %"),
        many => format!("{many:.0} %"),
    }
}

/// Cut in the middle, where names differ least.
pub fn clipped(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let head = most / 2;
    let tail = most - head - 1;
    let begin: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(length - tail).collect();
    format!("{begin}…{end}")
}

/// "live 23.0 MiB in 2,000 objects".
pub fn total(series: &Series, totals: &[i64]) -> String {
    let bytes = size(totals[series.bytes]);
    match series.objects {
        Some(objects) => {
            format!("{} {bytes} in {}", series.label, counted(totals[objects], "object"))
        }
        None => format!("{} {bytes}", series.label),
    }
}

/// Whose profile it is, how long it ran, how exact it is.
pub fn caption(profile: &Profile) -> String {
    let mut parts = Vec::new();
    if let Some((pid, name)) = &profile.facts.program {
        parts.push(format!("{}, process {pid}", printable(name)));
    }
    if profile.duration_nanos > 0 {
        parts.push(duration(profile));
    }
    parts.push(match profile.period {
        Some(1) => "every call recorded".to_owned(),
        Some(period) => format!("estimates from a sample every {}", size(period)),
        None => counted(profile.sample_count() as i64, "stack"),
    });
    parts.join(", ")
}

/// How long it ran: "29.1 ms", "60.0 s".
pub fn duration(profile: &Profile) -> String {
    match profile.duration_nanos as f64 / 1e9 {
        short if short < 1.0 => time_text(short),
        seconds => format!("{seconds:.1} s"),
    }
}

/// What the profile's reader should know of how it was taken.
pub fn remark(profile: &Profile) -> Option<String> {
    let taken = profile.facts.stretched?;
    Some(format!(
        "{} of {} samples {} taken at up to {} times the interval, so that sampling keeps to its \
         budget of time: sums are right on average, but coarser where most is allocated.",
        with_thousands(taken.stretched),
        with_thousands(taken.samples),
        if taken.stretched == 1 { "was" } else { "were" },
        with_thousands(taken.times)
    ))
}

/// How many samples a sum rests on, where they are few.
pub fn few_samples(profile: &Profile, series: &Series) -> Option<String> {
    let is_told = profile.facts.stretched.is_some();
    let period = profile.period.filter(|&period| period > 1 && !is_told)?;
    let bytes = profile.total(series.bytes).unsigned_abs();
    let samples = bytes.div_ceil(period.unsigned_abs());
    (1..SAMPLES_ENOUGH).contains(&samples).then(|| {
        format!(
            "These {} rest on about {}: more of them, by a smaller --rate of primalloc profile, \
             tell more exactly who holds how much.",
            size(bytes as i64),
            counted(samples as i64, "sample")
        )
    })
}

/// "2026-02-28 13:45 UTC", from nanoseconds since 1970.
pub fn utc(nanos: i64) -> String {
    let minutes = nanos.div_euclid(60_000_000_000);
    let (mut days, minute) = (minutes.div_euclid(24 * 60), minutes.rem_euclid(24 * 60));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", days + 1, minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_399_000_000_000), "2000-02-28 23:59 UTC");
        assert_eq!(utc(951_868_800_000_000_000), "2000-03-01 00:00 UTC");
        assert_eq!(utc(1_795_331_374_000_000_000), "2026-11-22 07:09 UTC");
    }

    #[test]
    fn what_the_budget_did_is_told() {
        let mut profile = crate::profile::sample::service();
        assert_eq!(remark(&profile), None);
        profile.facts = crate::profile::Facts::parse(["stretched 1200:80:4096"]);
        let told = remark(&profile).unwrap();
        assert!(told.starts_with("80 of 1,200 samples were taken at up to 4,096 times"), "{told}");
    }

    #[test]
    fn few_samples_are_told() {
        let mut profile = crate::profile::sample::service();
        let live = crate::profile::series(&profile).remove(0);
        assert_eq!(few_samples(&profile, &live), None);
        profile.period = Some(6 << 20);
        let told = few_samples(&profile, &live).unwrap();
        assert!(told.starts_with("These 23.0 MiB rest on about 4 samples: more"), "{told}");
        profile.period = Some(1);
        assert_eq!(few_samples(&profile, &live), None);
    }

    #[test]
    fn short_times_are_told_by_milliseconds() {
        let mut profile = crate::profile::sample::service();
        assert_eq!(duration(&profile), "60.0 s");
        profile.duration_nanos = 29_140_000;
        assert_eq!(duration(&profile), "29.1 ms");
    }

    #[test]
    fn sizes_have_signs_and_units() {
        assert_eq!(
            (size(-5), size(1536), size(0)),
            ("-5 B".into(), "1.50 KiB".into(), "0 B".into())
        );
        assert_eq!((difference(5), count(-1234)), ("+5 B".into(), "-1,234".into()));
        assert_eq!(size(i64::MIN).chars().next(), Some('-'));
        assert_eq!(
            (share(1, 0), share(1, 3), share(1, 5000)),
            ("–".into(), "33 %".into(), "<0.1 %".into())
        );
        assert_eq!(clipped("abcdefghij", 5), "ab…ij");
    }

    #[test]
    fn one_is_no_plural() {
        let texts = [0, 1, 1234].map(|number| counted(number, "stack"));
        assert_eq!(texts, ["0 stacks", "1 stack", "1,234 stacks"]);
        let texts = [-1, 1, 2].map(|number| counted_difference(number, "object"));
        assert_eq!(texts, ["-1 object", "+1 object", "+2 objects"]);
    }
}
