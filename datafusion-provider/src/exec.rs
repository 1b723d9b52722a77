//! Reads a planned scan: one stream of DataFusion for each partition, or run of partitions, of the server.
//!
//! Plans nothing and holds no filter: what the server did not promise is applied above it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use lightstream_core::Client;
use lightstream_core::protocol::plan::{Partition, ScanPlan};

use crate::convert::{ordering, statistics};
use crate::share::Executions;
use crate::stream::ScanStream;

/// What was asked of the server, as far as it still matters after planning.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScanRequested {
    /// The name of the table.
    pub table: String,
    /// The filters that are applied at the server, as SQL.
    pub exact_filters: Vec<String>,
    /// The filters that the server applies in part.
    pub inexact_filters: Vec<String>,
    /// Most rows that were asked for of each partition.
    pub limit: Option<usize>,
    /// Rows were asked for in the table's order.
    pub is_ordered: bool,
    /// Streams may take over partitions from each other.
    pub is_shared: bool,
}

/// A scan of a remote table, planned at its server.
///
/// Each partition of DataFusion begins with one partition of the server, or a run of neighbours. Where no order is
/// promised, a stream that is done takes over from one that is behind, so that a slow partition does not hold back the
/// rest; `datafusion.execution.enable_file_stream_work_stealing` turns that off, for engines that execute the partitions
/// of a plan in different places. Batches are handed on as they come off the wire, whatever `datafusion.execution.batch_size` says:
/// cutting them smaller would only cost. (The option `batch_rows` bounds them at the server.) A stream ends only after
/// the server has confirmed every row; dropping it ends the work on both sides.
#[derive(Clone)]
pub struct LightstreamExec {
    client: Client,
    requested: Arc<ScanRequested>,
    plan: Arc<ScanPlan>,
    /// Which partitions of the server make up each partition of DataFusion.
    groups: Vec<Range<usize>>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Arc<Executions>,
}

impl LightstreamExec {
    /// Reads the plan in at most `target_partitions` streams.
    pub(crate) fn new(
        client: Client,
        requested: ScanRequested,
        plan: ScanPlan,
        target_partitions: usize,
    ) -> Self {
        let groups = contiguous_groups(plan.partitions.len(), target_partitions);
        // Without being asked for order, a reader may deliver what comes first.
        let order = if requested.is_ordered {
            plan.ordering.as_slice()
        } else {
            &[]
        };
        let properties = PlanProperties::new(
            ordering::equivalences(&plan.schema, order),
            Partitioning::UnknownPartitioning(groups.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            client,
            fetch: requested.limit,
            requested: Arc::new(requested),
            plan: Arc::new(plan),
            groups,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Arc::default(),
        }
    }

    /// The client that reads the partitions.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.requested.table
    }

    /// The plan that the server made.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// Whether streams take over partitions from each other.
    fn is_shared(&self) -> bool {
        self.requested.is_shared
            && !self.requested.is_ordered
            && self.plan.partitions.len() > self.groups.len()
            && self.groups.len() > 1
    }

    /// The server's partitions that one partition of DataFusion begins with, in order; none where there is no such partition.
    pub fn server_partitions(&self, partition: usize) -> &[Partition] {
        let group = self.groups.get(partition).cloned().unwrap_or_default();
        self.plan.partitions.get(group).unwrap_or_default()
    }

    /// What is known of the rows of one partition, or of all. Exact only if every row of a named snapshot that passes
    /// the filters comes back, and no other.
    fn known_statistics(&self, partition: Option<usize>) -> Statistics {
        let mut known = statistics::statistics(&self.plan.statistics, &self.plan.schema);
        if let Some(partition) = partition {
            known = known.to_inexact();
            let rows = self
                .server_partitions(partition)
                .iter()
                .map(|partition| statistics::count(partition.rows));
            known.num_rows = rows.fold(Precision::Exact(0), |sum, rows| sum.add(&rows));
            let bytes = self
                .server_partitions(partition)
                .iter()
                .map(|partition| statistics::count(partition.bytes));
            known.total_byte_size = bytes
                .fold(Precision::Exact(0), |sum, bytes| sum.add(&bytes))
                .to_inexact();
            // Partitions are counted before filters, and streams may read others than they begin with.
            if !self.requested.exact_filters.is_empty() || self.is_shared() {
                known = known.to_inexact();
            }
        }
        if let Some(fetch) = self.fetch {
            let most = fetch.saturating_mul(if partition.is_some() {
                1
            } else {
                self.groups.len()
            });
            known.num_rows = known.num_rows.min(&Precision::Inexact(most));
        }
        let is_whole = self.fetch.is_none() && self.requested.inexact_filters.is_empty();
        if is_whole && self.plan.snapshot.is_some() {
            known
        } else {
            known.to_inexact()
        }
    }

    fn columns(&self) -> Vec<&str> {
        self.plan
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect()
    }
}

/// Cuts `count` partitions into at most `most` runs of neighbours of nearly the same length, so that their order is
/// kept. No partitions at all are one empty run: DataFusion wants a stream to ask.
fn contiguous_groups(count: usize, most: usize) -> Vec<Range<usize>> {
    let groups = count.min(most).max(1);
    let (length, longer) = (count / groups, count % groups);
    let start = |group: usize| group * length + group.min(longer);
    (0..groups)
        .map(|group| start(group)..start(group + 1))
        .collect()
}

impl fmt::Debug for LightstreamExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Verbose, f)
    }
}

impl DisplayAs for LightstreamExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.client.location();
        let ScanRequested {
            table,
            exact_filters,
            inexact_filters,
            ..
        } = &*self.requested;
        let partitions = self.plan.partitions.len();
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "table={table}")?;
            writeln!(f, "location={location}")?;
            write!(f, "partitions={partitions}")?;
            for filter in exact_filters {
                write!(f, "\nfilter={filter}")?;
            }
            return self
                .fetch
                .map_or(Ok(()), |fetch| write!(f, "\nlimit={fetch}"));
        }
        write!(f, "LightstreamExec: location={location}, table={table}")?;
        if let Some(snapshot) = &self.plan.snapshot {
            write!(f, ", snapshot={snapshot}")?;
        }
        write!(
            f,
            ", partitions={partitions}, projection=[{}]",
            self.columns().join(", ")
        )?;
        if !exact_filters.is_empty() {
            write!(f, ", filters=[{}] (exact)", exact_filters.join(", "))?;
        }
        if !inexact_filters.is_empty() {
            write!(f, ", filters=[{}] (inexact)", inexact_filters.join(", "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", limit={fetch}")?;
        }
        if matches!(format, DisplayFormatType::Verbose) {
            for (index, group) in self.groups.iter().enumerate() {
                let rows: Option<u64> = self.plan.partitions[group.clone()]
                    .iter()
                    .map(|partition| partition.rows.value())
                    .sum();
                let rows = rows.map_or("unknown".to_owned(), |rows| rows.to_string());
                write!(
                    f,
                    "{}{index}: {} of {rows} rows",
                    if index == 0 { ", streams=[" } else { ", " },
                    group.len()
                )?;
            }
            f.write_str("]")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for LightstreamExec {
    fn name(&self) -> &str {
        "LightstreamExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("LightstreamExec has no children")
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    /// None: filters travel as text and trees of the core, and no dynamic filter is held.
    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.groups.len() {
            return internal_err!(
                "LightstreamExec has {} partitions, not partition {partition}",
                self.groups.len()
            );
        }
        let partitions: Box<dyn Iterator<Item = usize> + Send> = if self.is_shared() {
            let shares = self.executions.shares(&context, &self.groups);
            Box::new(shares.begin(partition))
        } else {
            Box::new(self.groups.get(partition).cloned().unwrap_or_default())
        };
        let plan = Arc::clone(&self.plan);
        let partitions = partitions.filter_map(move |index| plan.partitions.get(index).cloned());
        let schema: SchemaRef = Arc::clone(&self.plan.schema);
        let stream = ScanStream::new(
            self.client.clone(),
            self.requested.table.clone(),
            schema,
            Box::new(partitions),
            self.fetch,
            &self.metrics,
            partition,
        );
        Ok(Box::pin(cooperative(stream)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Arc::default(),
            ..self.as_ref().clone()
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        if partition.is_some_and(|partition| partition >= self.groups.len()) {
            return internal_err!(
                "LightstreamExec has {} partitions, not {partition:?}",
                self.groups.len()
            );
        }
        Ok(Arc::new(self.known_statistics(partition)))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        #[allow(deprecated, reason = "foreign plans still ask by the older name")]
        self.partition_statistics(args.partition())
    }

    /// At most `limit` rows of each partition. A limit that the server already applies cannot be lifted again.
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let fetch = match (limit, self.requested.limit) {
            (Some(limit), Some(applied)) => Some(limit.min(applied)),
            (Some(limit), None) => Some(limit),
            (None, Some(_)) => return None,
            (None, None) => None,
        };
        Some(Arc::new(Self {
            fetch,
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Arc::default(),
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_grouped_in_order_without_gaps() {
        for count in 0..20 {
            for most in 1..8 {
                let groups = contiguous_groups(count, most);
                assert!(groups.len() <= most && !groups.is_empty());
                assert_eq!(
                    groups.iter().cloned().flatten().collect::<Vec<_>>(),
                    (0..count).collect::<Vec<_>>()
                );
                let lengths: Vec<_> = groups.iter().map(|group| group.len()).collect();
                assert!(
                    lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1,
                    "{lengths:?}"
                );
            }
        }
        let one = |count, most| {
            let mut groups = contiguous_groups(count, most);
            assert_eq!(groups.len(), 1);
            groups.remove(0)
        };
        assert_eq!((one(0, 4), one(3, 0)), (0..0, 0..3));
    }
}
