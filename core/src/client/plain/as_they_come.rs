//! Connections whose batches may come in any order: every reader takes what is there on any of them.
//!
//! A writer shares its rows out over all connections, and waits where one is not read. So no connection may wait for a
//! reader of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use futures::StreamExt;

use super::numbers::Numbers;
use super::stream::{Batches, Numbered};
use crate::error::{Error, Result};

enum Lane {
    Open(Batches),
    /// It has been read to its verified end.
    Ended,
    Failed,
    /// Nobody wants its rest.
    Closed,
}

/// The connections of a source.
pub(super) struct Lanes {
    lanes: Vec<Mutex<Lane>>,
    numbers: Mutex<Numbers>,
    waiting: Arc<Waiting>,
}

impl Lanes {
    pub(super) fn new(connections: Vec<Batches>) -> Self {
        let lane = |batches| Mutex::new(Lane::Open(batches));
        Self {
            lanes: connections.into_iter().map(lane).collect(),
            numbers: Mutex::default(),
            waiting: Arc::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Takes the connections away, for one reader alone.
    pub(super) fn take_all(&self) -> Vec<Batches> {
        let taken =
            self.lanes.iter().map(
                |lane| match std::mem::replace(&mut *lock(lane), Lane::Closed) {
                    Lane::Open(batches) => Some(batches),
                    Lane::Ended | Lane::Failed | Lane::Closed => None,
                },
            );
        taken.flatten().collect()
    }

    /// The next batch for the reader of this number, or `None` once every connection has come to its verified end.
    pub(super) fn poll_next(
        &self,
        reader: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Numbered>>> {
        // First of all: what another reader finds on a connection that it holds just now is told to all that wait.
        self.waiting.add(reader, context.waker());
        let all = Waker::from(Arc::clone(&self.waiting));
        let mut for_all = Context::from_waker(&all);
        let mut ended = 0;
        // Readers begin with different connections, so that they seldom meet.
        let lanes = self
            .lanes
            .iter()
            .cycle()
            .skip(reader % self.lanes.len().max(1));
        for lane in lanes.take(self.lanes.len()) {
            let mut lane = match lane.try_lock() {
                Ok(lane) => lane,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            let batches = match &mut *lane {
                Lane::Open(batches) => batches,
                Lane::Ended => {
                    ended += 1;
                    continue;
                }
                Lane::Failed => return Poll::Ready(Err(failed_before())),
                Lane::Closed => return Poll::Ready(Err(closed_before())),
            };
            match batches.poll_next_unpin(&mut for_all) {
                Poll::Pending => continue,
                Poll::Ready(Some(Ok(batch))) => {
                    // While the connection is held, so that nobody finds it at its end before.
                    let added = lock(&self.numbers).add(batch.sequence);
                    drop(lane);
                    self.waiting.wake_others(reader);
                    added?;
                    return Poll::Ready(Ok(Some(batch)));
                }
                Poll::Ready(Some(Err(error))) => {
                    *lane = Lane::Failed;
                    drop(lane);
                    self.waiting.wake_others(reader);
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(None) => {
                    *lane = Lane::Ended;
                    ended += 1;
                }
            }
            drop(lane);
            self.waiting.wake_others(reader);
        }
        if ended < self.lanes.len() {
            return Poll::Pending;
        }
        lock(&self.numbers).check_end()?;
        Poll::Ready(Ok(None))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in them is sound after every statement, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed_before() -> Error {
    Error::data_loss("a connection of the same writer has failed, and its rows are missing")
}

fn closed_before() -> Error {
    Error::cancelled("the connections were closed: nobody wanted their rest")
}

/// The readers that wait for something to come.
#[derive(Default)]
struct Waiting(Mutex<Vec<(usize, Waker)>>);

impl Waiting {
    fn add(&self, reader: usize, waker: &Waker) {
        let mut waiting = lock(&self.0);
        match waiting.iter_mut().find(|(other, _)| *other == reader) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((reader, waker.clone())),
        }
    }

    fn wake_others(&self, reader: usize) {
        let others = lock(&self.0)
            .extract_if(.., |(other, _)| *other != reader)
            .collect::<Vec<_>>();
        others.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let all = std::mem::take(&mut *lock(&self.0));
        all.into_iter().for_each(|(_, waker)| waker.wake());
    }
}
