//! What a process costs, and how measurements are summed up.

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// CPU seconds of this process so far, user and system together.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Starts to measure the peak of this process's memory anew. Where the system does not let us, it is the peak so far.
pub fn reset_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak of this process's resident memory in bytes; 0 where it is not known.
pub fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// What a process has cost since it was asked to start counting.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU seconds, user and system together.
    pub cpu_s: f64,
    /// The peak of its resident memory, in bytes.
    pub peak_rss: u64,
}

/// Median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Zeros where there is nothing.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Self {
            median: median(&sorted),
            min: sorted.first().copied().unwrap_or_default(),
            max: sorted.last().copied().unwrap_or_default(),
        }
    }
}

/// Of an even number of values the mean of the two in the middle.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => at(middle),
        _ => (at(middle - 1) + at(middle)) / 2.0,
    }
}

/// When things came: the time between one and the next.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// When the first came.
    pub first: Option<Instant>,
    last: Option<Instant>,
    /// In microseconds.
    pub gaps_us: Vec<u32>,
}

impl Arrivals {
    /// Something has come now.
    pub fn note(&mut self) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        if let Some(last) = self.last.replace(now) {
            let gap = now.duration_since(last).as_micros();
            self.gaps_us.push(u32::try_from(gap).unwrap_or(u32::MAX));
        }
    }
}

/// Percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of all are no longer.
    pub p50: f64,
    /// 95 % are no longer.
    pub p95: f64,
    /// 99 % are no longer.
    pub p99: f64,
}

impl Percentiles {
    /// Of gaps in microseconds.
    pub fn of(mut gaps_us: Vec<u32>) -> Self {
        gaps_us.sort_unstable();
        let at = |percent| f64::from(percentile(&gaps_us, percent)) / 1000.0;
        Self {
            p50: at(50),
            p95: at(95),
            p99: at(99),
        }
    }
}

/// The least value that so many percent of all values do not exceed; 0 where there are none.
pub fn percentile(sorted: &[u32], percent: usize) -> u32 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), 50);
        assert_eq!(percentile(&hundred, 99), 99);
        assert_eq!(percentile(&hundred, 100), 100);
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (7, 7));
        assert_eq!(percentile(&[], 99), 0);
        let shuffled = Percentiles::of(vec![3000, 1000, 2000]);
        assert_eq!((shuffled.p50, shuffled.p99), (2.0, 3.0));
    }

    #[test]
    fn spreads_do_not_mind_order() {
        let spread = Spread::of(&[3.0, 1.0, 10.0]);
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 10.0));
        assert_eq!(Spread::of(&[1.0, 2.0]).median, 1.5);
        assert_eq!(Spread::of(&[]).max, 0.0);
    }

    #[test]
    fn this_process_takes_time_and_memory() {
        reset_peak_rss();
        let before = cpu_seconds();
        let filled = vec![1_u8; 32 << 20];
        assert!(filled.iter().map(|&byte| u64::from(byte)).sum::<u64>() > 0);
        assert!(cpu_seconds() > before);
        assert!(peak_rss() > 16 << 20);
    }
}
