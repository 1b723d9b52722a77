//! A planned scan of files, read one unit at a time.
//!
//! Every unit runs the same plan over its own file or row group, so what a unit gives does not depend on what else is
//! read, by whom, or in which order.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SessionState, TaskContext, TryEmitter, async_try_stream};
use datafusion::logical_expr::LogicalPlan;
use datafusion::object_store::ObjectStore;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use futures::{FutureExt, StreamExt};
use lightstream_core::protocol::filter::Support;
use lightstream_core::protocol::statistics::Statistics;
use lightstream_core::protocol::table::SortColumn;
use lightstream_core::server::{Scan, ScanPartition, UnitEvent, UnitStream, Units};
use lightstream_core::{Error, Result};

use super::errors::{core_error, panic_error};
use super::rows::Columns;
use super::snapshot::{check_unchanged, file, file_scan};
use super::units::Unit;

/// A scan of files in partitions.
pub(super) struct FileScan {
    pub snapshot: String,
    pub ordering: Vec<SortColumn>,
    pub statistics: Statistics,
    pub support: Vec<Support>,
    pub partitions: Vec<ScanPartition>,
    /// The units of each partition.
    pub runs: Vec<Range<usize>>,
    pub units: Arc<[Unit]>,
    pub reader: Arc<Reader>,
}

/// What reads units.
pub(super) struct Reader {
    pub files: Vec<PartitionedFile>,
    /// For each file, whether it can hold rows that pass the filter.
    pub kept: Vec<bool>,
    pub store: Arc<dyn ObjectStore>,
    /// What is planned for each read and run for each unit; `None` where there are no files. A plan keeps metrics of
    /// every run, so that one held as long as a scan would grow without end.
    pub plan: Option<LogicalPlan>,
    /// Most rows that are wanted of a unit.
    pub limit: Option<u64>,
    pub columns: Columns,
    pub state: SessionState,
}

impl Scan for FileScan {
    fn snapshot(&self) -> Option<&str> {
        Some(&self.snapshot)
    }

    fn schema(&self) -> &SchemaRef {
        &self.reader.columns.schema
    }

    fn ordering(&self) -> Vec<SortColumn> {
        self.ordering.clone()
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

    fn open(&self, partition: usize, wanted: Units) -> Result<UnitStream> {
        let run = self.runs.get(partition).cloned().ok_or_else(|| {
            Error::invalid_argument(format!(
                "there is no partition {partition} among {}",
                self.runs.len()
            ))
        })?;
        let (reader, units) = (Arc::clone(&self.reader), Arc::clone(&self.units));
        Ok(async_try_stream(move |emitter| async move {
            reader.read(&units[run], wanted, emitter).await
        })
        .boxed())
    }
}

impl Reader {
    async fn read(
        &self,
        units: &[Unit],
        wanted: Units,
        mut emitter: TryEmitter<UnitEvent, Error>,
    ) -> Result<()> {
        let plan = match &self.plan {
            Some(plan) => Some(row_local_plan(&self.state, plan).await?),
            None => None,
        };
        let context = self.state.task_ctx();
        let mut checked = None;
        for index in wanted.within(units.len() as u64) {
            let Some(unit) = usize::try_from(index)
                .ok()
                .and_then(|index| units.get(index))
            else {
                break;
            };
            if let (Some(plan), Some(listed)) = (&plan, self.file_to_read(unit)) {
                if checked != Some(unit.file) {
                    check_unchanged(self.store.as_ref(), &listed.object_meta).await?;
                    checked = Some(unit.file);
                }
                let read = self.run(plan, &context, unit, listed, &mut emitter).await;
                // Neither rows nor errors of a file that has changed meanwhile mean anything.
                check_unchanged(self.store.as_ref(), &listed.object_meta).await?;
                read.map_err(|error| error.with_unit(index))?;
            }
            emitter.emit(UnitEvent::End(index)).await;
        }
        Ok(())
    }

    fn file_to_read(&self, unit: &Unit) -> Option<&PartitionedFile> {
        self.files
            .get(unit.file)
            .filter(|_| self.kept.get(unit.file) == Some(&true))
    }

    async fn run(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        unit: &Unit,
        listed: &PartitionedFile,
        emitter: &mut TryEmitter<UnitEvent, Error>,
    ) -> Result<()> {
        let attempted = format!("reading {:?}", file(&listed.object_meta));
        let failed = |error| core_error(&attempted, error);
        let plan = plan_of_unit(plan, unit, listed, self.limit).map_err(failed)?;
        let mut batches = plan.execute(0, Arc::clone(context)).map_err(failed)?;
        loop {
            let next = AssertUnwindSafe(batches.next()).catch_unwind().await;
            match next.map_err(|panic| panic_error(&attempted, panic.as_ref()))? {
                Some(batch) => {
                    let batch = self.columns.conform(batch.map_err(failed)?)?;
                    if batch.num_rows() > 0 {
                        emitter.emit(UnitEvent::Batch(batch)).await;
                    }
                }
                None => return Ok(()),
            }
        }
    }
}

/// The plan of a scan that can be run for one unit at a time.
///
/// # Errors
/// `internal` where it cannot: an optimizer rule of the session's own put something there that is not known.
async fn row_local_plan(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = state.create_physical_plan(plan).await;
    let plan = plan.map_err(|error| core_error("planning a scan of files", error))?;
    if is_row_local(&plan) {
        Ok(plan)
    } else {
        Err(Error::internal("a plan that was row-local no longer is"))
    }
}

/// The plan with nothing but one unit to scan.
fn plan_of_unit(
    plan: &Arc<dyn ExecutionPlan>,
    unit: &Unit,
    listed: &PartitionedFile,
    limit: Option<u64>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Arc::clone(plan)
        .transform_up(|node| {
            let Some(scan) = file_scan(node.as_ref()) else {
                return Ok(Transformed::no(node));
            };
            let mut file = listed.clone();
            if let Some((row_group, count)) = unit.row_group {
                let mut access = ParquetAccessPlan::new_none(count);
                access.set(row_group, RowGroupAccess::Scan);
                file = file.with_extension(access);
            }
            let scan = FileScanConfigBuilder::from(scan.clone())
                .with_file_groups(vec![FileGroup::new(vec![file])])
                .with_limit(limit)
                .build();
            Ok(Transformed::yes(
                DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>
            ))
        })
        .data()
}

/// Whether each row that a plan gives is made of one row of the files, in their order, so that it may be run in parts.
pub(super) fn is_row_local(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_known = file_scan(plan.as_ref()).is_some()
        || plan.is::<EmptyExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<ProjectionExec>()
        || plan
            .downcast_ref::<FilterExec>()
            .is_some_and(|filter| filter.fetch().is_none());
    is_known && plan.children().into_iter().all(is_row_local)
}
