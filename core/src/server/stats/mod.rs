//! What a server has done so far.

mod histogram;
mod requests;
mod scans;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

use self::histogram::Histogram;
use self::requests::Requests;
use self::scans::Scans;
use super::leases::Leases;
use super::limits::Turns;
use crate::protocol::messages;

pub use self::histogram::Durations;
pub(super) use self::requests::Outcome;
pub use self::requests::Outcomes;
pub(super) use self::scans::ScanMeter;
pub use self::scans::TableStats;

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
    refusals: Mutex<BTreeMap<&'static str, u64>>,
    requests: Requests,
    scans_by_table: Scans,
    first_frames: Histogram,
    scan_times: Histogram,
    login_pauses: AtomicU64,
    login_pause_micros: AtomicU64,
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

/// More of what a server has done since it started, and what it is at, for those who watch over it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerMetrics {
    /// The totals.
    pub stats: ServerStats,
    /// Scans that wait for their turn now.
    pub queued_scans: u64,
    /// Planned scans that are held, with their snapshots: until they are released, or nobody has read them for as long as
    /// tickets are good.
    pub held_plans: u64,
    /// Whether it accepts no more connections and ends once what is under way is done.
    pub is_draining: bool,
    /// Connections that were not served, by the reason: `busy`, `not_secure` (one without TLS where there is TLS only) or
    /// `handshake` (TLS was not agreed on, or not in time).
    pub refused_connections: Vec<(&'static str, u64)>,
    /// How requests ended, by what was asked for: `hello`, `plan`, `read` and so on.
    pub requests: Vec<(&'static str, Outcomes)>,
    /// What scans came to, by table. Queries are counted as `(query)`; scans that failed before their table was found as
    /// `(unknown)`, and those of tables beyond the first thousand as `(other)`.
    pub tables: Vec<(String, TableStats)>,
    /// From a request for rows until the first of them had gone out.
    pub first_frame: Durations,
    /// From a request for rows until its end, however it ended.
    pub scan: Durations,
    /// How often the answer to wrong credentials was held back.
    pub login_pauses: u64,
    /// For how long, all of them together.
    pub login_pause: Duration,
}

impl Counters {
    /// Counts a request that has ended.
    pub(super) fn count_request(&self, request: &'static str, outcome: Outcome) {
        if let Outcome::Failed(_) = outcome {
            self.errors.fetch_add(1, Ordering::AcqRel);
        }
        self.requests.count(request, outcome);
    }

    /// Counts a connection that is not served.
    pub(super) fn count_refusal(&self, reason: &'static str) {
        // Plain numbers, sound after every statement.
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        *refusals.entry(reason).or_default() += 1;
    }

    /// Counts an answer that is held back for so long.
    pub(super) fn count_pause(&self, pause: Duration) {
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.login_pauses.fetch_add(1, Ordering::AcqRel);
        self.login_pause_micros.fetch_add(micros, Ordering::AcqRel);
    }

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
pub struct StatsReader {
    pub(super) counters: Arc<Counters>,
    pub(super) turns: Arc<Turns>,
    /// Not kept alive: what is held here may be large.
    pub(super) leases: Weak<Leases>,
    pub(super) draining: watch::Receiver<bool>,
}

impl StatsReader {
    /// What the server has done so far.
    pub fn stats(&self) -> ServerStats {
        self.counters.snapshot()
    }

    /// The same in more detail, and what it is at now. The numbers of a scan are there before the scan ends; those of how
    /// it ended, just after.
    pub fn metrics(&self) -> ServerMetrics {
        let counters = &self.counters;
        let refusals = counters
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        ServerMetrics {
            stats: counters.snapshot(),
            queued_scans: self.turns.waiting() as u64,
            held_plans: self
                .leases
                .upgrade()
                .map_or(0, |leases| leases.count() as u64),
            is_draining: self.is_draining(),
            refused_connections: refusals.into_iter().collect(),
            requests: counters.requests.snapshot(),
            tables: counters.scans_by_table.snapshot(),
            first_frame: counters.first_frames.snapshot(),
            scan: counters.scan_times.snapshot(),
            login_pauses: counters.login_pauses.load(Ordering::Acquire),
            login_pause: Duration::from_micros(counters.login_pause_micros.load(Ordering::Acquire)),
        }
    }

    /// Whether the server accepts no more connections.
    pub fn is_draining(&self) -> bool {
        // Without a sender the server is gone.
        *self.draining.borrow() || self.draining.has_changed().is_err()
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
