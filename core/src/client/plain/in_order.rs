//! Connections whose batches are one order: that of their numbers, or of a single connection.

use std::task::{Context, Poll};

use futures::StreamExt;

use super::numbers::{Numbering, missing, repeated};
use super::stream::{Batches, Numbered};
use crate::error::{Error, Result};
use crate::protocol::ipc::SEQUENCE_KEY;

/// One connection, and its next batch as soon as that has come.
struct Lane {
    batches: Batches,
    head: Option<Numbered>,
}

/// Each connection gives its own batches in ascending order, so the next one of all stands at the head of some connection,
/// and no more than one of each is ever held.
pub(super) struct InOrder {
    lanes: Vec<Lane>,
    next: u64,
    numbering: Numbering,
    /// Without numbers there is an order only on one connection.
    is_alone: bool,
}

impl InOrder {
    pub(super) fn new(connections: Vec<Batches>) -> Self {
        Self {
            is_alone: connections.len() == 1,
            lanes: connections
                .into_iter()
                .map(|batches| Lane {
                    batches,
                    head: None,
                })
                .collect(),
            next: 0,
            numbering: Numbering::default(),
        }
    }

    /// The next batch, or `None` once every connection has come to its verified end.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Numbered>>> {
        let mut is_waiting = false;
        let mut at = 0;
        while let Some(lane) = self.lanes.get_mut(at) {
            if lane.head.is_none() {
                match lane.batches.poll_next_unpin(context)? {
                    Poll::Pending => is_waiting = true,
                    Poll::Ready(None) => {
                        self.lanes.remove(at);
                        continue;
                    }
                    Poll::Ready(Some(batch)) => {
                        self.numbering.add(batch.sequence)?;
                        match batch.sequence {
                            None if !self.is_alone => return Poll::Ready(Err(no_order())),
                            Some(number) if number < self.next => {
                                return Poll::Ready(Err(repeated(number)));
                            }
                            _ => lane.head = Some(batch),
                        }
                    }
                }
            }
            let next = self.next;
            let is_next = |batch: &mut Numbered| batch.sequence.is_none_or(|number| number == next);
            if let Some(batch) = lane.head.take_if(is_next) {
                self.next += u64::from(batch.sequence.is_some());
                return Poll::Ready(Ok(Some(batch)));
            }
            at += 1;
        }
        if is_waiting {
            Poll::Pending
        } else if self.lanes.is_empty() {
            Poll::Ready(Ok(None))
        } else {
            Poll::Ready(Err(missing(self.next)))
        }
    }
}

fn no_order() -> Error {
    Error::invalid_argument(format!(
        "the batches that come over several connections have no numbers ({SEQUENCE_KEY}), and so no order: say \
         ordered=false to take them as they come"
    ))
}
