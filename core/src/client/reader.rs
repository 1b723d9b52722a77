//! Reads one partition: verified to its end, and taken up again where a connection was lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::Stream;
use futures::stream::BoxStream;

use super::Client;
use super::pool::{Connection, Patience, unexpected};
use crate::connection::Frame;
use crate::error::{Error, ErrorCode, Result};
use crate::protocol::ipc::Decoder;
use crate::protocol::messages::{self, request, response};
use crate::protocol::plan::Partition;
use crate::server::Units;

/// What a reader has received so far.
#[derive(Debug, Default)]
pub struct ReadMetrics {
    bytes: AtomicU64,
    rows: AtomicU64,
    frames: AtomicU64,
    retries: AtomicU64,
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
pub struct PartitionReader {
    schema: SchemaRef,
    metrics: Arc<ReadMetrics>,
    batches: BoxStream<'static, Result<RecordBatch>>,
}

impl PartitionReader {
    pub(super) fn new(client: Client, partition: Partition) -> Self {
        let metrics = Arc::<ReadMetrics>::default();
        let schema = Arc::clone(&partition.schema);
        let table = match &partition.request.source {
            Some(messages::scan_request::Source::Table(name)) => name.clone(),
            _ => "(query)".to_owned(),
        };
        let index = partition.index as u64;
        let peer = client.location().to_string();
        let state = Progress {
            patience: None,
            left: partition.request.limit,
            client,
            partition,
            metrics: Arc::clone(&metrics),
            open: None,
            next_unit: 0,
            unit_rows: 0,
            rows: 0,
            attempt: 0,
        };
        let batches = futures::stream::try_unfold(state, move |mut state| {
            let (table, peer) = (table.clone(), peer.clone());
            async move {
                match state.next().await {
                    Ok(Some(batch)) => Ok(Some((batch, state))),
                    Ok(None) => Ok(None),
                    Err(error) => Err(error.with_table(table).with_partition(index).with_peer(peer)),
                }
            }
        });
        Self { schema, metrics, batches: Box::pin(batches) }
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What has been received so far.
    pub fn metrics(&self) -> Arc<ReadMetrics> {
        Arc::clone(&self.metrics)
    }
}

impl std::fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionReader").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl Stream for PartitionReader {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.as_mut().poll_next(context)
    }
}

/// One answer to a Read, as far as it has come.
struct Open {
    connection: Connection,
    decoder: Decoder,
    /// A frame that came with the start of the answer.
    first: Option<Frame>,
    /// Rows of `next_unit` that were given before, and come again.
    skip: u64,
    from_unit: u64,
    received: messages::ReadEnd,
}

struct Progress {
    client: Client,
    partition: Partition,
    metrics: Arc<ReadMetrics>,
    patience: Option<Patience>,
    open: Option<Open>,
    /// The first unit that has not been given whole.
    next_unit: u64,
    /// Rows of that unit that have been given.
    unit_rows: u64,
    /// Rows given in all.
    rows: u64,
    /// Rows that the limit leaves.
    left: Option<u64>,
    attempt: u32,
}

enum Step {
    Batch(RecordBatch),
    Nothing,
    End,
}

impl Progress {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.left == Some(0) {
            // The rest of the answer is of no use; on a connection that is dropped it is not sent.
            return self.finish().await;
        }
        loop {
            match self.step().await {
                Ok(Step::Batch(batch)) => {
                    self.attempt = 0;
                    return Ok(Some(batch));
                }
                Ok(Step::Nothing) => {}
                Ok(Step::End) => return Ok(None),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// After the last row that is wanted: the end message is on its way unless this read began anew.
    async fn finish(&mut self) -> Result<Option<RecordBatch>> {
        while self.open.as_ref().is_some_and(|open| open.from_unit == 0 && open.skip == 0) {
            match self.step().await? {
                Step::End => return Ok(None),
                Step::Nothing => {}
                Step::Batch(_) => return Err(unexpected("rows beyond the limit")),
            }
        }
        Ok(None)
    }

    /// Makes ready for another attempt, or gives the error back where there can be none.
    async fn recover(&mut self, error: Error) -> Result<()> {
        self.open = None;
        let is_forgotten = self.attempt > 0 && matches!(error.code(), ErrorCode::Expired | ErrorCode::PermissionDenied);
        let can_go_on = self.partition.resumable || self.rows == 0;
        if !(error.is_retryable() || is_forgotten) || self.attempt >= self.client.retries() {
            return Err(error);
        }
        if !can_go_on {
            return Err(error.context(format!(
                "{} rows were given already, and this source cannot be read from the middle",
                self.rows
            )));
        }
        tracing::debug!(%error, attempt = self.attempt, unit = self.next_unit, "reading on after an error");
        self.metrics.retries.fetch_add(1, Ordering::Relaxed);
        let patience = self.patience();
        patience.wait(self.client.back_off(self.attempt)).await?;
        self.attempt += 1;
        if is_forgotten {
            // A server that was restarted has another key, yet may well have the snapshot.
            self.partition = self.client.plan_again(&self.partition).await?;
        }
        Ok(())
    }

    /// The time limit runs from the first poll.
    fn patience(&mut self) -> Patience {
        let options = self.client.options();
        *self.patience.get_or_insert_with(|| Patience::from_now(options))
    }

    async fn open(&mut self, patience: &Patience) -> Result<Open> {
        let options = self.client.options();
        let read = messages::Read {
            ticket: self.partition.ticket.clone(),
            request: Some((*self.partition.request).clone()),
            stripe: 0,
            stripes: 1,
            from_unit: self.next_unit,
            max_frame_bytes: options.max_frame_bytes.unwrap_or(0),
            batch_rows: options.batch_rows.unwrap_or(0),
        };
        let (connection, first) = self.client.pool.ask(request::Kind::Read(read), patience).await?;
        Ok(Open {
            connection,
            decoder: Decoder::new(self.client.pool.limits().clone()),
            first: Some(first),
            skip: self.unit_rows,
            from_unit: self.next_unit,
            received: messages::ReadEnd::default(),
        })
    }

    async fn step(&mut self) -> Result<Step> {
        let patience = self.patience();
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let open = self.open(&patience).await?;
                self.open.insert(open)
            }
        };
        let frame = match open.first.take() {
            Some(frame) => frame,
            None => open.connection.receive(&patience).await.map_err(|error| match error.code() {
                ErrorCode::Unavailable => {
                    Error::data_loss("the stream ended before its end message").with_retryable(true).with_source(error)
                }
                _ => error,
            })?,
        };
        match frame {
            Frame::Batch(payload) => {
                open.received.bytes += payload.len() as u64;
                self.metrics.bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
                self.metrics.frames.fetch_add(1, Ordering::Relaxed);
                let batch = open.decoder.decode(payload).map_err(|error| error.with_unit(self.next_unit))?;
                open.received.rows += batch.num_rows() as u64;
                open.received.batches += u64::from(batch.num_rows() > 0);
                self.check_schema(&batch)?;
                Ok(self.take_rows(batch).map_or(Step::Nothing, Step::Batch))
            }
            Frame::Response(messages::Response { kind: Some(response::Kind::UnitEnd(end)) }) => {
                if end.unit < self.next_unit || end.unit >= self.partition.units {
                    return Err(unexpected("the end of a unit that was not being read"));
                }
                if open.skip > 0 {
                    return Err(Error::data_loss(format!("{} rows that were there before are gone", open.skip))
                        .with_unit(self.next_unit));
                }
                self.next_unit = end.unit + 1;
                self.unit_rows = 0;
                Ok(Step::Nothing)
            }
            Frame::Response(messages::Response { kind: Some(response::Kind::ReadEnd(end)) }) => self.end(&end),
            _ => Err(unexpected("an unknown frame in a stream of rows")),
        }
    }

    /// The rows of a batch that are new and wanted.
    fn take_rows(&mut self, batch: RecordBatch) -> Option<RecordBatch> {
        let mut batch = batch;
        if let Some(open) = &mut self.open {
            let skipped = open.skip.min(batch.num_rows() as u64);
            if skipped > 0 {
                open.skip -= skipped;
                let from = skipped as usize;
                batch = batch.slice(from, batch.num_rows() - from);
            }
        }
        if let Some(left) = self.left {
            if batch.num_rows() as u64 > left {
                batch = batch.slice(0, left as usize);
            }
        }
        let rows = batch.num_rows() as u64;
        self.left = self.left.map(|left| left - rows);
        self.unit_rows += rows;
        self.rows += rows;
        self.metrics.rows.fetch_add(rows, Ordering::Relaxed);
        Some(batch).filter(|_| rows > 0)
    }

    fn check_schema(&self, batch: &RecordBatch) -> Result<()> {
        if batch.schema_ref() == &self.partition.schema {
            return Ok(());
        }
        Err(Error::data_loss(format!(
            "the stream has another schema than the plan: {} instead of {}",
            batch.schema_ref(),
            self.partition.schema
        )))
    }

    /// The server says that it is done: what it says it sent must have come.
    fn end(&mut self, end: &messages::ReadEnd) -> Result<Step> {
        let Some(open) = self.open.take() else { return Err(unexpected("an end without a beginning")) };
        let units = Units { from: open.from_unit, ..Units::ALL };
        let wanted = units.within(self.partition.units).count() as u64;
        let received = messages::ReadEnd { units: end.units, limit_reached: end.limit_reached, ..open.received };
        if received != *end {
            return Err(Error::data_loss(format!(
                "{} rows in {} batches of {} bytes have come where {} rows in {} batches of {} bytes were sent",
                received.rows, received.batches, received.bytes, end.rows, end.batches, end.bytes
            )));
        }
        let is_whole = end.units == wanted && self.next_unit == self.partition.units && !end.limit_reached;
        let is_enough = end.limit_reached && self.left == Some(0);
        if !is_whole && !is_enough {
            return Err(Error::data_loss(format!(
                "the server ended after {} of {wanted} units",
                end.units
            )));
        }
        self.client.pool.give_back(open.connection);
        Ok(Step::End)
    }
}
