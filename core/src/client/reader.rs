//! Reads one partition, over one connection or several.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::Stream;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::Client;
use super::in_flight::{Batches, Bounded};
use super::merge::Merge;
use super::plain::PlainReader;
use super::stripe::{StripeEvent, StripeReader};
use crate::error::Result;
use crate::protocol::plan::Partition;
use crate::protocol::request::table_of;

/// What a reader has received so far.
#[derive(Debug, Default)]
pub struct ReadMetrics {
    pub(super) bytes: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) frames: AtomicU64,
    pub(super) retries: AtomicU64,
}

impl ReadMetrics {
    /// Bytes of table payloads.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Rows given to the consumer.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Table payloads.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// How often reading was taken up again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }
}

/// The rows of one partition, as a stream of batches.
///
/// It ends without an error only once the server has said that all was sent and all of it has come. After an error it
/// gives nothing more. A connection that is lost is replaced as often as the options say, and reading goes on after the
/// last row that was given; no row comes twice. Dropping the reader cancels the read at the server.
///
/// With the option `memory_limit` it waits while the consumers in this process hold more.
pub struct PartitionReader {
    schema: SchemaRef,
    metrics: Arc<ReadMetrics>,
    batches: Bounded,
}

impl PartitionReader {
    pub(super) fn new(client: Client, partition: Partition, offset: u64) -> Self {
        let metrics = Arc::<ReadMetrics>::default();
        let schema = Arc::clone(&partition.schema);
        let table = table_of(&partition.request).to_owned();
        let index = partition.index as u64;
        let peer = client.location().to_string();
        let reading = ReadSpan::new(&table, index, &peer, &metrics);
        let memory_limit = client.options().memory_limit;
        let rows = Rows::new(client, partition, Arc::clone(&metrics), offset);
        let batches = futures::stream::try_unfold(rows, move |mut rows| {
            let (table, peer) = (table.clone(), peer.clone());
            let span = reading.span.clone();
            async move {
                match rows.next().instrument(span).await {
                    Ok(batch) => Ok(batch.map(|batch| (batch, rows))),
                    Err(error) => Err(error
                        .with_table(table)
                        .with_partition(index)
                        .with_peer(peer)),
                }
            }
        });
        Self {
            schema,
            metrics,
            batches: Bounded::new(Box::pin(batches), memory_limit),
        }
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What has been received so far.
    pub fn metrics(&self) -> Arc<ReadMetrics> {
        Arc::clone(&self.metrics)
    }

    /// What is made of the rows, where that takes memory of its own: the option `memory_limit` then counts this.
    pub fn through(self, work: impl FnOnce(Batches) -> Batches) -> Batches {
        self.batches.through(work)
    }

    /// The rows, for a reader that minds the option `memory_limit` itself.
    pub(super) fn unbounded(self) -> Batches {
        self.batches.unbounded()
    }
}

impl std::fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionReader")
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl Stream for PartitionReader {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next(context)
    }
}

/// The span of a read, which tells at its end what has come.
struct ReadSpan {
    span: Span,
    metrics: Arc<ReadMetrics>,
}

impl ReadSpan {
    fn new(table: &str, partition: u64, peer: &str, metrics: &Arc<ReadMetrics>) -> Self {
        Self {
            span: tracing::info_span!(
                "lightstream.read",
                table,
                partition = partition.cast_signed(),
                peer,
                rows = Empty,
                bytes = Empty,
                retries = Empty,
            ),
            metrics: Arc::clone(metrics),
        }
    }
}

impl Drop for ReadSpan {
    fn drop(&mut self) {
        // Signed, since OpenTelemetry has no other numbers.
        let metrics = &self.metrics;
        self.span.record("rows", metrics.rows().cast_signed());
        self.span.record("bytes", metrics.bytes().cast_signed());
        self.span.record("retries", metrics.retries().cast_signed());
    }
}

/// Where the rows come from.
enum Rows {
    /// They came with the plan.
    AtHand(std::vec::IntoIter<RecordBatch>),
    One(Box<StripeReader>),
    Several(Box<Merge>),
    Plain {
        reader: Box<PlainReader>,
        /// Rows at the beginning that are left out here: nobody else can.
        skip: u64,
    },
}

impl Rows {
    fn new(client: Client, partition: Partition, metrics: Arc<ReadMetrics>, offset: u64) -> Self {
        if let Some(batches) = &partition.rows_at_hand {
            let batches = after(batches, offset);
            let count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            metrics.rows.store(count, Ordering::Relaxed);
            return Rows::AtHand(batches.into_iter());
        }
        if let Some(source) = client.plain.clone() {
            let reader = Box::new(PlainReader::new(source, client.options, partition, metrics));
            return Rows::Plain {
                reader,
                skip: offset,
            };
        }
        if offset > 0 {
            let stripe = StripeReader::after(client, partition, metrics, offset);
            return Rows::One(Box::new(stripe));
        }
        match client.streams(&partition) {
            1 => Rows::One(Box::new(StripeReader::new(
                client, partition, metrics, 0, 1,
            ))),
            streams => {
                let merge = Merge::new(&client, &partition, &metrics, streams);
                Rows::Several(Box::new(merge))
            }
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Rows::AtHand(batches) => Ok(batches.next()),
            Rows::Several(merge) => merge.next().await,
            Rows::Plain { reader, skip } => loop {
                let Some(batch) = reader.next().await? else {
                    return Ok(None);
                };
                let rest = after(std::slice::from_ref(&batch), *skip);
                *skip = skip.saturating_sub(batch.num_rows() as u64);
                if let Some(batch) = rest.into_iter().next() {
                    return Ok(Some(batch));
                }
            },
            Rows::One(stripe) => loop {
                match stripe.next().await? {
                    Some(StripeEvent::Batch(batch)) => return Ok(Some(batch)),
                    Some(StripeEvent::DoneBelow(_)) => {}
                    None => return Ok(None),
                }
            },
        }
    }
}

/// The rows behind the first so many, without batches of none.
fn after(batches: &[RecordBatch], offset: u64) -> Vec<RecordBatch> {
    let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut rest = Vec::with_capacity(batches.len());
    for batch in batches {
        let skipped = skip.min(batch.num_rows());
        skip -= skipped;
        if skipped < batch.num_rows() {
            rest.push(batch.slice(skipped, batch.num_rows() - skipped));
        }
    }
    rest
}
