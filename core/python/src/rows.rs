//! The rows of a read, whoever wants them: a loop, a coroutine or Arrow's C interface, one at a time.

use std::collections::VecDeque;
use std::future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use futures::{StreamExt, TryStreamExt};
use lightstream_core::client::{Batches, Client, PlannedScan, ReadMetrics, Residual};
use lightstream_core::protocol::plan::Partition;
use lightstream_core::{Error, Result};
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::runtime::{Owned, wait_anywhere};
use crate::types::Conversion;

/// Rows that are being read.
pub(crate) struct Rows {
    schema: SchemaRef,
    metrics: Vec<Arc<ReadMetrics>>,
    /// None after the end, after an error, and once closed.
    batches: Arc<tokio::sync::Mutex<Option<Batches>>>,
    /// What a coroutine was to get that was cancelled.
    given_back: Mutex<VecDeque<RecordBatch>>,
    rows: AtomicU64,
    is_closed: AtomicBool,
    has_ended: AtomicBool,
    closing: Notify,
}

impl Rows {
    fn new(batches: Batches, metrics: Vec<Arc<ReadMetrics>>, conversion: &Conversion) -> Arc<Self> {
        Arc::new(Self {
            schema: Arc::clone(conversion.schema()),
            metrics,
            batches: Arc::new(tokio::sync::Mutex::new(Some(batches))),
            given_back: Mutex::default(),
            rows: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            closing: Notify::new(),
        })
    }

    /// All rows of a scan.
    pub(crate) fn of_scan(planned: &PlannedScan, conversion: &Conversion) -> Arc<Self> {
        let reader = planned.read();
        let metrics = reader.metrics().to_vec();
        let batches = reader.through(|batches| converted(batches, conversion));
        Self::new(batches, metrics, conversion)
    }

    /// The rows of a partition that pass a residual filter: those behind the first so many, at most so many of them.
    pub(crate) fn of_partition(
        client: &Client,
        partition: &Partition,
        residual: Option<Arc<Residual>>,
        offset: u64,
        limit: Option<u64>,
        conversion: &Conversion,
    ) -> Arc<Self> {
        // Which rows pass is known to the server only where nothing is left to do.
        let (skipped_there, skipped_here) = match &residual {
            None => (offset, 0),
            Some(_) => (0, offset),
        };
        let reader = client.read_after(partition, skipped_there);
        let metrics = vec![reader.metrics()];
        let batches = reader.through(|batches| {
            let batches = match residual {
                None => batches,
                Some(residual) => batches
                    .and_then(move |batch| future::ready(residual.apply(&batch)))
                    .try_filter(|batch| future::ready(batch.num_rows() > 0))
                    .boxed(),
            };
            let batches = match skipped_here {
                0 => batches,
                offset => after(batches, offset),
            };
            let batches = match limit {
                None => batches,
                Some(limit) => limited(batches, limit),
            };
            converted(batches, conversion)
        });
        Self::new(batches, metrics, conversion)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows that were given.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// What has been received so far, of each partition.
    pub(crate) fn metrics(&self) -> &[Arc<ReadMetrics>] {
        &self.metrics
    }

    /// Whether all rows were given, or it was closed.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst) || self.is_closed.load(Ordering::SeqCst)
    }

    fn given_back(&self) -> MutexGuard<'_, VecDeque<RecordBatch>> {
        self.given_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back rows that nobody got after all: they are the next.
    pub(crate) fn give_back(&self, batch: Option<RecordBatch>) {
        if let Some(batch) = batch {
            self.rows
                .fetch_sub(batch.num_rows() as u64, Ordering::Relaxed);
            self.given_back().push_front(batch);
        }
    }

    /// The next rows; `None` after the last.
    ///
    /// Cancel safe: rows that had come are given the next time.
    ///
    /// # Errors
    /// As [`Rows::next_in_turn`].
    pub(crate) async fn next(&self) -> Result<Option<RecordBatch>> {
        Ok(self.next_in_turn().await?.0)
    }

    /// The next rows, and the turn to take more: nobody else gets any before it is dropped, so that what is given back
    /// is the next.
    ///
    /// Cancel safe: rows that had come are given the next time.
    ///
    /// # Errors
    /// Those of the read, after which nothing more comes, and `cancelled` once closed before the end.
    pub(crate) async fn next_in_turn(&self) -> Result<(Option<RecordBatch>, Turn)> {
        let mut turn = Arc::clone(&self.batches).lock_owned().await;
        let next = self.next_of(&mut turn).await?;
        Ok((next, Turn(turn)))
    }

    async fn next_of(&self, batches: &mut Option<Batches>) -> Result<Option<RecordBatch>> {
        let closing = self.closing.notified();
        if self.is_closed.load(Ordering::SeqCst) {
            *batches = None;
            return self.after_close();
        }
        if let Some(batch) = self.given_back().pop_front() {
            return Ok(Some(self.count(batch)));
        }
        let Some(reading) = batches.as_mut() else {
            return Ok(None);
        };
        let next = tokio::select! {
            biased;
            () = closing => {
                *batches = None;
                return self.after_close();
            }
            next = reading.try_next() => next,
        };
        match next {
            Ok(Some(batch)) => Ok(Some(self.count(batch))),
            end => {
                *batches = None;
                self.has_ended.store(true, Ordering::SeqCst);
                end
            }
        }
    }

    fn count(&self, batch: RecordBatch) -> RecordBatch {
        self.rows
            .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        batch
    }

    fn after_close(&self) -> Result<Option<RecordBatch>> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Ok(None);
        }
        Err(Error::cancelled("the reader was closed before its end"))
    }

    /// Ends the read; the server is told. Whoever waits for rows gets `cancelled`.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closing.notify_waiters();
        // Where somebody waits for rows, they let go.
        if let Ok(mut batches) = self.batches.try_lock() {
            *batches = None;
        }
    }
}

/// The turn to take rows of a reader.
pub(crate) struct Turn(#[allow(dead_code)] OwnedMutexGuard<Option<Batches>>);

/// The rows in the types that are wanted.
fn converted(batches: Batches, conversion: &Conversion) -> Batches {
    if conversion.is_identity() {
        return batches;
    }
    let conversion = conversion.clone();
    batches
        .and_then(move |batch| future::ready(conversion.convert(&batch)))
        .boxed()
}

/// A stream without its first rows.
fn after(batches: Batches, offset: u64) -> Batches {
    let mut skip = offset;
    batches
        .try_filter_map(move |batch| {
            let rows = batch.num_rows();
            let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(rows);
            skip -= skipped as u64;
            let rest = (skipped < rows).then(|| batch.slice(skipped, rows - skipped));
            future::ready(Ok(rest))
        })
        .boxed()
}

/// Ends a stream after so many rows.
fn limited(batches: Batches, limit: u64) -> Batches {
    futures::stream::try_unfold((batches, limit), |(mut batches, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(batch) = batches.try_next().await? else {
            return Ok(None);
        };
        let rows = left.min(batch.num_rows() as u64);
        Ok(Some((
            batch.slice(0, rows as usize),
            (batches, left - rows),
        )))
    })
    .boxed()
}

/// Rows for Arrow's C interface, which waits for them.
pub(crate) struct Exported(Owned<Arc<Rows>>);

impl Exported {
    pub(crate) fn new(rows: Arc<Rows>) -> Self {
        Self(Owned::new(rows))
    }

    fn next(&self) -> Result<Option<RecordBatch>> {
        let rows = self.0.get()?;
        wait_anywhere(rows.next())
    }
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Exported::next(self).map_err(|error| ArrowError::ExternalError(Box::new(error)));
        next.transpose()
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        self.0
            .get()
            .map(|rows| Arc::clone(&rows.schema))
            .unwrap_or_else(|_| Arc::new(arrow_schema::Schema::empty()))
    }
}
