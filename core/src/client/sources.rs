//! Which server a partition is read from next, where several have it.

use std::sync::Arc;

use tokio::time::Instant;

use super::pool::{Patience, Pool};
use super::retry::Retry;
use crate::error::{Error, Result};

struct Source {
    pool: Arc<Pool>,
    /// How often it failed since something last came of a read.
    failures: u32,
    /// It is not asked again before.
    rests_until: Instant,
    /// It does not take the partition's ticket.
    refuses: bool,
}

/// The servers that have a partition, best first. Each has its own pauses: one that has not failed is asked at once, and the
/// first is gone back to when it has rested.
pub(super) struct Sources {
    all: Vec<Source>,
    current: usize,
}

impl Sources {
    pub(super) fn new(pools: Vec<Arc<Pool>>) -> Self {
        let now = Instant::now();
        let source = |pool| Source {
            pool,
            failures: 0,
            rests_until: now,
            refuses: false,
        };
        Self {
            all: pools.into_iter().map(source).collect(),
            current: 0,
        }
    }

    /// The server that is read from; there is none only where none was given.
    pub(super) fn current(&self) -> Option<&Arc<Pool>> {
        self.all.get(self.current).map(|source| &source.pool)
    }

    /// Something has come of a read.
    pub(super) fn moved_on(&mut self) {
        for source in &mut self.all {
            source.failures = 0;
        }
    }

    /// The server that is read from has failed.
    pub(super) fn failed(&mut self, error: &Error, retry: &Retry) {
        if let Some(source) = self.all.get_mut(self.current) {
            source.failures += 1;
            source.rests_until = Instant::now() + retry.pause(source.failures, error);
        }
    }

    /// The server that is read from does not take the ticket. Whether there is another that may.
    pub(super) fn refused(&mut self) -> bool {
        if let Some(source) = self.all.get_mut(self.current) {
            source.refuses = true;
        }
        self.all.iter().any(|source| !source.refuses)
    }

    /// Chooses the server to ask next, and waits until it may be asked.
    ///
    /// # Errors
    /// As [`Retry::wait_until`].
    pub(super) async fn choose(&mut self, retry: &Retry, patience: &Patience) -> Result<()> {
        let now = Instant::now();
        let best = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, source)| !source.refuses)
            .min_by_key(|(_, source)| (source.pool.is_away(), source.rests_until.max(now)));
        if let Some((index, source)) = best {
            retry.wait_until(source.rests_until, patience).await?;
            self.current = index;
        }
        Ok(())
    }
}
