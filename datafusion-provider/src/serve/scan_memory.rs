//! A bound on the memory of a single scan, within what all of them share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// Bytes that one scan of a served session may hold to sort, join and group; what does not fit goes to disk, or the scan fails
/// with `resource_exhausted` and the others go on. It is an extension of the session's configuration:
///
/// ```
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use lightstream_datafusion::serve::ScanMemory;
/// let config = SessionConfig::new().with_extension(std::sync::Arc::new(ScanMemory(64 << 20)));
/// let context = SessionContext::new_with_config(config);
/// # let _ = context;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanMemory(pub usize);

/// One scan's share of a pool.
#[derive(Debug)]
pub(super) struct Share {
    pool: Arc<dyn MemoryPool>,
    limit: usize,
    used: AtomicUsize,
}

impl Share {
    pub(super) fn of(pool: &Arc<dyn MemoryPool>, ScanMemory(limit): ScanMemory) -> Self {
        Self {
            pool: Arc::clone(pool),
            limit,
            used: AtomicUsize::new(0),
        }
    }

    /// Takes bytes from the share; says what is left of it where that is not enough.
    fn take(&self, additional: usize) -> std::result::Result<(), usize> {
        let within = |used: usize| {
            used.checked_add(additional)
                .filter(|&used| used <= self.limit)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map(drop)
            .map_err(|used| self.limit.saturating_sub(used))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes for each scan of {}", self.limit, self.pool)
    }
}

impl MemoryPool for Share {
    fn name(&self) -> &str {
        "scan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.used.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.take(additional).map_err(|left| {
            resources_datafusion_err!(
                "{} wants {additional} more bytes, and the scan may take {left} more of its {}",
                reservation.consumer().name(),
                self.limit
            )
        })?;
        self.pool
            .try_grow(reservation, additional)
            .inspect_err(|_| {
                self.used.fetch_sub(additional, Ordering::Relaxed);
            })
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}
