//! Descriptions of tables at a snapshot, which never change and so need not be asked for twice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::table::TableInfo;

/// The oldest make room beyond this many.
const MOST: usize = 64;

#[derive(Default)]
pub(super) struct Described(Mutex<VecDeque<Arc<TableInfo>>>);

impl Described {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<TableInfo>>> {
        // The list is sound after every statement, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a table at a snapshot.
    pub(super) fn find(&self, table: &str, snapshot: &str) -> Option<TableInfo> {
        let known = self.lock();
        let found = known
            .iter()
            .find(|info| info.name == table && info.snapshot.as_deref() == Some(snapshot));
        found.map(|info| info.as_ref().clone())
    }

    /// Keeps a description. One of no snapshot may be another the next time, and is not kept.
    pub(super) fn keep(&self, info: &TableInfo) {
        let Some(snapshot) = info.snapshot.as_deref() else {
            return;
        };
        if self.find(&info.name, snapshot).is_some() {
            return;
        }
        let mut known = self.lock();
        known.truncate(MOST - 1);
        known.push_front(Arc::new(info.clone()));
    }
}
