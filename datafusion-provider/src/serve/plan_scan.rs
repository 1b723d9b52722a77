//! A planned scan that runs a plan of DataFusion as it is, from beginning to end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::{TaskContext, TryEmitter, async_try_stream};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, StreamExt};
use lightstream_core::protocol::filter::Support;
use lightstream_core::protocol::statistics::Statistics;
use lightstream_core::protocol::table::SortColumn;
use lightstream_core::server::{Scan, ScanPartition, UnitEvent, UnitStream, Units};
use lightstream_core::{Error, Result};

use super::errors::{core_error, panic_error};
use super::rows::Columns;

const ATTEMPTED: &str = "running a plan";

/// A plan that is one partition of one unit.
pub(super) struct PlanScan {
    plan: Arc<dyn ExecutionPlan>,
    columns: Arc<Columns>,
    context: Arc<TaskContext>,
    statistics: Statistics,
    support: Vec<Support>,
    partitions: [ScanPartition; 1],
}

impl PlanScan {
    /// A scan that runs `plan`, all of whose partitions are read one after the other.
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        columns: Columns,
        context: Arc<TaskContext>,
        statistics: Statistics,
        support: Vec<Support>,
    ) -> Self {
        let partition = ScanPartition {
            rows: statistics.rows,
            bytes: statistics.bytes,
            units: 1,
            resumable: false,
        };
        Self {
            plan,
            columns: Arc::new(columns),
            context,
            statistics,
            support,
            partitions: [partition],
        }
    }
}

impl Scan for PlanScan {
    fn snapshot(&self) -> Option<&str> {
        None
    }

    fn schema(&self) -> &SchemaRef {
        &self.columns.schema
    }

    fn ordering(&self) -> Vec<SortColumn> {
        if self.plan.properties().partitioning.partition_count() > 1 {
            return Vec::new();
        }
        let sorts = self.plan.output_ordering().into_iter().flatten();
        let column = |sort: &datafusion::physical_expr::PhysicalSortExpr| {
            let column = sort.expr.downcast_ref::<Column>()?;
            let is_one = self
                .columns
                .schema
                .fields()
                .iter()
                .filter(|field| field.name() == column.name())
                .count()
                == 1;
            is_one.then(|| SortColumn {
                path: vec![column.name().to_owned()],
                descending: sort.options.descending,
                nulls_first: sort.options.nulls_first,
            })
        };
        sorts.map_while(column).collect()
    }

    fn statistics(&self) -> Statistics {
        self.statistics.clone()
    }

    fn filters(&self) -> &[Support] {
        &self.support
    }

    fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    fn open(&self, partition: usize, units: Units) -> Result<UnitStream> {
        if partition != 0 {
            return Err(Error::invalid_argument(format!(
                "there is no partition {partition} among 1"
            )));
        }
        if units.from != 0 {
            return Err(Error::invalid_argument(format!(
                "the partition is not resumable: it cannot be read from unit {}",
                units.from
            )));
        }
        if !units.contains(0) {
            return Ok(futures::stream::empty().boxed());
        }
        let (plan, columns, context) = (
            Arc::clone(&self.plan),
            Arc::clone(&self.columns),
            Arc::clone(&self.context),
        );
        Ok(async_try_stream(|emitter| run(plan, columns, context, emitter)).boxed())
    }
}

async fn run(
    plan: Arc<dyn ExecutionPlan>,
    columns: Arc<Columns>,
    context: Arc<TaskContext>,
    mut emitter: TryEmitter<UnitEvent, Error>,
) -> Result<()> {
    let failed = |error| core_error(ATTEMPTED, error);
    // Some operators can be run but once.
    let plan = reset_plan_states(plan).map_err(failed)?;
    for partition in 0..plan.properties().partitioning.partition_count() {
        let mut batches = plan
            .execute(partition, Arc::clone(&context))
            .map_err(failed)?;
        loop {
            let next = AssertUnwindSafe(batches.next()).catch_unwind().await;
            let Some(batch) = next.map_err(|panic| panic_error(ATTEMPTED, panic.as_ref()))? else {
                break;
            };
            let batch = columns.conform(batch.map_err(failed)?)?;
            if batch.num_rows() > 0 {
                emitter.emit(UnitEvent::Batch(batch)).await;
            }
        }
    }
    emitter.emit(UnitEvent::End(0)).await;
    Ok(())
}
