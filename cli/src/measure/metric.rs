//! The table of what is measured: every output format is an expansion of it.

use super::Run;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
}

pub struct Metric {
    /// The key in JSON, with the unit last.
    pub id: &'static str,
    pub label: &'static str,
    pub unit: Unit,
    /// How the conclusion calls less and more of it; metrics without are not concluded on.
    pub verdict: Option<Verdict>,
    pub value: fn(&Run) -> f64,
}

pub struct Verdict {
    pub noun: &'static str,
    pub less: &'static str,
}

const fn metric(
    id: &'static str,
    label: &'static str,
    unit: Unit,
    value: fn(&Run) -> f64,
) -> Metric {
    Metric { id, label, unit, verdict: None, value }
}

impl Metric {
    const fn concluded(mut self, noun: &'static str, less: &'static str) -> Metric {
        self.verdict = Some(Verdict { noun, less });
        self
    }
}

/// Places in the table.
pub const TIME: usize = 0;
pub const MEMORY: usize = 3;
pub const FAULTS: usize = 4;

pub const METRICS: [Metric; 8] = [
    metric("wall_seconds", "wall time", Unit::Seconds, |run| run.wall_seconds)
        .concluded("time", "less"),
    metric("user_seconds", "user time", Unit::Seconds, |run| run.user_seconds),
    metric("system_seconds", "system time", Unit::Seconds, |run| run.system_seconds),
    metric("peak_resident_bytes", "peak memory", Unit::Bytes, |run| run.peak_resident_bytes)
        .concluded("memory", "less"),
    metric("minor_faults", "minor faults", Unit::Count, |run| run.minor_faults)
        .concluded("page faults", "fewer"),
    metric("major_faults", "major faults", Unit::Count, |run| run.major_faults),
    metric("voluntary_switches", "voluntary switches", Unit::Count, |run| run.voluntary_switches),
    metric("involuntary_switches", "involuntary switches", Unit::Count, |run| {
        run.involuntary_switches
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_table() {
        let names = [TIME, MEMORY, FAULTS].map(|place| METRICS[place].id);
        assert_eq!(names, ["wall_seconds", "peak_resident_bytes", "minor_faults"]);
    }
}
