//! A whole scan as one stream, filtered to exactly what was asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, future};

use super::Client;
use crate::error::{Error, Result};
use crate::protocol::filter::{Filter, Support, support};
use crate::protocol::plan::ScanPlan;
use crate::protocol::request::{ScanRequest, ScanSource, project_schema};

/// Partitions read at once where order does not matter.
const AT_ONCE: usize = 4;

/// The rows of a scan: those of all partitions, in the table's order if the request says so.
///
/// A limit counts for the whole scan. What the server did not filter exactly is filtered here. It ends without an error
/// only once every partition that was needed has been read to its verified end.
pub struct ScanReader {
    schema: SchemaRef,
    plan: ScanPlan,
    batches: BoxStream<'static, Result<RecordBatch>>,
}

impl ScanReader {
    pub(super) async fn try_new(client: &Client, request: &ScanRequest) -> Result<Self> {
        let mut request = request.clone();
        request.ordered |= client.options().ordered.unwrap_or(false);
        if request.ordered && client.options().partitions.is_none() {
            // Partitions are read one after the other for their order; within one the stripes are merged.
            request.max_partitions.get_or_insert(1);
        }
        let request = &request;
        let plan = client.plan(request).await?;
        let is_exact = plan
            .filters
            .iter()
            .all(|&support| support == Support::Exact);
        if is_exact {
            let schema = Arc::clone(&plan.schema);
            let batches = partitions(client, &plan, request);
            return Ok(Self {
                schema,
                plan,
                batches: limited(batches, request.limit),
            });
        }
        let residual = Residual::try_new(client, request, &plan).await?;
        let wider = ScanRequest {
            projection: Some(residual.columns.clone()),
            limit: None,
            snapshot: plan.snapshot.clone().or_else(|| request.snapshot.clone()),
            ..request.clone()
        };
        let plan = client.plan(&wider).await?;
        if plan.schema != residual.wider_schema {
            return Err(Error::expired(format!(
                "the table changed while it was planned: {} instead of {}",
                plan.schema, residual.wider_schema
            ))
            .with_retryable(true));
        }
        let schema = Arc::clone(&residual.schema);
        let batches = partitions(client, &plan, request)
            .and_then(move |batch| future::ready(residual.apply(&batch)))
            .try_filter(|batch| future::ready(batch.num_rows() > 0))
            .boxed();
        Ok(Self {
            schema,
            plan,
            batches: limited(batches, request.limit),
        })
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The plan that is read.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
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
        self.batches.as_mut().poll_next(context)
    }
}

fn partitions(
    client: &Client,
    plan: &ScanPlan,
    request: &ScanRequest,
) -> BoxStream<'static, Result<RecordBatch>> {
    let readers: Vec<_> = plan
        .partitions
        .iter()
        .map(|partition| client.read(partition))
        .collect();
    // With a limit the partitions before may do, and then the others need not begin.
    if request.ordered || request.limit.is_some() {
        futures::stream::iter(readers).flatten().boxed()
    } else {
        futures::stream::iter(readers)
            .flatten_unordered(AT_ONCE)
            .boxed()
    }
}

/// Ends a stream after so many rows.
fn limited(
    batches: BoxStream<'static, Result<RecordBatch>>,
    limit: Option<u64>,
) -> BoxStream<'static, Result<RecordBatch>> {
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
fn until_error(
    batches: BoxStream<'static, Result<RecordBatch>>,
) -> BoxStream<'static, Result<RecordBatch>> {
    futures::stream::try_unfold(batches, |mut batches| async move {
        Ok(batches.try_next().await?.map(|batch| (batch, batches)))
    })
    .boxed()
}

/// What is left to do here of a filter.
struct Residual {
    /// Positions in the table of the columns to ask for: those that are wanted, then those that the filter needs.
    columns: Vec<usize>,
    /// How many of them are wanted.
    wanted: usize,
    /// The schema of all of them.
    wider_schema: SchemaRef,
    schema: SchemaRef,
    filter: Filter,
}

impl Residual {
    async fn try_new(client: &Client, request: &ScanRequest, plan: &ScanPlan) -> Result<Self> {
        let ScanSource::Table(table) = &request.source else {
            return Err(Error::unimplemented(
                "the server does not filter the result of a query",
            ));
        };
        let whole = client
            .describe(table, plan.snapshot.as_deref())
            .await?
            .schema;
        let rule = request.filter.float_rule;
        let conjuncts: Vec<_> = request
            .filter
            .conjuncts
            .iter()
            .zip(&plan.filters)
            .filter(|(_, support)| **support != Support::Exact)
            .map(|(conjunct, _)| conjunct.clone())
            .collect();
        if let Some(unknown) = conjuncts
            .iter()
            .find(|conjunct| support(conjunct, &whole, rule) == Support::Unsupported)
        {
            return Err(Error::unimplemented(format!(
                "neither server nor client can apply the filter {unknown}"
            )));
        }
        let filter = Filter {
            float_rule: rule,
            conjuncts,
        };
        let mut columns = request
            .projection
            .clone()
            .unwrap_or_else(|| (0..whole.fields().len()).collect());
        let schema = project_schema(&whole, &columns)?;
        let wanted = columns.len();
        for column in filter.required_columns(&whole)? {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Ok(Self {
            wider_schema: project_schema(&whole, &columns)?,
            columns,
            wanted,
            schema,
            filter,
        })
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let kept = self.filter.apply(batch)?;
        let wanted: Vec<usize> = (0..self.wanted).collect();
        kept.project(&wanted)
            .map_err(|error| Error::internal("columns could not be selected").with_source(error))
    }
}
