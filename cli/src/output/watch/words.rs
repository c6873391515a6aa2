//! Figures and words that the formats share.

use crate::output::explain;
use crate::output::printable;
use crate::output::quantity::{bytes_text, signed_bytes, time_text, with_thousands};
use crate::watch::{End, SizeTrend, Trend, Watched};

/// Sizes of blocks that are shown.
const SIZES_SHOWN: usize = 8;

/// What rates are shown by: of a short time nobody knows what a minute or an hour brings.
pub struct Per {
    pub name: &'static str,
    seconds: f64,
}

const SECOND: Per = Per { name: "a second", seconds: 1.0 };
const MINUTE: Per = Per { name: "a minute", seconds: 60.0 };
const HOUR: Per = Per { name: "an hour", seconds: 3600.0 };
/// Less than so many of them are still shown by the one before.
const ENOUGH: f64 = 10.0;

impl Per {
    pub fn of(found: &Watched) -> Per {
        match found.seconds() {
            short if short < ENOUGH * SECOND.seconds => SECOND,
            some if some < ENOUGH * MINUTE.seconds => MINUTE,
            _ => HOUR,
        }
    }

    /// Of what has changed too little there is no rate.
    pub fn rate(&self, found: &Watched, trend: &Trend) -> String {
        if trend.change_bytes.abs() < found.change_min() {
            return "–".to_owned();
        }
        let rate = trend.change_bytes as f64 / found.seconds().max(f64::MIN_POSITIVE);
        signed_bytes((rate * self.seconds) as i64)
    }
}

pub fn headline(found: &Watched) -> String {
    let resident = resident(found);
    let whole = found.whole();
    if found.is_one_look() {
        return format!("{resident} at the only look");
    }
    if whole.change_bytes.abs() < found.change_min() {
        let before = format!("{resident}, as {} before", time_text(found.seconds()));
        return match bytes_text(whole.first_bytes) == bytes_text(whole.last_bytes) {
            true => before,
            false => format!("{before} but for {}", signed_bytes(whole.change_bytes)),
        };
    }
    format!("{resident}, {} in {}", signed_bytes(whole.change_bytes), time_text(found.seconds()))
}

fn resident(found: &Watched) -> String {
    let seen = &found.last;
    let whose = format!("{} ({})", printable(&seen.program), seen.pid.unwrap_or(0));
    format!("{whose}: {} resident", bytes_text(seen.resident_bytes))
}

pub fn totals(found: &Watched) -> String {
    // One that has just begun has no heap yet, by which it is known.
    let is_begun = found.is_one_look() && found.end == End::ProcessEnded;
    let on = match found.last.is_ours {
        true if !found.last.has_heap => "on primalloc, nothing allocated yet, ",
        true => "on primalloc, ",
        false if is_begun => "",
        false => "not on primalloc, ",
    };
    let looks = match found.looks {
        1 => "one look".to_owned(),
        many => format!("{} looks", with_thousands(many)),
    };
    let end = match &found.end {
        End::Asked | End::TimeIsUp => "",
        End::ProcessEnded => ", until the process ended",
        End::Unreadable { .. } => ", until it could not be looked at any more",
    };
    format!("{on}{looks}{end}")
}

/// While it goes on, on one line: what does not fit is left out, so that no number is cut.
pub fn progress(found: &Watched, width: usize) -> String {
    // The first look is not the only one yet.
    let whole = if found.is_one_look() { resident(found) } else { headline(found) };
    let size = bytes_text(found.last.resident_bytes);
    let shorter = [
        format!("{whole}; Ctrl-C ends it"),
        whole,
        format!("{size} resident, {} by now", change(&found.whole())),
    ];
    let fits = |line: &String| line.chars().count() <= width;
    shorter.into_iter().find(fits).unwrap_or(size)
}

pub fn name(trend: &Trend) -> &'static str {
    trend.used_for.map_or("all of it", explain::name)
}

/// Each part, and all of them together.
pub fn rows(found: &Watched) -> Vec<(Trend, Vec<u64>)> {
    let values = |trend: &Trend| match trend.used_for {
        Some(used_for) => found.moments.bytes(used_for),
        None => found.moments.resident(),
    };
    let trends = found.trends().into_iter().chain([found.whole()]);
    trends.map(|trend| (trend.clone(), values(&trend))).collect()
}

pub fn change(trend: &Trend) -> String {
    signed_bytes(trend.change_bytes)
}

pub fn sizes(found: &Watched) -> Vec<SizeTrend> {
    let mut sizes = found.sizes();
    sizes.truncate(SIZES_SHOWN);
    sizes
}

pub fn size_cells(size: &SizeTrend) -> [String; 4] {
    [
        with_thousands(size.block_bytes),
        with_thousands(size.first_blocks),
        with_thousands(size.last_blocks),
        signed_bytes(size.change_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::sample::{at_rest, leaking, watched};

    #[test]
    fn rates_suit_the_time() {
        let found = leaking();
        let per = Per::of(&found);
        assert_eq!(per.name, "a minute");
        assert_eq!(per.rate(&found, &found.whole()), "+9.10 MiB");
        let mut found = watched(&[(70, 4, 24), (80, 4, 24)]);
        found.moments.all[1].seconds = 0.5;
        let per = Per::of(&found);
        assert_eq!((per.name, per.rate(&found, &found.whole())), ("a second", "+20.0 MiB".into()));
        let found = at_rest();
        assert_eq!(per.rate(&found, &found.whole()), "–");
    }

    #[test]
    fn what_changes_too_little_is_seen_all_the_same() {
        let mut found = at_rest();
        assert!(headline(&found).ends_with(" resident, as 110 seconds before"));
        found.moments.all.last_mut().unwrap().resident_bytes += 1 << 20;
        let told = headline(&found);
        assert!(told.ends_with(" resident, as 110 seconds before but for +1.00 MiB"), "{told}");
    }

    #[test]
    fn no_number_is_cut_while_it_goes_on() {
        let found = leaking();
        let whole = "served (4711): 153 MiB resident, +47.0 MiB in 5.2 minutes";
        assert_eq!(progress(&found, 80), format!("{whole}; Ctrl-C ends it"));
        assert_eq!(progress(&found, 60), whole);
        assert_eq!(progress(&found, 40), "153 MiB resident, +47.0 MiB by now");
        assert_eq!(progress(&found, 20), "153 MiB");
        let first = progress(&watched(&[(70, 4, 24)]), 80);
        assert_eq!(first, "served (4711): 106 MiB resident; Ctrl-C ends it");
    }

    #[test]
    fn the_end_is_told_if_nobody_asked_for_it() {
        let mut found = at_rest();
        assert_eq!(totals(&found), "on primalloc, 12 looks");
        found.end = End::ProcessEnded;
        assert_eq!(totals(&found), "on primalloc, 12 looks, until the process ended");
    }
}
