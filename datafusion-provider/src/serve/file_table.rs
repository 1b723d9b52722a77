//! Tables of files: snapshots that outlive a plan, units, partitions.
//!
//! How DataFusion scans such a table stays DataFusion's own: its planner makes one plan, which `file_scan` then runs for
//! one unit at a time.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingTable, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::provider_as_source;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::SessionState;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType,
    UNNAMED_TABLE,
};
use datafusion::physical_plan::ExecutionPlan;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::table::{Capabilities, SortColumn, TableInfo, TableKind};
use lightstream_core::server::{Scan, Table};
use lightstream_core::{Error, Result};

use super::errors::core_error;
use super::file_scan::{FileScan, Reader, is_row_local};
use super::filters::{self, AppliedFilter};
use super::partition_values;
use super::provider_table::ProviderTable;
use super::rows::Columns;
use super::session;
use super::snapshot::{self, Snapshot};
use super::units::{self, LayoutCache};

/// A table of files of one of the formats that are cut into units.
pub(super) struct FileTable {
    context: SessionContext,
    provider: Arc<dyn TableProvider>,
    table: ListingTable,
    layouts: Arc<LayoutCache>,
}

impl FileTable {
    /// The provider as a table of files, if it is one.
    pub(super) fn try_new(
        context: &SessionContext,
        provider: &Arc<dyn TableProvider>,
        layouts: &Arc<LayoutCache>,
    ) -> Option<Self> {
        let table = provider
            .downcast_ref::<ListingTable>()
            .filter(|table| is_cut(table.options().format.as_ref()))?;
        Some(Self {
            context: context.clone(),
            provider: Arc::clone(provider),
            table: table.clone(),
            layouts: Arc::clone(layouts),
        })
    }

    async fn snapshot(&self, state: &SessionState, wanted: Option<&str>) -> Result<Snapshot> {
        let snapshot = snapshot::take(&self.table, state).await?;
        match wanted {
            Some(wanted) if wanted != snapshot.id => Err(Error::expired(format!(
                "snapshot {wanted:?} is no longer held: files have changed, and the newest is {:?}",
                snapshot.id
            ))),
            _ => Ok(snapshot),
        }
    }

    /// Rows of one file keep the declared order; those of several are in it file by file alone.
    fn ordering(&self, snapshot: &Snapshot) -> Vec<SortColumn> {
        let Some(order) = self
            .table
            .options()
            .file_sort_order
            .first()
            .filter(|_| snapshot.files.len() == 1)
        else {
            return Vec::new();
        };
        let column = |sort: &datafusion::logical_expr::SortExpr| match &sort.expr {
            DfExpr::Column(column) => Some(SortColumn {
                path: vec![column.name.clone()],
                descending: !sort.asc,
                nulls_first: sort.nulls_first,
            }),
            _ => None,
        };
        order.iter().map_while(column).collect()
    }

    /// One plan for all files, which names but the first.
    fn logical_plan(
        &self,
        scan: &FileScanConfig,
        columns: &Columns,
        filter: &AppliedFilter,
    ) -> DfResult<LogicalPlan> {
        let schema = self.table.schema();
        let files = FilesOf {
            schema: Arc::clone(&schema),
            scan: scan.clone(),
        };
        let mut plan =
            LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(Arc::new(files)), None)?;
        for condition in &filter.conditions {
            plan = plan.filter(condition.clone())?;
        }
        let planned = columns
            .planned
            .iter()
            .map(|&column| column_of(&schema, column));
        plan.project(planned.collect::<Vec<_>>())?.build()
    }
}

#[async_trait]
impl Table for FileTable {
    async fn describe(&self, name: &str, wanted: Option<&str>) -> Result<TableInfo> {
        let state = session::in_order(&self.context.state())?;
        let snapshot = self.snapshot(&state, wanted).await?;
        let cut = units::cut(&self.table, &snapshot, &state, &self.layouts).await?;
        Ok(TableInfo {
            name: name.to_owned(),
            kind: TableKind::Table,
            schema: self.table.schema(),
            ordering: self.ordering(&snapshot),
            snapshot: Some(snapshot.id),
            statistics: cut.statistics,
            capabilities: Capabilities {
                exact_filters: true,
                partitions: true,
            },
        })
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let state = session::in_order(&self.context.state())?;
        let snapshot = self.snapshot(&state, request.snapshot.as_deref()).await?;
        let schema = self.table.schema();
        let columns = Columns::of(&schema, request.projection.as_deref())?;
        let expressions: Vec<_> = (0..schema.fields().len())
            .map(|column| column_of(&schema, column))
            .collect();
        let filter = filters::translate(&request.filter, &schema, &expressions);
        let failed = |error| core_error("planning a scan of files", error);
        let plan = match &snapshot.scan {
            Some(scan) => {
                let plan = self.logical_plan(scan, &columns, &filter).map_err(failed)?;
                if !is_row_local(&state.create_physical_plan(&plan).await.map_err(failed)?) {
                    let request = ScanRequest {
                        snapshot: None,
                        ..request.clone()
                    };
                    return ProviderTable::of(&self.context, &self.provider)
                        .plan(&request)
                        .await;
                }
                Some(plan)
            }
            None => None,
        };
        let cut = units::cut(&self.table, &snapshot, &state, &self.layouts).await?;
        let mut statistics = cut
            .statistics
            .project(projection(request, &schema).as_slice());
        if !request.filter.conjuncts.is_empty() {
            statistics = statistics.to_inexact();
        }
        let runs = units::runs(&cut.units, request.max_partitions);
        let kept = partition_values::kept(&self.table, &snapshot.files, &filter.conditions, &state);
        let mut ordering = self.ordering(&snapshot);
        let is_read = |sort: &SortColumn| {
            sort.path
                .first()
                .is_some_and(|name| columns.schema.index_of(name).is_ok())
        };
        ordering.truncate(ordering.iter().take_while(|&sort| is_read(sort)).count());
        Ok(Arc::new(FileScan {
            partitions: runs
                .iter()
                .map(|run| units::partition(&cut.units[run.clone()]))
                .collect(),
            runs,
            units: cut.units.into(),
            reader: Arc::new(Reader {
                files: snapshot.files,
                kept,
                store: snapshot.store,
                plan,
                limit: request
                    .limit
                    .filter(|_| filter.conditions.is_empty() && filter.is_exact()),
                columns,
                state,
            }),
            snapshot: snapshot.id,
            ordering,
            statistics,
            support: filter.support,
        }))
    }
}

fn projection(request: &ScanRequest, schema: &SchemaRef) -> Vec<usize> {
    request
        .projection
        .clone()
        .unwrap_or_else(|| (0..schema.fields().len()).collect())
}

fn column_of(schema: &SchemaRef, column: usize) -> DfExpr {
    DfExpr::Column(Column::new(
        Some(UNNAMED_TABLE),
        schema.field(column).name(),
    ))
}

fn is_cut(format: &dyn FileFormat) -> bool {
    format.downcast_ref::<ParquetFormat>().is_some()
        || format.downcast_ref::<CsvFormat>().is_some()
        || format.downcast_ref::<JsonFormat>().is_some()
        || format.downcast_ref::<ArrowFormat>().is_some()
}

/// The files of a snapshot as DataFusion's planner sees them. Filters prune what is read of a file, and are applied again
/// to its rows; which files are read at all is decided elsewhere.
#[derive(Debug)]
struct FilesOf {
    schema: SchemaRef,
    scan: FileScanConfig,
}

#[async_trait]
impl TableProvider for FilesOf {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&DfExpr],
    ) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[DfExpr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let first = self
            .scan
            .file_groups
            .iter()
            .flat_map(|group| group.files())
            .take(1)
            .cloned();
        let scan = FileScanConfigBuilder::from(self.scan.clone())
            .with_file_groups(vec![FileGroup::new(
                first.collect::<Vec<PartitionedFile>>(),
            )])
            .with_output_ordering(Vec::new())
            .with_output_partitioning(None)
            .with_projection_indices(projection.cloned())?
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}
