//! Shares units out into partitions.

use std::ops::Range;

/// Partitions of a scan that does not say how many it wants.
const DEFAULT_PARTITIONS: u32 = 8;

/// Shares units out into at most so many runs of about the same bytes, each of at least one unit; without units there is
/// one empty run. The answer depends on nothing but the arguments.
pub fn share_out(unit_bytes: &[u64], max_partitions: Option<u32>) -> Vec<Range<usize>> {
    let wanted = max_partitions.unwrap_or(DEFAULT_PARTITIONS).max(1) as usize;
    let count = wanted.min(unit_bytes.len()).max(1);
    // A unit costs something, however few bytes it has.
    let weight = |bytes: &u64| u128::from(*bytes) + 1;
    let total: u128 = unit_bytes.iter().map(weight).sum();
    let mut runs = Vec::with_capacity(count);
    let (mut start, mut end, mut before) = (0, 0, 0);
    for run in 1..=count {
        let goal = total * run as u128 / count as u128;
        // Each later run must still find a unit of its own.
        let most = unit_bytes.len().saturating_sub(count - run);
        for bytes in unit_bytes.get(end..most).unwrap_or_default() {
            // A unit belongs to the run in which its middle lies.
            if end > start && before + weight(bytes) / 2 >= goal && run < count {
                break;
            }
            before += weight(bytes);
            end += 1;
        }
        runs.push(start..end);
        start = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_disjoint_cover_all_and_are_never_empty() {
        for count in 0..40_u64 {
            for most in 1..12 {
                for size in [
                    |i| i * i,
                    |i| 40 - i,
                    |_| 0,
                    |i| if i == 3 { u64::MAX } else { 1 },
                ] {
                    let units: Vec<u64> = (0..count).map(size).collect();
                    let runs = share_out(&units, Some(most));
                    assert!(runs.len() == (most as usize).min(units.len()).max(1));
                    assert_eq!(runs.first().map(|run| run.start), Some(0));
                    assert_eq!(runs.last().map(|run| run.end), Some(units.len()));
                    assert!(runs.windows(2).all(|pair| pair[0].end == pair[1].start));
                    assert!(
                        units.is_empty() || runs.iter().all(|run| !run.is_empty()),
                        "{runs:?}"
                    );
                }
            }
        }
    }
}
