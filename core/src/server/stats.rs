//! What a server has done so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::messages;

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) plans: AtomicU64,
    pub(super) scans: AtomicU64,
    pub(super) active_connections: AtomicU64,
    pub(super) active_scans: AtomicU64,
    pub(super) batches_sent: AtomicU64,
    pub(super) rows_sent: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// What a server has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections accepted.
    pub connections: u64,
    /// Scans planned.
    pub plans: u64,
    /// Partitions that readers began to read, or a stripe of them.
    pub scans: u64,
    /// Connections open now.
    pub active_connections: u64,
    /// Partitions being read now. The other numbers settle once this is 0.
    pub active_scans: u64,
    /// Table payloads sent.
    pub batches_sent: u64,
    /// Rows sent.
    pub rows_sent: u64,
    /// Bytes of table payloads sent.
    pub bytes_sent: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

impl Counters {
    pub(super) fn count_sent(&self, sent: &messages::ReadEnd) {
        self.batches_sent.fetch_add(sent.batches, Ordering::AcqRel);
        self.rows_sent.fetch_add(sent.rows, Ordering::AcqRel);
        self.bytes_sent.fetch_add(sent.bytes, Ordering::AcqRel);
    }

    pub(super) fn snapshot(&self) -> ServerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        ServerStats {
            connections: read(&self.connections),
            plans: read(&self.plans),
            scans: read(&self.scans),
            active_connections: read(&self.active_connections),
            active_scans: read(&self.active_scans),
            batches_sent: read(&self.batches_sent),
            rows_sent: read(&self.rows_sent),
            bytes_sent: read(&self.bytes_sent),
            errors: read(&self.errors),
        }
    }
}

/// Reads what a server has done, for as long as is wanted: after it has ended, too.
#[derive(Debug, Clone)]
pub struct StatsReader(pub(super) Arc<Counters>);

impl StatsReader {
    /// What the server has done so far.
    pub fn stats(&self) -> ServerStats {
        self.0.snapshot()
    }
}

/// Counts something for as long as it lives.
pub(super) struct Active {
    counters: Arc<Counters>,
    of: fn(&Counters) -> &AtomicU64,
}

impl Active {
    pub(super) fn new(counters: &Arc<Counters>, of: fn(&Counters) -> &AtomicU64) -> Self {
        of(counters).fetch_add(1, Ordering::AcqRel);
        Self {
            counters: Arc::clone(counters),
            of,
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        (self.of)(&self.counters).fetch_sub(1, Ordering::AcqRel);
    }
}
