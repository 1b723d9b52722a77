//! The rows of some partitions, one after the other, as DataFusion polls them.
//!
//! Does no I/O of its own and needs no runtime: the client's readers bring theirs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_plan::RecordBatchStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use futures::{Stream, StreamExt};
use lightstream_core::client::PartitionReader;
use lightstream_core::protocol::plan::Partition;
use lightstream_core::{Client, Error};

use crate::convert::{error, schema};

/// The partitions that are still to be read.
type Pending = Box<dyn Iterator<Item = Partition> + Send>;

/// Reads partitions in order. Dropping it ends the read that is under way.
pub(crate) struct ScanStream {
    client: Client,
    table: String,
    schema: SchemaRef,
    pending: Pending,
    reader: Option<PartitionReader>,
    /// Rows that may still be handed on; `None` for all.
    remaining: Option<usize>,
    metrics: ScanMetrics,
}

impl ScanStream {
    pub(crate) fn new(
        client: Client,
        table: String,
        schema: SchemaRef,
        pending: Pending,
        fetch: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Self {
        Self {
            client,
            table,
            schema,
            pending,
            reader: None,
            remaining: fetch,
            metrics: ScanMetrics::new(metrics, partition),
        }
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if self.remaining == Some(0) {
                self.end();
                return Poll::Ready(None);
            }
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => match self.pending.next() {
                    Some(partition) => {
                        self.metrics.started.get_or_insert_with(Instant::now);
                        self.reader.insert(self.client.read(&partition))
                    }
                    None => return Poll::Ready(None),
                },
            };
            let polled = reader.poll_next_unpin(cx);
            self.metrics.count(reader);
            match ready!(polled) {
                None => self.end_partition(),
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => return Poll::Ready(Some(self.accept(batch))),
                Some(Err(failure)) => {
                    self.end();
                    return Poll::Ready(Some(Err(error::of_table(
                        &self.client,
                        &self.table,
                        failure,
                    ))));
                }
            }
        }
    }

    /// The batch as it is handed on: as planned, and no longer than what is still wanted.
    fn accept(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        self.metrics.first_batch();
        let received = batch.schema_ref();
        if !Arc::ptr_eq(received, &self.schema)
            && let Some(difference) = schema::difference(&self.schema, received)
        {
            self.end();
            let failure = Error::data_loss(format!(
                "rows came with a schema other than planned:{difference}"
            ));
            return Err(error::of_table(&self.client, &self.table, failure));
        }
        let Some(remaining) = &mut self.remaining else {
            return Ok(batch);
        };
        let wanted = batch.num_rows().min(*remaining);
        *remaining -= wanted;
        Ok(if wanted < batch.num_rows() {
            batch.slice(0, wanted)
        } else {
            batch
        })
    }

    fn end_partition(&mut self) {
        self.reader = None;
        self.metrics.seen = (0, 0);
    }

    fn end(&mut self) {
        self.end_partition();
        self.pending = Box::new(std::iter::empty());
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        // Polling never waits, so the time spent in it is work.
        let elapsed = this.metrics.baseline.elapsed_compute().clone();
        let timer = elapsed.timer();
        let polled = this.poll_batch(cx);
        timer.done();
        this.metrics.baseline.record_poll(polled)
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct ScanMetrics {
    baseline: BaselineMetrics,
    bytes_received: Count,
    frames: Count,
    time_to_first_batch: Time,
    /// When the first read began; taken when its first batch is there.
    started: Option<Instant>,
    has_first_batch: bool,
    /// Bytes and frames of the present reader that are counted already.
    seen: (u64, u64),
}

impl ScanMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            bytes_received: MetricBuilder::new(metrics).counter("bytes_received", partition),
            frames: MetricBuilder::new(metrics).counter("frames", partition),
            time_to_first_batch: MetricBuilder::new(metrics)
                .subset_time("time_to_first_batch", partition),
            started: None,
            has_first_batch: false,
            seen: (0, 0),
        }
    }

    /// Adds what the reader has received since it was last looked at.
    fn count(&mut self, reader: &PartitionReader) {
        let read = reader.metrics();
        let now = (read.bytes(), read.frames());
        let grown =
            |now: u64, seen: u64| usize::try_from(now.saturating_sub(seen)).unwrap_or(usize::MAX);
        self.bytes_received.add(grown(now.0, self.seen.0));
        self.frames.add(grown(now.1, self.seen.1));
        self.seen = now;
    }

    fn first_batch(&mut self) {
        if let (false, Some(started)) = (self.has_first_batch, self.started) {
            self.has_first_batch = true;
            self.time_to_first_batch.add_elapsed(started);
        }
    }
}
