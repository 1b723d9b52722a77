//! Scans that were planned and may still be read.

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
}

#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<LeaseKey, Lease>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseKey, Lease>> {
        // The map is sound after every statement, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a scan for so long.
    pub(super) fn hold(&self, key: LeaseKey, scan: Arc<dyn Scan>, lifetime: Duration) {
        let now = Instant::now();
        let mut leases = self.lock();
        leases.retain(|_, lease| lease.ends > now);
        if leases.len() >= MOST_LEASES {
            let first = leases
                .iter()
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
        });
        lease.ends = ends;
        lease.plans += 1;
    }

    /// The scan, if it is still held.
    pub(super) fn find(&self, key: &LeaseKey) -> Option<Arc<dyn Scan>> {
        let mut leases = self.lock();
        if leases
            .get(key)
            .is_some_and(|lease| lease.ends <= Instant::now())
        {
            leases.remove(key);
        }
        leases.get(key).map(|lease| Arc::clone(&lease.scan))
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
