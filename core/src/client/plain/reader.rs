//! Reads one partition of a plain stream: what was asked for of the rows that come.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use tokio::time::Instant;

use super::as_they_come::Lanes;
use super::claims::Claim;
use super::in_order::InOrder;
use super::source::{Opened, Source};
use crate::client::pool::Patience;
use crate::client::reader::ReadMetrics;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::protocol::pass::Pass;
use crate::protocol::plan::Partition;
use crate::protocol::request::ScanRequest;

/// The rows of a partition. They end only once every connection has come to its end marker, or as many have come as the
/// limit says.
pub(in crate::client) struct PlainReader {
    source: Arc<Source>,
    options: Arc<Options>,
    partition: Partition,
    metrics: Arc<ReadMetrics>,
    reading: Option<Reading>,
    /// Rows that the limit leaves.
    left: Option<u64>,
}

struct Reading {
    opened: Arc<Opened>,
    patience: Patience,
    pass: Pass,
    rows: Rows,
    _claim: Claim,
}

enum Rows {
    InOrder(InOrder),
    AsTheyCome { lanes: Arc<Lanes>, reader: usize },
}

impl PlainReader {
    pub(in crate::client) fn new(
        source: Arc<Source>,
        options: Arc<Options>,
        partition: Partition,
        metrics: Arc<ReadMetrics>,
    ) -> Self {
        Self {
            left: partition.request.limit,
            source,
            options,
            partition,
            metrics,
            reading: None,
        }
    }

    fn begin(&self) -> Result<Reading> {
        let partition = &self.partition;
        let opened = self.source.opened_for(partition)?;
        let request = ScanRequest::from_proto(&partition.request, &Default::default())?;
        let share = self.source.share(&request, opened.lanes.len());
        let claim = opened
            .claims
            .begin(&opened.lanes, partition, share.partitions)?;
        let rows = if share.is_ordered {
            Rows::InOrder(InOrder::new(opened.lanes.take_all()))
        } else {
            Rows::AsTheyCome {
                lanes: Arc::clone(&opened.lanes),
                reader: partition.index,
            }
        };
        let started = partition.started.get_or_init(std::time::Instant::now);
        Ok(Reading {
            pass: Pass::try_new(Arc::clone(&opened.schema), &request)?,
            patience: Patience::from(&self.options, Instant::from_std(*started)),
            opened: Arc::clone(opened),
            rows,
            _claim: claim,
        })
    }

    /// The next rows that were asked for, or `None` at the verified end. No error is retryable: what was given would come
    /// again, or never.
    pub(in crate::client) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.next_rows().await;
        if !matches!(next, Ok(Some(_))) {
            // What else comes is of no use here.
            self.reading = None;
            self.left = Some(0);
        }
        next.map_err(|error| error.with_retryable(false))
    }

    async fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        while self.left != Some(0) {
            let reading = match self.reading.take() {
                Some(reading) => reading,
                None => self.begin()?,
            };
            let reading = self.reading.insert(reading);
            let rows = &mut reading.rows;
            let next = poll_fn(|context| match rows {
                Rows::InOrder(rows) => rows.poll_next(context),
                Rows::AsTheyCome { lanes, reader } => lanes.poll_next(*reader, context),
            });
            let received = &reading.opened.received;
            let Some(numbered) = reading.patience.while_received(received, next).await? else {
                return Ok(None);
            };
            self.metrics.frames.fetch_add(1, Ordering::Relaxed);
            self.metrics
                .bytes
                .fetch_add(numbered.bytes, Ordering::Relaxed);
            let batch = reading.pass.take(numbered.batch)?;
            let rows = batch.num_rows();
            if rows == 0 {
                continue;
            }
            let rows = self.left.map_or(rows, |left| {
                usize::try_from(left).unwrap_or(usize::MAX).min(rows)
            });
            self.left = self.left.map(|left| left.saturating_sub(rows as u64));
            self.metrics.rows.fetch_add(rows as u64, Ordering::Relaxed);
            // Cutting nothing off is not the same for every type of array.
            let is_whole = rows == batch.num_rows();
            return Ok(Some(if is_whole {
                batch
            } else {
                batch.slice(0, rows)
            }));
        }
        Ok(None)
    }
}

/// The partition is of a stream whose rows come elsewhere.
pub(super) fn not_here() -> Error {
    Error::unimplemented(
        "the partition is of a plain stream that another client holds, and its rows come there alone",
    )
}
