//! Scans that were planned and may still be read: each is held for a time after its plan was made or last read, and for as
//! long as it is being read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::table::Scan;

/// More scans than this are not held: those that would end first go first.
const MOST_LEASES: usize = 4096;

/// Which scan: the digest of its request and its snapshot.
pub(super) type LeaseKey = ([u8; 32], String);

struct Lease {
    scan: Arc<dyn Scan>,
    ends: Instant,
    /// How many plans hold it; each may be released once.
    plans: usize,
    /// How many reads of it are under way.
    reads: usize,
}

impl Lease {
    fn is_over(&self, now: Instant) -> bool {
        self.reads == 0 && self.ends <= now
    }
}

#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<LeaseKey, Lease>>);

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases")
            .field("count", &self.count())
            .finish()
    }
}

/// A read that is under way, until dropped.
pub(super) struct Reading {
    leases: Arc<Leases>,
    key: LeaseKey,
    lifetime: Duration,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(lease) = self.leases.lock().get_mut(&self.key) {
            // It may have been released and planned again meanwhile.
            lease.reads = lease.reads.saturating_sub(1);
            lease.ends = Instant::now() + self.lifetime;
        }
    }
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseKey, Lease>> {
        // The map is sound after every statement, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a scan for so long.
    pub(super) fn hold(&self, key: LeaseKey, scan: Arc<dyn Scan>, lifetime: Duration) {
        let now = Instant::now();
        let mut leases = self.lock();
        leases.retain(|_, lease| !lease.is_over(now));
        if leases.len() >= MOST_LEASES && !leases.contains_key(&key) {
            let first = leases
                .iter()
                .filter(|(_, lease)| lease.reads == 0)
                .min_by_key(|(_, lease)| lease.ends)
                .map(|(key, _)| key.clone());
            if let Some(first) = first {
                leases.remove(&first);
            }
        }
        let ends = now + lifetime;
        let lease = leases.entry(key).or_insert(Lease {
            scan,
            ends,
            plans: 0,
            reads: 0,
        });
        lease.ends = ends;
        lease.plans += 1;
    }

    /// The scan, if it is still held.
    pub(super) fn find(&self, key: &LeaseKey) -> Option<Arc<dyn Scan>> {
        let mut leases = self.lock();
        let now = Instant::now();
        if leases.get(key).is_some_and(|lease| lease.is_over(now)) {
            leases.remove(key);
        }
        leases.get(key).map(|lease| Arc::clone(&lease.scan))
    }

    /// Holds a scan while it is read, and so long after.
    pub(super) fn read(self: &Arc<Self>, key: LeaseKey, lifetime: Duration) -> Reading {
        if let Some(lease) = self.lock().get_mut(&key) {
            lease.reads += 1;
        }
        Reading {
            leases: Arc::clone(self),
            key,
            lifetime,
        }
    }

    /// How many scans are held.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Lets go of what nobody has asked for in time.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.lock().retain(|_, lease| !lease.is_over(now));
    }

    /// Holds a scan for so long from now.
    pub(super) fn renew(&self, key: &LeaseKey, lifetime: Duration) {
        if let Some(lease) = self.lock().get_mut(key) {
            lease.ends = Instant::now() + lifetime;
        }
    }

    /// Lets go of a scan for one of the plans that hold it; what is reading it goes on.
    pub(super) fn release(&self, key: &LeaseKey) {
        let mut leases = self.lock();
        if let Some(lease) = leases.get_mut(key) {
            lease.plans -= 1;
            if lease.plans == 0 {
                leases.remove(key);
            }
        }
    }
}
