//! What each table's scans came to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::{Counters, Outcome, Outcomes};
use crate::protocol::messages::ReadEnd;

/// Tables that are told apart; the rest are counted together.
const MOST_TABLES: usize = 1000;

/// Scans of tables beyond those that are told apart.
const OTHERS: &str = "(other)";

/// Scans that ended before it was known that there is such a table.
const UNKNOWN: &str = "(unknown)";

/// What the scans of one table came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// How its scans ended; a scan is a partition that was read, or a stripe of it, or a small result sent with its plan.
    pub scans: Outcomes,
    /// Table payloads sent.
    pub batches_sent: u64,
    /// Rows sent.
    pub rows_sent: u64,
    /// Bytes of table payloads sent.
    pub bytes_sent: u64,
}

/// What scans came to, by table.
#[derive(Debug, Default)]
pub(super) struct Scans(Mutex<BTreeMap<Arc<str>, TableStats>>);

impl Scans {
    /// The name that a table's scans are counted under, once it is known that there is such a table.
    fn served(&self, table: &str) -> Arc<str> {
        // The map is sound after every statement, so a panic elsewhere does not spoil it.
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, _)) = tables.get_key_value(table) {
            return Arc::clone(name);
        }
        let name: Arc<str> = if tables.len() < MOST_TABLES {
            table
        } else {
            OTHERS
        }
        .into();
        tables.entry(Arc::clone(&name)).or_default();
        name
    }

    /// The same without making a table known.
    fn known(&self, table: &str) -> Arc<str> {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables
            .get_key_value(table)
            .map_or_else(|| UNKNOWN.into(), |(name, _)| Arc::clone(name))
    }

    fn change(&self, table: &Arc<str>, change: impl FnOnce(&mut TableStats)) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(tables.entry(Arc::clone(table)).or_default());
    }

    pub(super) fn snapshot(&self) -> Vec<(String, TableStats)> {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables
            .iter()
            .map(|(name, stats)| (name.to_string(), stats.clone()))
            .collect()
    }
}

impl Counters {
    /// Makes known that a table is served, so that its scans are counted under its name from the first on.
    pub(in crate::server) fn serves(&self, table: &str) {
        self.scans_by_table.served(table);
    }
}

/// Counts one scan: what it sends as it goes, and how it ended when it is dropped.
pub(in crate::server) struct ScanMeter {
    counters: Arc<Counters>,
    table: Arc<str>,
    /// When the request came.
    since: Instant,
    sent: ReadEnd,
    outcome: Outcome,
}

impl ScanMeter {
    /// Of a request that came then, for a table of which it is not known yet whether it is there.
    pub(in crate::server) fn new(counters: &Arc<Counters>, table: &str, since: Instant) -> Self {
        Self {
            table: counters.scans_by_table.known(table),
            counters: Arc::clone(counters),
            since,
            sent: ReadEnd::default(),
            outcome: Outcome::Abandoned,
        }
    }

    /// There is such a table.
    pub(in crate::server) fn found(&mut self, table: &str) {
        self.table = self.counters.scans_by_table.served(table);
    }

    /// Rows have gone out.
    pub(in crate::server) fn count_sent(&mut self, sent: &ReadEnd) {
        if self.sent.bytes == 0 {
            self.counters.first_frames.record(self.since.elapsed());
        }
        self.sent.batches += sent.batches;
        self.sent.rows += sent.rows;
        self.sent.bytes += sent.bytes;
        self.counters.count_sent(sent);
        self.counters.scans_by_table.change(&self.table, |stats| {
            stats.batches_sent += sent.batches;
            stats.rows_sent += sent.rows;
            stats.bytes_sent += sent.bytes;
        });
    }

    /// How it ended. Where nothing is said, the client is taken to have gone.
    pub(in crate::server) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for ScanMeter {
    fn drop(&mut self) {
        let (took, outcome) = (self.since.elapsed(), self.outcome);
        tracing::debug!(
            table = &*self.table,
            outcome = outcome.as_str(),
            rows = self.sent.rows,
            bytes = self.sent.bytes,
            ?took,
            "a scan ended"
        );
        self.counters.scan_times.record(took);
        self.counters
            .scans_by_table
            .change(&self.table, |stats| stats.scans.count(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_serves_take_no_room_and_served_ones_have_a_bound() {
        let scans = Scans::default();
        assert_eq!(&*scans.known("guess"), UNKNOWN);
        assert!(scans.snapshot().is_empty());
        for index in 0..MOST_TABLES + 5 {
            scans.served(&format!("t{index}"));
        }
        assert_eq!(&*scans.known("t0"), "t0");
        assert_eq!(&*scans.served("another"), OTHERS);
        assert_eq!(scans.snapshot().len(), MOST_TABLES + 1);
    }

    #[test]
    fn a_scan_that_is_dropped_was_abandoned() {
        let counters = Arc::<Counters>::default();
        counters.serves("t");
        let sent = ReadEnd {
            batches: 1,
            rows: 5,
            bytes: 70,
            ..ReadEnd::default()
        };
        let mut meter = ScanMeter::new(&counters, "t", Instant::now());
        meter.count_sent(&sent);
        meter.count_sent(&sent);
        drop(meter);
        ScanMeter::new(&counters, "t", Instant::now()).end(Outcome::Finished);
        let tables = counters.scans_by_table.snapshot();
        let (name, stats) = &tables[0];
        assert_eq!((name.as_str(), tables.len()), ("t", 1));
        assert_eq!((stats.scans.abandoned, stats.scans.finished), (1, 1));
        assert_eq!((stats.rows_sent, stats.bytes_sent), (10, 140));
        assert_eq!(counters.first_frames.snapshot().count(), 1);
        assert_eq!(counters.scan_times.snapshot().count(), 2);
    }
}
