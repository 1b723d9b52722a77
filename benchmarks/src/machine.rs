//! Where and when a run was made.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::Result;

/// Uses so much memory for the first time and gives it back, so that whoever asks for as much right after gets pages that
/// the machine really has. Where a virtual machine hands unused memory back to its host (free page reporting), the first
/// use of such a page costs many times what the same page costs otherwise, whoever it falls to.
pub fn warm_memory(bytes: u64) -> Result<()> {
    let mut memory = memmap2::MmapMut::map_anon(usize::try_from(bytes)?)?;
    #[cfg(target_os = "linux")]
    memory.advise(memmap2::Advice::HugePage)?;
    for page in memory.chunks_mut(4096) {
        if let Some(byte) = page.first_mut() {
            *byte = 1;
        }
    }
    Ok(())
}

/// The machine, and the time.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// In UTC.
    pub date: String,
    /// The processor's name; empty where it is not known, as are the other texts.
    pub cpu: String,
    /// Threads that may run at once; 0 where it is not known.
    pub cores: usize,
    /// All memory; 0 where it is not known.
    pub memory_bytes: u64,
    /// The version of Linux.
    pub kernel: String,
    /// Which memory is put into huge pages.
    pub transparent_huge_pages: String,
    /// Unoptimised builds are slow.
    pub optimised: bool,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
        let pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = pages
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        Self {
            date: date(),
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            memory_bytes: kib * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            transparent_huge_pages: chosen
                .map(|(chosen, _)| chosen.to_owned())
                .unwrap_or_default(),
            optimised: !cfg!(debug_assertions),
        }
    }

    /// In one line; another follows where the numbers mean nothing. `settings` say how the run was made.
    pub fn summary(&self, settings: &str) -> String {
        let warning = if self.optimised {
            ""
        } else {
            "\nThis build is not optimised: the numbers mean nothing."
        };
        format!(
            "{}: {}, {} cores, {} GiB, Linux {}, huge pages {}; {settings}{warning}",
            self.date,
            self.cpu,
            self.cores,
            self.memory_bytes >> 30,
            self.kernel,
            self.transparent_huge_pages,
        )
    }
}

/// Now, in UTC.
fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        of_day / 3600,
        of_day / 60 % 60
    )
}

/// The date of a day counted from 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years are counted from March of the year 0, so that leap days come last.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dated() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }
}
