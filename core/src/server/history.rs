//! The newest state of a table, and earlier ones for as long as a scan reads them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::batches::{BatchSource, TableState};
use crate::error::{Error, Result};

pub(super) struct History<S>(Mutex<States<S>>);

struct States<S> {
    newest: Arc<TableState<S>>,
    earlier: Vec<Weak<TableState<S>>>,
}

impl<S: BatchSource> History<S> {
    pub(super) fn new(state: TableState<S>) -> Self {
        Self(Mutex::new(States {
            newest: Arc::new(state),
            earlier: Vec::new(),
        }))
    }

    /// Puts a newer state in place where `next` makes one of the newest.
    pub(super) fn advance(
        &self,
        next: impl FnOnce(&TableState<S>) -> Result<Option<TableState<S>>>,
    ) -> Result<()> {
        // `States` is sound after every statement, so a panic elsewhere does not spoil it.
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = next(&states.newest)? {
            states.earlier.retain(|state| state.strong_count() > 0);
            let last = std::mem::replace(&mut states.newest, Arc::new(next));
            states.earlier.push(Arc::downgrade(&last));
        }
        Ok(())
    }

    /// The state of that snapshot, or the newest.
    ///
    /// # Errors
    /// `expired` where no scan holds the snapshot any more.
    pub(super) fn at(&self, snapshot: Option<&str>) -> Result<Arc<TableState<S>>> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = &states.newest;
        match snapshot {
            Some(snapshot) if snapshot != newest.snapshot() => {
                let held = states
                    .earlier
                    .iter()
                    .filter_map(Weak::upgrade)
                    .find(|state| state.snapshot() == snapshot);
                held.ok_or_else(|| {
                    Error::expired(format!(
                        "snapshot {snapshot:?} is no longer held; the newest is {:?}",
                        newest.snapshot()
                    ))
                })
            }
            _ => Ok(Arc::clone(newest)),
        }
    }
}
