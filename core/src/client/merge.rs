//! Merges the stripes of a partition back into one order, in bounded memory.
//!
//! Each stripe is read by a task of its own, ahead of what is wanted but no further than its share of the bound. A stripe
//! that is slow holds up the order, and so the others once their shares are full; nothing is ever held back for good,
//! since the stripe whose turn it is has a share that only it uses.

use std::sync::Arc;

use arrow_array::RecordBatch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::Client;
use super::pool::unexpected;
use super::reader::ReadMetrics;
use super::stripe::{StripeEvent, StripeReader};
use crate::error::{Error, Result};
use crate::protocol::plan::Partition;

/// Bytes read ahead for each partition, all its connections together: enough to fill a network.
const PREFETCH_BYTES: u64 = 16 << 20;

/// The same on one machine, where what is read ahead had better stay in the caches.
const LOCAL_PREFETCH_BYTES: u64 = 4 << 20;

/// Messages in wait for each stripe; the bound on bytes is reached first unless they are tiny.
const MESSAGES: usize = 1024;

enum Message {
    Event(StripeEvent),
    /// Rows, with their share of the room, which is free again once they are given.
    Rows(
        RecordBatch,
        #[allow(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>,
    ),
    Failed(Error),
    End,
}

struct Lane {
    messages: mpsc::Receiver<Message>,
    /// Every wanted unit below this one has been given.
    done_below: u64,
    has_ended: bool,
    task: JoinHandle<()>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Merge {
    start: Option<(Client, Partition, Arc<ReadMetrics>, u32)>,
    lanes: Vec<Lane>,
    unit: u64,
    units: u64,
}

impl Merge {
    pub(super) fn new(
        client: &Client,
        partition: &Partition,
        metrics: &Arc<ReadMetrics>,
        streams: u32,
    ) -> Self {
        let start = (
            client.clone(),
            partition.clone(),
            Arc::clone(metrics),
            streams,
        );
        Self {
            start: Some(start),
            lanes: Vec::new(),
            unit: 0,
            units: partition.units,
        }
    }

    /// The next rows in order, or `None` once every stripe has come to its verified end.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some((client, partition, metrics, streams)) = self.start.take() {
            let by_default = if client.location().is_local() {
                LOCAL_PREFETCH_BYTES
            } else {
                PREFETCH_BYTES
            };
            let ahead = client.options().prefetch_bytes.unwrap_or(by_default) / u64::from(streams);
            self.lanes = (0..streams)
                .map(|stripe| {
                    let reader = StripeReader::new(
                        client.clone(),
                        partition.clone(),
                        Arc::clone(&metrics),
                        stripe,
                        streams,
                    );
                    Lane::start(reader, u32::try_from(ahead).unwrap_or(u32::MAX).max(1))
                })
                .collect();
        }
        let lanes = self.lanes.len() as u64;
        while self.unit < self.units {
            let Some(lane) = self.lanes.get_mut((self.unit % lanes) as usize) else {
                break;
            };
            if lane.done_below > self.unit {
                self.unit += 1;
                continue;
            }
            if let Some(batch) = lane.next().await? {
                return Ok(Some(batch));
            }
        }
        for lane in &mut self.lanes {
            while !lane.has_ended {
                if lane.next().await?.is_some() {
                    return Err(unexpected("rows after the last unit"));
                }
            }
        }
        Ok(None)
    }
}

impl Lane {
    fn start(mut reader: StripeReader, ahead_bytes: u32) -> Self {
        let (sender, messages) = mpsc::channel(MESSAGES);
        let room = Arc::new(Semaphore::new(ahead_bytes as usize));
        let task = tokio::spawn(async move {
            loop {
                let message = match reader.next().await {
                    Ok(Some(StripeEvent::Batch(batch))) => {
                        let bytes =
                            u32::try_from(batch.get_array_memory_size()).unwrap_or(u32::MAX);
                        // The room is closed by nobody, so a permit always comes.
                        let permit = Arc::clone(&room)
                            .acquire_many_owned(bytes.clamp(1, ahead_bytes))
                            .await
                            .ok();
                        Message::Rows(batch, permit)
                    }
                    Ok(Some(event)) => Message::Event(event),
                    Ok(None) => Message::End,
                    Err(error) => Message::Failed(error),
                };
                let is_last = matches!(message, Message::End | Message::Failed(_));
                // A merge that is gone wants nothing more.
                if sender.send(message).await.is_err() || is_last {
                    return;
                }
            }
        });
        Self {
            messages,
            done_below: 0,
            has_ended: false,
            task,
        }
    }

    /// The next rows of this stripe; `None` where something else has become known of it.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.messages.recv().await {
            Some(Message::Rows(batch, _) | Message::Event(StripeEvent::Batch(batch))) => {
                Ok(Some(batch))
            }
            Some(Message::Event(StripeEvent::DoneBelow(unit))) => {
                self.done_below = unit;
                Ok(None)
            }
            Some(Message::End) => {
                self.done_below = u64::MAX;
                self.has_ended = true;
                Ok(None)
            }
            Some(Message::Failed(error)) => Err(error),
            None => Err(Error::internal(
                "the task that reads a stripe ended without a word",
            )),
        }
    }
}
