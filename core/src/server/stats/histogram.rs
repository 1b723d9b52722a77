//! How long things took, in buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds; what took longer falls in one more.
const BOUNDS: [u64; 18] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
];

/// How many times something took how long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Durations {
    /// Each bucket's upper bound, ascending, and how many fell in it that were longer than the bound before. The last
    /// bound is [`Duration::MAX`].
    pub buckets: Vec<(Duration, u64)>,
    /// All of them together.
    pub total: Duration,
}

impl Durations {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    longer: AtomicU64,
    total_micros: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|&bound| bound < micros);
        let bucket = self.buckets.get(at).unwrap_or(&self.longer);
        bucket.fetch_add(1, Ordering::AcqRel);
        self.total_micros.fetch_add(micros, Ordering::AcqRel);
    }

    pub(super) fn snapshot(&self) -> Durations {
        let bounds = BOUNDS.map(Duration::from_micros).into_iter();
        let counts = self.buckets.iter().chain([&self.longer]);
        Durations {
            buckets: bounds
                .chain([Duration::MAX])
                .zip(counts.map(|count| count.load(Ordering::Acquire)))
                .collect(),
            total: Duration::from_micros(self.total_micros.load(Ordering::Acquire)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_falls_in_the_bucket_that_it_does_not_exceed() {
        let histogram = Histogram::default();
        let took = [0, 500, 501, 1_800_000_000, 1_800_000_001];
        for micros in took {
            histogram.record(Duration::from_micros(micros));
        }
        let durations = histogram.snapshot();
        assert_eq!(durations.count(), 5);
        assert_eq!(durations.total, Duration::from_micros(took.iter().sum()));
        let filled: Vec<_> = durations
            .buckets
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        let expected = [
            (Duration::from_micros(500), 2),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(1800), 1),
            (Duration::MAX, 1),
        ];
        assert_eq!(filled, expected);
    }
}
