//! Merges the stripes of a partition back into one order, in bounded memory.
//!
//! The stripe whose turn it is comes first. Only while it has nothing are the others read, each no further ahead than its
//! share of the bound; what lies beyond waits in the system's own buffers. All of it runs in the task of whoever wants the
//! rows: batches are used by the core that received them, while they are in its caches.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;

use super::Client;
use super::pool::unexpected;
use super::reader::ReadMetrics;
use super::stripe::{StripeEvent, StripeReader};
use crate::error::Result;
use crate::protocol::plan::Partition;

/// Bytes read ahead for each partition, all its connections together: enough to fill a network.
const PREFETCH_BYTES: u64 = 16 << 20;

/// The same on one machine, where what is read ahead had better stay in the caches.
const LOCAL_PREFETCH_BYTES: u64 = 4 << 20;

struct Lane {
    events: BoxStream<'static, Result<StripeEvent>>,
    /// What was read before its turn.
    ahead: VecDeque<StripeEvent>,
    ahead_bytes: u64,
    /// Every wanted unit below this one has been given.
    done_below: u64,
    has_ended: bool,
}

pub(super) struct Merge {
    lanes: Vec<Lane>,
    unit: u64,
    units: u64,
    /// How many bytes of each lane are read ahead.
    most_ahead: u64,
}

impl Merge {
    pub(super) fn new(
        client: &Client,
        partition: &Partition,
        metrics: &Arc<ReadMetrics>,
        streams: u32,
    ) -> Self {
        let by_default = if client.is_local(partition) {
            LOCAL_PREFETCH_BYTES
        } else {
            PREFETCH_BYTES
        };
        let ahead = client.options().prefetch_bytes.unwrap_or(by_default);
        let lane = |stripe| {
            let (client, partition) = (client.clone(), partition.clone());
            Lane::new(StripeReader::new(
                client,
                partition,
                Arc::clone(metrics),
                stripe,
                streams,
            ))
        };
        Self {
            lanes: (0..streams).map(lane).collect(),
            unit: 0,
            units: partition.units,
            most_ahead: ahead / u64::from(streams),
        }
    }

    /// The next rows in order, or `None` once every stripe has come to its verified end.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        let lanes = self.lanes.len();
        while self.unit < self.units {
            let turn = (self.unit % lanes as u64) as usize;
            let Some(lane) = self.lanes.get_mut(turn) else {
                break;
            };
            if lane.done_below > self.unit {
                self.unit += 1;
                continue;
            }
            match lane.poll_next(context)? {
                Poll::Ready(Some(batch)) => return Poll::Ready(Ok(Some(batch))),
                Poll::Ready(None) => {}
                Poll::Pending => {
                    for step in 1..lanes {
                        if let Some(lane) = self.lanes.get_mut((turn + step) % lanes) {
                            lane.read_ahead(context, self.most_ahead)?;
                        }
                    }
                    return Poll::Pending;
                }
            }
        }
        for lane in &mut self.lanes {
            while !lane.is_done() {
                if std::task::ready!(lane.poll_next(context)?).is_some() {
                    return Poll::Ready(Err(unexpected("rows after the last unit")));
                }
            }
        }
        Poll::Ready(Ok(None))
    }
}

fn bytes_of(event: &StripeEvent) -> u64 {
    match event {
        StripeEvent::Batch(batch) => batch.get_array_memory_size() as u64,
        StripeEvent::DoneBelow(_) => 0,
    }
}

impl Lane {
    fn new(reader: StripeReader) -> Self {
        let events = futures::stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|event| (event, reader)))
        });
        Self {
            events: events.boxed(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            done_below: 0,
            has_ended: false,
        }
    }

    fn is_done(&self) -> bool {
        self.has_ended && self.ahead.is_empty()
    }

    /// The next rows of this stripe; `None` where something else has become known of it.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        let event = match self.ahead.pop_front() {
            Some(event) => {
                self.ahead_bytes -= bytes_of(&event);
                Some(event)
            }
            None if self.has_ended => None,
            None => std::task::ready!(self.events.poll_next_unpin(context)).transpose()?,
        };
        Poll::Ready(Ok(match event {
            Some(StripeEvent::Batch(batch)) => Some(batch),
            Some(StripeEvent::DoneBelow(unit)) => {
                self.done_below = unit;
                None
            }
            None => {
                self.done_below = u64::MAX;
                self.has_ended = true;
                None
            }
        }))
    }

    /// Reads what has come, up to the bound.
    fn read_ahead(&mut self, context: &mut Context<'_>, most_bytes: u64) -> Result<()> {
        while !self.has_ended && self.ahead_bytes < most_bytes {
            match self.events.poll_next_unpin(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.has_ended = true,
                Poll::Ready(Some(event)) => {
                    let event = event?;
                    self.ahead_bytes += bytes_of(&event);
                    self.ahead.push_back(event);
                }
            }
        }
        Ok(())
    }
}
