//! Parts of ranges of addresses.

use std::ops::Range;

/// The parts of a range that lie in one of the others, and those that do not.
pub fn divided(range: &Range<u64>, others: &[Range<u64>]) -> Vec<(Range<u64>, bool)> {
    let mut parts = Vec::new();
    let mut at = range.start;
    let first = others.partition_point(|other| other.end <= range.start);
    for other in others[first..].iter().take_while(|other| other.start < range.end) {
        let (start, end) = (other.start.max(at), other.end.min(range.end));
        if at < start {
            parts.push((at..start, false));
        }
        if start < end {
            parts.push((start..end, true));
        }
        at = at.max(end);
    }
    if at < range.end {
        parts.push((at..range.end, false));
    }
    parts
}

pub fn shared_bytes(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

pub fn is_most(bytes: u64, range: &Range<u64>) -> bool {
    bytes > 0 && bytes >= (range.end - range.start) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_where_others_begin_and_end() {
        let others = [0..2, 4..6, 6..7, 9..20];
        let parts = [(2..4, false), (4..6, true), (6..7, true), (7..9, false), (9..12, true)];
        assert_eq!(divided(&(2..12), &others), parts);
        assert_eq!(divided(&(1..2), &others), [(1..2, true)]);
        assert_eq!(divided(&(30..31), &others), [(30..31, false)]);
    }

    #[test]
    fn a_half_is_most() {
        assert_eq!((shared_bytes(&(2..8), &(5..20)), shared_bytes(&(2..4), &(5..6))), (3, 0));
        assert!(is_most(3, &(2..8)) && !is_most(2, &(2..8)) && !is_most(0, &(2..3)));
    }
}
