//! The older text form of heap profiles, as gperftools, jemalloc and we write it.
//!
//! A line of values, `@` and addresses; the mappings of the process at the end. jemalloc has the
//! addresses in a line of their own, and the values of all threads and of each below it.

use std::collections::HashMap;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

use super::model::{Labels, Location, Mapping, Profile, ValueType};
use crate::output::printable;

const MAPPINGS_TITLES: [&str; 2] = ["MAPPED_LIBRARIES:", "--- Memory map: ---"];
const VALUES: usize = 4;

static VALUE_TYPES: LazyLock<Vec<ValueType>> = LazyLock::new(|| {
    [
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
    ]
    .map(|(name, unit)| ValueType { name: name.into(), unit: unit.into() })
    .into()
});

pub fn is_legacy(bytes: &[u8]) -> bool {
    bytes.starts_with(b"heap profile:") || bytes.starts_with(b"heap_v2/")
}

pub fn parse(text: &str) -> Result<Profile> {
    let mut lines = text.lines().zip(1..);
    let (header, _) = lines.next().context("is empty")?;
    let sampling = Sampling::of_header(header)?;
    let mut profile = Profile::new(VALUE_TYPES.clone());
    profile.default_type = Some("inuse_space".to_owned());
    profile.period = sampling.0;

    let mut numbers = HashMap::new();
    let mut stack: Option<Vec<u32>> = None;
    for (line, number) in lines.by_ref() {
        let line = line.trim();
        if MAPPINGS_TITLES.contains(&line) {
            break;
        }
        let place = || format!("is damaged: line {number} is no sample: '{}'", clipped(line));
        if let Some(addresses) = line.strip_prefix('@') {
            stack = Some(locations(addresses, &mut profile, &mut numbers).with_context(place)?);
        } else if let Some((values, addresses)) = line.split_once('@') {
            let values = sampling.scaled(values_of(values).with_context(place)?);
            let own = locations(addresses, &mut profile, &mut numbers).with_context(place)?;
            profile.push(own, values, Labels::default());
        } else if let Some((whose, values)) =
            line.split_once(':').filter(|(w, _)| w.starts_with('t'))
        {
            // The line of all threads tells what those of each thread tell once more.
            if let (Some(stack), "t*") = (&stack, whose) {
                let values = sampling.scaled(values_of(values).with_context(place)?);
                profile.push(stack.iter().copied(), values, Labels::default());
            }
        } else if !line.is_empty() && !line.starts_with('#') {
            bail!(place());
        }
    }
    profile.mappings = lines.filter_map(|(line, _)| mapping(line)).collect();
    place_locations(&mut profile);
    Ok(profile)
}

fn clipped(line: &str) -> String {
    printable(&line.chars().take(60).collect::<String>())
}

/// The mean number of bytes between samples; none where every call was recorded.
struct Sampling(Option<i64>);

impl Sampling {
    fn of_header(header: &str) -> Result<Sampling> {
        let kind = match header.split_once('@') {
            Some((_, kind)) => kind.trim(),
            None if header.starts_with("heap_v2/") => header.trim(),
            None => bail!("is damaged: its first line does not say what kind of profile it is"),
        };
        let (name, period) = kind.split_once('/').unwrap_or((kind, ""));
        let period: Option<i64> = period.trim().parse().ok().filter(|&period| period > 1);
        match name {
            "heapprofile" => Ok(Sampling(None)),
            "heap_v2" | "heapz_v2" => Ok(Sampling(period)),
            "heap" => Ok(Sampling(period.map(|period| period / 2))),
            _ => bail!("is a profile of kind '{}', which is not known here", clipped(kind)),
        }
    }

    /// What the samples stand for. The chance that a block is sampled grows with its size.
    fn scaled(&self, values: [i64; VALUES]) -> [i64; VALUES] {
        let Some(period) = self.0 else { return values };
        let mut scaled = values;
        for pair in scaled.chunks_mut(2) {
            if pair[0] > 0 && pair[1] > 0 {
                let mean = pair[1] as f64 / pair[0] as f64;
                let factor = 1.0 / -(-mean / period as f64).exp_m1();
                pair.iter_mut().for_each(|value| *value = (*value as f64 * factor) as i64);
            }
        }
        scaled
    }
}

/// "12: 3456 [78: 9012]".
fn values_of(text: &str) -> Option<[i64; VALUES]> {
    let mut numbers = text.split([':', '[', ']', ' ']).filter(|word| !word.is_empty());
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

fn locations(
    text: &str,
    profile: &mut Profile,
    numbers: &mut HashMap<u64, u32>,
) -> Option<Vec<u32>> {
    let mut stack = Vec::new();
    for word in text.split_whitespace() {
        let address = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        // These are return addresses: the call is before them.
        let address = address.saturating_sub(1);
        stack.push(*numbers.entry(address).or_insert_with(|| {
            profile.locations.push(Location { address, ..Location::default() });
            profile.locations.len() as u32 - 1
        }));
    }
    Some(stack)
}

/// A line of /proc/PID/maps, if it has code.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, limit) = words.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, limit) = (number(start)?, number(limit)?);
    if !words.next()?.contains('x') {
        return None;
    }
    let offset = number(words.next()?)?;
    let file = words.skip(2).collect::<Vec<_>>().join(" ");
    Some(Mapping { start, limit, offset, file: file.into(), build_id: "".into() })
}

fn place_locations(profile: &mut Profile) {
    let mut order: Vec<usize> = (0..profile.mappings.len()).collect();
    order.sort_by_key(|&number| profile.mappings[number].start);
    for location in &mut profile.locations {
        let next = order.partition_point(|&n| profile.mappings[n].start <= location.address);
        location.mapping = next
            .checked_sub(1)
            .map(|before| order[before])
            .filter(|&number| location.address < profile.mappings[number].limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPERFTOOLS: &str = "\
heap profile:      3:      400 [    10:     4000] @ heapprofile
     2:      300 [     6:     3000] @ 0x00401136 0x00401200
     1:      100 [     4:     1000] @ 0x00401136

MAPPED_LIBRARIES:
00400000-00401000 r--p 00000000 08:01 7 /bin/a program
00401000-00402000 r-xp 00001000 08:01 7 /bin/a program
";

    #[test]
    fn gperftools_lines() {
        let profile = parse(GPERFTOOLS).unwrap();
        assert_eq!((profile.sample_count(), profile.locations.len()), (2, 2));
        assert_eq!(profile.sample(0).values, [2, 300, 6, 3000]);
        assert_eq!(profile.locations[0].address, 0x401135);
        let mapping = &profile.mappings[profile.locations[0].mapping.unwrap()];
        assert_eq!((&*mapping.file, mapping.offset), ("/bin/a program", 0x1000));
    }

    #[test]
    fn jemallocs_lines_are_scaled_and_counted_once() {
        let text = "heap_v2/524288\n  t*: 2: 1048576 [0: 0]\n  t0: 2: 1048576 [0: 0]\n\
                    @ 0x10 0x20\n  t*: 1: 524288 [0: 0]\n  t0: 1: 524288 [0: 0]\n\
                    @ 0x10\n  t*: 1: 16 [0: 0]\nMAPPED_LIBRARIES:\n";
        let profile = parse(text).unwrap();
        assert_eq!((profile.sample_count(), profile.period), (2, Some(524_288)));
        let values: Vec<&[i64]> = profile.samples().map(|sample| sample.values).collect();
        assert_eq!(values[0][1], 829_411, "524288 / (1 - 1/e)");
        assert_eq!(values[1][..2], [32_768, 524_296]);
    }

    #[test]
    fn what_is_damaged_is_named_with_its_line() {
        let error = |text: &str| format!("{:#}", parse(text).err().unwrap());
        let damaged = GPERFTOOLS.replace("1:      100 [", "1:  xyz [");
        assert!(error(&damaged).starts_with("is damaged: line 3 is no sample: '1:  xyz"));
        assert!(error("heap profile: 1: 2 [3: 4] @ growthz/1\n").contains("'growthz/1'"));
        assert!(error("heap profile: 1: 2\n").contains("first line"));
        assert!(
            error("heap profile: 1: 2 [1: 2] @ heapprofile\n1: 2 [1: 2] @ 0xzz").contains("line 2")
        );
    }
}
