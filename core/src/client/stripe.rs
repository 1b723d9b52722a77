//! Reads one stripe of a partition over one connection: verified to its end, and taken up again where the connection was
//! lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;

use super::Client;
use super::pool::{Connection, Patience, Pool, Received, ended_early, unexpected};
use super::reader::ReadMetrics;
use super::retry::Retry;
use super::sources::Sources;
use crate::connection::Frame;
use crate::error::{Error, ErrorCode, Result};
use crate::protocol::ipc::Decoder;
use crate::protocol::messages::{self, request, response};
use crate::protocol::plan::Partition;
use crate::protocol::units::Units;

/// One answer to a Read, as far as it has come.
struct Open {
    pool: Arc<Pool>,
    connection: Connection,
    decoder: Decoder,
    /// A frame that came with the start of the answer.
    first: Option<Frame>,
    /// Rows of `next_unit` that were given before, and come again.
    skip: u64,
    /// Rows that the server was asked to leave out.
    skip_rows: u64,
    from_unit: u64,
    received: Received,
}

/// What comes of a stripe.
pub(super) enum StripeEvent {
    /// Rows of the first wanted unit that is not done.
    Batch(RecordBatch),
    /// Every wanted unit below this one is done.
    DoneBelow(u64),
}

/// The wanted units of a partition, in order. It ends only once all of them have come, or as many rows as the limit says.
pub(super) struct StripeReader {
    client: Client,
    partition: Partition,
    stripe: u32,
    stripes: u32,
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
    sources: Sources,
    retry: Retry,
    /// Other partitions of the plan were read before this one.
    is_under_way: bool,
    /// Rows at the beginning that the server leaves out. With them a read that is taken up again begins at the first unit,
    /// since nobody here knows in which unit they end.
    offset: u64,
}

enum Step {
    Event(StripeEvent),
    Nothing,
    End,
}

impl StripeReader {
    pub(super) fn new(
        client: Client,
        partition: Partition,
        metrics: Arc<ReadMetrics>,
        stripe: u32,
        stripes: u32,
    ) -> Self {
        Self {
            left: partition.request.limit,
            sources: Sources::new(client.servers.of(&partition)),
            retry: Retry::new(client.options()),
            is_under_way: false,
            offset: 0,
            client,
            partition,
            stripe,
            stripes,
            metrics,
            patience: None,
            open: None,
            next_unit: 0,
            unit_rows: 0,
            rows: 0,
        }
    }

    /// The whole partition but for so many rows at its beginning.
    pub(super) fn after(
        client: Client,
        partition: Partition,
        metrics: Arc<ReadMetrics>,
        offset: u64,
    ) -> Self {
        let limit = partition.request.limit;
        Self {
            left: limit.map(|limit| limit.saturating_sub(offset)),
            offset,
            ..Self::new(client, partition, metrics, 0, 1)
        }
    }

    /// The wanted units from one on.
    fn units_from(&self, from: u64) -> Units {
        Units {
            from,
            stripe: u64::from(self.stripe),
            stripes: u64::from(self.stripes),
        }
    }

    /// The next event, or `None` after the verified end.
    ///
    /// Not cancel safe: what is dropped while this waits must not be polled again.
    pub(super) async fn next(&mut self) -> Result<Option<StripeEvent>> {
        if self.left == Some(0) {
            // The rest of the answer is of no use; on a connection that is dropped it is not sent.
            return self.finish().await;
        }
        loop {
            match self.step().await {
                Ok(Step::Event(event)) => {
                    self.retry.moved_on();
                    self.sources.moved_on();
                    return Ok(Some(event));
                }
                Ok(Step::Nothing) => {}
                Ok(Step::End) => return Ok(None),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// After the last row that is wanted: the end message is on its way unless this read began anew.
    async fn finish(&mut self) -> Result<Option<StripeEvent>> {
        while self
            .open
            .as_ref()
            .is_some_and(|open| open.from_unit == 0 && open.skip == 0)
        {
            let step = match self.step().await {
                // All that was wanted has come; that the connection is lost after it takes nothing away.
                Err(error) if error.is_retryable() => break,
                step => step?,
            };
            match step {
                Step::End => return Ok(None),
                Step::Nothing | Step::Event(StripeEvent::DoneBelow(_)) => {}
                Step::Event(StripeEvent::Batch(_)) => {
                    return Err(unexpected("rows beyond the limit"));
                }
            }
        }
        Ok(None)
    }

    /// Makes ready for another attempt, or gives the error back where there can be none.
    async fn recover(&mut self, error: Error) -> Result<()> {
        self.open = None;
        let error = match self.sources.current() {
            Some(pool) => error.with_peer(pool.location().to_string()),
            None => error,
        };
        let is_forgotten = self.is_forgotten(&error);
        let is_retryable = error.is_retryable();
        // What one server does not know another one may, or the same once it has planned again.
        let error = self
            .retry
            .count(error.with_retryable(is_retryable || is_forgotten))
            .map_err(|error| error.with_retryable(is_retryable))?;
        let can_go_on = self.partition.resumable || self.rows == 0;
        if !can_go_on {
            let error = error.with_retryable(is_retryable).context(format!(
                "{} rows were given already, and this source cannot be read from the middle",
                self.rows
            ));
            return Err(error);
        }
        tracing::debug!(%error, unit = self.next_unit, "reading on after an error");
        self.metrics.retries.fetch_add(1, Ordering::Relaxed);
        let patience = self.patience();
        self.sources.failed(&error, &self.retry);
        if is_forgotten && !self.sources.refused() {
            // A server that was restarted has another key, yet may well have the snapshot.
            let again = self.client.plan_again(&self.partition).await;
            self.partition = again.map_err(|why| error.context(why))?;
            self.sources = Sources::new(self.client.servers.of(&self.partition));
            return Ok(());
        }
        self.sources.choose(&self.retry, &patience).await
    }

    /// Whether a server refuses a ticket that was good when the scan was planned, and that another one may take, or the
    /// same server in exchange for another.
    fn is_forgotten(&self, error: &Error) -> bool {
        let codes = [ErrorCode::Expired, ErrorCode::PermissionDenied];
        if !codes.contains(&error.code()) || self.partition.snapshot.is_none() {
            return false;
        }
        let is_elsewhere = self
            .sources
            .current()
            .is_some_and(|pool| pool.refused_by() != self.partition.server_id);
        is_elsewhere
            || self.retry.failed() > 0
            || (self.is_under_way && error.code() == ErrorCode::Expired)
    }

    /// The time limit runs from the first poll of the first reader of the plan.
    fn patience(&mut self) -> Patience {
        if self.patience.is_none() {
            self.is_under_way = self.partition.started.get().is_some();
        }
        let start = *self.partition.started.get_or_init(std::time::Instant::now);
        let options = self.client.options();
        *self
            .patience
            .get_or_insert_with(|| Patience::from(options, start.into()))
    }

    async fn open(&mut self, patience: &Patience) -> Result<Open> {
        if self.retry.failed() == 0 {
            self.retry.begin();
            self.sources.choose(&self.retry, patience).await?;
        }
        let pool = match self.sources.current() {
            Some(pool) => Arc::clone(pool),
            None => return Err(Error::internal("a partition is nowhere")),
        };
        let mut skip_rows = 0;
        if self.offset > 0 {
            skip_rows = self.offset.saturating_add(self.rows);
            (self.next_unit, self.unit_rows) = (0, 0);
        }
        let options = self.client.options();
        let read = messages::Read {
            ticket: self.partition.ticket.clone(),
            request: Some((*self.partition.request).clone()),
            stripe: self.stripe,
            stripes: self.stripes,
            from_unit: self.next_unit,
            max_frame_bytes: options.max_frame_bytes.unwrap_or(0),
            batch_rows: options.batch_rows.unwrap_or(0),
            skip_rows,
        };
        let (connection, first) = pool.ask(request::Kind::Read(read), patience).await?;
        Ok(Open {
            connection,
            decoder: Decoder::new(pool.limits().clone()),
            pool,
            first: Some(first),
            skip: self.unit_rows,
            skip_rows,
            from_unit: self.next_unit,
            received: Received::default(),
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
            None => open
                .connection
                .receive(&patience)
                .await
                .map_err(ended_early)?,
        };
        match frame {
            Frame::Batch(payload) => {
                self.metrics
                    .bytes
                    .fetch_add(payload.len() as u64, Ordering::Relaxed);
                self.metrics.frames.fetch_add(1, Ordering::Relaxed);
                let batch = open
                    .received
                    .decode(&mut open.decoder, payload)
                    .map_err(|error| error.with_unit(self.next_unit))?;
                self.check_schema(&batch)?;
                let event = self.take_rows(batch).map(StripeEvent::Batch);
                Ok(event.map_or(Step::Nothing, Step::Event))
            }
            Frame::Response(messages::Response {
                kind: Some(response::Kind::UnitEnd(end)),
            }) => {
                let is_expected = end.unit < self.partition.units
                    && self.units_from(self.next_unit).contains(end.unit);
                if !is_expected {
                    return Err(unexpected("the end of a unit that was not being read"));
                }
                let skip = self.open.as_ref().map_or(0, |open| open.skip);
                if skip > 0 {
                    return Err(Error::data_loss(format!(
                        "{skip} rows that were there before are gone"
                    ))
                    .with_unit(self.next_unit));
                }
                self.next_unit = end.unit + 1;
                self.unit_rows = 0;
                Ok(Step::Event(StripeEvent::DoneBelow(self.next_unit)))
            }
            Frame::Response(messages::Response {
                kind: Some(response::Kind::ReadEnd(end)),
            }) => self.end(&end),
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
        if let Some(left) = self.left
            && batch.num_rows() as u64 > left
        {
            batch = batch.slice(0, left as usize);
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
        let Some(open) = self.open.take() else {
            return Err(unexpected("an end without a beginning"));
        };
        let units = self.units_from(open.from_unit);
        let wanted = units.within(self.partition.units).count() as u64;
        let mut missing = self.units_from(self.next_unit).within(self.partition.units);
        open.received.check(end)?;
        let has_skipped = end.skipped_rows == open.skip_rows
            || (end.skipped_rows < open.skip_rows && end.rows == 0);
        if !has_skipped {
            return Err(Error::data_loss(format!(
                "the server left out {} rows where {} were to be left out",
                end.skipped_rows, open.skip_rows
            )));
        }
        let is_whole = end.units == wanted && missing.next().is_none() && !end.limit_reached;
        let is_enough = end.limit_reached && self.left == Some(0);
        if !is_whole && !is_enough {
            return Err(Error::data_loss(format!(
                "the server ended after {} of {wanted} units",
                end.units
            )));
        }
        open.pool.give_back(open.connection);
        Ok(Step::End)
    }
}
