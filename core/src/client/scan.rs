//! A planned scan, and its rows as one stream or one partition at a time, filtered to exactly what was asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::{Stream, StreamExt, TryStreamExt, future};

use super::Client;
use super::in_flight::{Batches, Bounded};
use super::pool::INLINE_UP_TO_BYTES;
use super::reader::{PartitionReader, ReadMetrics};
use super::residual::{Residual, Wider};
use crate::error::{Error, Result};
use crate::protocol::filter::Support;
use crate::protocol::plan::ScanPlan;
use crate::protocol::request::ScanRequest;

/// Partitions read at once where order does not matter.
const AT_ONCE: usize = 4;

/// Who applies what the server does not apply exactly of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// The client, as rows come in.
    Here,
    /// Whoever reads the rows.
    ForCaller,
}

/// A scan that is planned once and may be read as often as its tickets are good: each read gives all of its rows.
#[derive(Debug, Clone)]
pub struct PlannedScan {
    client: Client,
    plan: ScanPlan,
    schema: SchemaRef,
    filters: Vec<Support>,
    residual: Option<Arc<Residual>>,
    limit: Option<u64>,
    ordered: bool,
}

impl PlannedScan {
    pub(super) async fn try_new(
        client: &Client,
        request: &ScanRequest,
        rest: Rest,
    ) -> Result<Self> {
        let mut request = request.clone();
        request.ordered |= client.options().ordered.unwrap_or(false);
        if request.ordered && client.options().partitions.is_none() {
            // Partitions are read one after the other for their order; within one the stripes are merged.
            request.max_partitions.get_or_insert(1);
        }
        let inline_bytes = match rest {
            Rest::Here => INLINE_UP_TO_BYTES,
            Rest::ForCaller => 0,
        };
        let plan = client.plan_with(&request, inline_bytes).await?;
        let planned = Self {
            client: client.clone(),
            schema: Arc::clone(&plan.schema),
            filters: plan.filters.clone(),
            residual: None,
            limit: request.limit,
            ordered: request.ordered,
            plan,
        };
        let is_exact = |support: &Support| *support == Support::Exact;
        if planned.filters.iter().all(is_exact) {
            return Ok(planned);
        }
        if rest == Rest::ForCaller {
            return planned.without_limit(&request).await;
        }
        let Wider {
            columns,
            schema,
            residual,
        } = Wider::try_new(client, &request, &planned.plan).await?;
        let request = ScanRequest {
            projection: Some(columns),
            limit: None,
            snapshot: planned.plan.snapshot.clone().or(request.snapshot),
            ..request
        };
        let plan = client.plan(&request).await?;
        if plan.schema != schema {
            return Err(Error::expired(format!(
                "the table changed while it was planned: {} instead of {schema}",
                plan.schema
            ))
            .with_retryable(true));
        }
        Ok(Self {
            schema: residual.project(&plan.schema)?,
            residual: Some(Arc::new(residual)),
            plan,
            ..planned
        })
    }

    /// The same where rows are left that the caller drops: which of them count towards a limit is not known here.
    async fn without_limit(self, request: &ScanRequest) -> Result<Self> {
        if self.limit.is_none() {
            return Ok(self);
        }
        let request = ScanRequest {
            limit: None,
            snapshot: self.plan.snapshot.clone().or(request.snapshot.clone()),
            ..request.clone()
        };
        let plan = self.client.plan_with(&request, 0).await?;
        Ok(Self {
            schema: Arc::clone(&plan.schema),
            filters: plan.filters.clone(),
            limit: None,
            plan,
            ..self
        })
    }

    /// The schema of the rows that are read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The plan that is read. Where a residual is left its partitions have more columns than the scan.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// How far the server applies each conjunct of the filter.
    pub fn filters(&self) -> &[Support] {
        &self.filters
    }

    /// What is left to do of the filter with the rows of a partition; `None` where the server does all.
    pub fn residual(&self) -> Option<&Arc<Residual>> {
        self.residual.as_ref()
    }

    /// Most rows of the whole scan.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Reads all rows. Nothing is sent before the reader is first polled.
    pub fn read(&self) -> ScanReader {
        let readers: Vec<_> = self
            .plan
            .partitions
            .iter()
            .map(|partition| self.client.read(partition))
            .collect();
        let metrics = readers.iter().map(PartitionReader::metrics).collect();
        let readers = readers.into_iter().map(PartitionReader::unbounded);
        // With a limit the partitions before may do, and then the others need not begin.
        let batches = if self.ordered || self.limit.is_some() {
            futures::stream::iter(readers).flatten().boxed()
        } else {
            futures::stream::iter(readers)
                .flatten_unordered(AT_ONCE)
                .boxed()
        };
        let batches = match self.residual.clone() {
            None => batches,
            Some(residual) => filtered(batches, residual),
        };
        let memory_limit = self.client.options().memory_limit;
        ScanReader {
            schema: Arc::clone(&self.schema),
            plan: self.plan.clone(),
            metrics,
            batches: Bounded::new(limited(batches, self.limit), memory_limit),
        }
    }
}

/// The rows of a scan: those of all partitions, in the table's order if the request says so.
///
/// A limit counts for the whole scan. What the server did not filter exactly is filtered here. It ends without an error
/// only once every partition that was needed has been read to its verified end.
pub struct ScanReader {
    schema: SchemaRef,
    plan: ScanPlan,
    metrics: Vec<Arc<ReadMetrics>>,
    batches: Bounded,
}

impl ScanReader {
    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The plan that is read.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// What has been received so far, of each partition.
    pub fn metrics(&self) -> &[Arc<ReadMetrics>] {
        &self.metrics
    }

    /// What is made of the rows, as [`PartitionReader::through`].
    pub fn through(self, work: impl FnOnce(Batches) -> Batches) -> Batches {
        self.batches.through(work)
    }
}

impl std::fmt::Debug for ScanReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanReader")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Stream for ScanReader {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next(context)
    }
}

/// The rows that pass a residual filter, with the columns that are wanted.
fn filtered(batches: Batches, residual: Arc<Residual>) -> Batches {
    batches
        .and_then(move |batch| future::ready(residual.apply(&batch)))
        .try_filter(|batch| future::ready(batch.num_rows() > 0))
        .boxed()
}

/// Ends a stream after so many rows.
fn limited(batches: Batches, limit: Option<u64>) -> Batches {
    let Some(limit) = limit else {
        return until_error(batches);
    };
    let limited = futures::stream::try_unfold((batches, limit), |(mut batches, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(batch) = batches.try_next().await? else {
            return Ok(None);
        };
        let rows = batch.num_rows() as u64;
        let batch = if rows > left {
            batch.slice(0, left as usize)
        } else {
            batch
        };
        Ok(Some((batch, (batches, left.saturating_sub(rows)))))
    });
    limited.boxed()
}

/// Ends a stream after its first error, so that nothing follows a hole.
fn until_error(batches: Batches) -> Batches {
    futures::stream::try_unfold(batches, |mut batches| async move {
        Ok(batches.try_next().await?.map(|batch| (batch, batches)))
    })
    .boxed()
}
