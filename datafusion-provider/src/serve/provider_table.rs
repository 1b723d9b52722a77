//! Tables of any other kind: custom providers, tables in memory, views and queries, each read as one partition.
//!
//! Promises nothing beyond a plan: such a table has no snapshot, and reading it starts at its beginning.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result as DfResult;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{
    Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, TableType, UNNAMED_TABLE,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use lightstream_core::Result;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::Statistics;
use lightstream_core::protocol::table::{Capabilities, TableInfo, TableKind};
use lightstream_core::server::{Scan, Table};

use super::errors::core_error;
use super::filters::{self, AppliedFilter};
use super::plan_scan::PlanScan;
use super::rows::Columns;
use super::{session, statistics};

/// A table that DataFusion plans and runs as a whole.
pub(super) struct ProviderTable {
    context: SessionContext,
    source: Source,
}

enum Source {
    Provider(Arc<dyn TableProvider>),
    /// A query, and the schema of its result once it has been analyzed.
    Query(Box<LogicalPlan>, SchemaRef),
}

impl ProviderTable {
    /// The table that a provider stands for.
    pub(super) fn of(context: &SessionContext, provider: &Arc<dyn TableProvider>) -> Self {
        Self {
            context: context.clone(),
            source: Source::Provider(Arc::clone(provider)),
        }
    }

    /// The result of a query that changes nothing.
    pub(super) async fn query(context: &SessionContext, sql: &str) -> Result<Self> {
        let failed = |error| core_error("planning a query", error);
        let state = session::in_parallel(&context.state())?;
        let plan = state.create_logical_plan(sql).await.map_err(failed)?;
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        read_only.verify_plan(&plan).map_err(failed)?;
        let analyzed = state.optimize(&plan).map_err(failed)?;
        let schema = Arc::clone(analyzed.schema().inner());
        Ok(Self {
            context: context.clone(),
            source: Source::Query(Box::new(plan), schema),
        })
    }

    fn kind(&self) -> TableKind {
        match &self.source {
            Source::Provider(provider) if provider.table_type() != TableType::View => {
                TableKind::Table
            }
            _ => TableKind::View,
        }
    }

    fn schema(&self) -> SchemaRef {
        match &self.source {
            Source::Provider(provider) => provider.schema(),
            Source::Query(_, schema) => Arc::clone(schema),
        }
    }

    /// Whether rows have an order that reading several partitions at a time would lose.
    fn is_in_order(&self) -> bool {
        matches!(&self.source, Source::Provider(provider) if provider.is::<MemTable>())
    }

    fn logical_plan(&self) -> DfResult<LogicalPlanBuilder> {
        match &self.source {
            Source::Provider(provider) => LogicalPlanBuilder::scan(
                UNNAMED_TABLE,
                provider_as_source(Arc::clone(provider)),
                None,
            ),
            Source::Query(plan, _) => Ok(LogicalPlanBuilder::from(plan.as_ref().clone())),
        }
    }

    /// What is known of the rows of a plan that holds back none of them.
    fn statistics(&self, plan: &dyn ExecutionPlan, schema: &SchemaRef) -> Statistics {
        let known = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
        let known = known
            .map(|known| statistics::statistics(&known, schema))
            .unwrap_or_default();
        match self.kind() {
            TableKind::Table => known,
            // What operators make of statistics are estimates.
            TableKind::View => known.to_inexact(),
        }
    }

    /// A plan and what it runs under. The settings of a session count when a plan is run, too.
    async fn physical_plan(
        &self,
        logical: &LogicalPlan,
        ordered: bool,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let parallel = session::in_parallel(&self.context.state())?;
        if !self.is_in_order() {
            let plan = create(&parallel, logical).await?;
            if !ordered || plan.output_ordering().is_some() {
                return Ok((plan, parallel.task_ctx()));
            }
        }
        let in_order = session::in_order(&self.context.state())?;
        Ok((create(&in_order, logical).await?, in_order.task_ctx()))
    }
}

async fn create(state: &SessionState, logical: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = state.create_physical_plan(logical).await;
    plan.map_err(|error| core_error("planning a scan", error))
}

/// One partition out of several, in the order that they have; unless they are to be read one by one.
fn merged(plan: &Arc<dyn ExecutionPlan>, one_by_one: bool) -> Arc<dyn ExecutionPlan> {
    if plan.properties().partitioning.partition_count() <= 1 {
        return Arc::clone(plan);
    }
    match plan.output_ordering() {
        Some(ordering) => Arc::new(SortPreservingMergeExec::new(
            ordering.clone(),
            Arc::clone(plan),
        )),
        None if one_by_one => Arc::clone(plan),
        None => Arc::new(CoalescePartitionsExec::new(Arc::clone(plan))),
    }
}

#[async_trait]
impl Table for ProviderTable {
    async fn describe(&self, name: &str, snapshot: Option<&str>) -> Result<TableInfo> {
        refuse_snapshot(snapshot)?;
        let schema = self.schema();
        // Planning a view can take as long as reading it.
        let known = match (&self.source, self.kind()) {
            (Source::Provider(_), TableKind::Table) => {
                let logical = self.logical_plan().and_then(LogicalPlanBuilder::build);
                let logical = logical.map_err(|error| core_error("describing a table", error))?;
                let (plan, _) = self.physical_plan(&logical, false).await?;
                self.statistics(plan.as_ref(), &schema)
            }
            _ => Statistics::default(),
        };
        Ok(TableInfo {
            name: name.to_owned(),
            kind: self.kind(),
            schema,
            snapshot: None,
            statistics: known,
            ordering: Vec::new(),
            capabilities: Capabilities {
                exact_filters: true,
                partitions: false,
            },
        })
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        refuse_snapshot(request.snapshot.as_deref())?;
        let schema = self.schema();
        let columns = Columns::of(&schema, request.projection.as_deref())?;
        let failed = |error| core_error("planning a scan", error);
        let source = self.logical_plan().map_err(failed)?;
        let expressions: Vec<_> = source
            .schema()
            .iter()
            .map(|(qualifier, field)| DfExpr::Column(Column::from((qualifier, field))))
            .collect();
        let filter = filters::translate(&request.filter, &schema, &expressions);
        let logical =
            narrow(source, &filter, &columns, &expressions, request.limit).map_err(failed)?;
        let (plan, context) = self.physical_plan(&logical, request.ordered).await?;
        let plan = merged(&plan, request.ordered || self.is_in_order());
        let mut known = columns.statistics(self.statistics(plan.as_ref(), &columns.planned_schema));
        if !request.filter.conjuncts.is_empty() || request.limit.is_some() {
            known = known.to_inexact();
        }
        Ok(Arc::new(PlanScan::new(
            plan,
            columns,
            context,
            known,
            filter.support,
        )))
    }
}

/// The rows and columns that are asked for. Nothing is put around a plan of which all is wanted.
fn narrow(
    source: LogicalPlanBuilder,
    filter: &AppliedFilter,
    columns: &Columns,
    expressions: &[DfExpr],
    limit: Option<u64>,
) -> DfResult<LogicalPlan> {
    let mut plan = source;
    for condition in &filter.conditions {
        plan = plan.filter(condition.clone())?;
    }
    if !columns.planned.iter().copied().eq(0..expressions.len()) {
        let planned = columns
            .planned
            .iter()
            .filter_map(|&column| expressions.get(column).cloned());
        plan = plan.project(planned.collect::<Vec<_>>())?;
    }
    // A limit that comes before conditions which the client still applies would hold back rows that pass them.
    if let Some(limit) = limit.filter(|_| filter.is_exact()) {
        plan = plan.limit(0, Some(usize::try_from(limit).unwrap_or(usize::MAX)))?;
    }
    plan.build()
}

fn refuse_snapshot(snapshot: Option<&str>) -> Result<()> {
    match snapshot {
        None => Ok(()),
        Some(snapshot) => Err(lightstream_core::Error::expired(format!(
            "snapshot {snapshot:?} is not held: this table has none that outlives a plan"
        ))),
    }
}
