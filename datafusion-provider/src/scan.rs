//! Plans a scan at the server, and makes up for whatever the plan does not promise.
//!
//! Reads no rows.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use lightstream_core::Error;
use lightstream_core::protocol::filter::{Expr as CoreExpr, Filter, Support};
use lightstream_core::protocol::plan::ScanPlan;
use lightstream_core::protocol::request::ScanRequest;

use crate::convert::{error, filter, schema};
use crate::exec::{LightstreamExec, ScanRequested};
use crate::table::LightstreamTable;

/// Where streams share the partitions of the server, each begins with up to so many of them.
const SHARES: u64 = 4;

/// Smaller partitions are not asked for, to be shared: each costs a request.
const SHARED_BYTES: u64 = 32 << 20;

/// Plans a scan that gives exactly the rows that DataFusion was promised.
pub(crate) async fn plan(
    table: &LightstreamTable,
    state: &dyn Session,
    projection: Option<&[usize]>,
    filters: &[Expr],
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let filters = HandedDown::new(table, filters);
    let target_partitions = state.config().target_partitions().max(1);
    let request = Request {
        table,
        filters: &filters,
        projection: projection.map(<[usize]>::to_vec),
        // A limit counts the rows that are left, so whoever applies it must apply every filter.
        limit: limit.filter(|_| filters.are_all_exact && filters.withheld.is_empty()),
        target_partitions,
        may_share: state
            .config_options()
            .execution
            .enable_file_stream_work_stealing,
    };
    let planned = request.plan().await?;
    let broken = filters.broken_promises(&planned);
    if broken.is_empty() {
        return Ok(Arc::new(request.exec(planned)));
    }

    // The filters must be applied here, over a scan that has their columns and is not cut short before them.
    let wider = filters.with_columns_of_promised(projection, &table.info().schema);
    let (request, planned) = if request.limit.is_none() && wider == request.projection {
        (request, planned)
    } else {
        release(table, &planned).await;
        let request = Request {
            projection: wider,
            limit: None,
            ..request
        };
        let planned = request.plan().await?;
        (request, planned)
    };
    let broken = filters.broken_promises(&planned);
    let exec: Arc<dyn ExecutionPlan> = Arc::new(request.exec(planned));
    apply_here(exec, broken, projection.map(<[usize]>::len), limit, state)
}

/// Applies filters above a scan, and cuts off the columns beyond the first `columns`, which only the filters needed.
fn apply_here(
    input: Arc<dyn ExecutionPlan>,
    filters: Vec<Expr>,
    columns: Option<usize>,
    limit: Option<usize>,
    state: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = DFSchema::try_from(input.schema())?;
    let filters = filters.into_iter().map(unnormalize_col);
    let predicate = match conjunction(filters) {
        Some(predicate) => create_physical_expr(
            &predicate,
            &schema,
            state.execution_props(),
            &PhysicalPlanningContext::default(),
        )?,
        // Planned anew, the server keeps its promises after all.
        None => datafusion::physical_expr::expressions::lit(true),
    };
    let filter = FilterExecBuilder::new(predicate, input)
        .apply_projection(columns.map(|columns| (0..columns).collect()))?
        .with_batch_size(state.config().batch_size())
        .with_fetch(limit)
        .build()?;
    Ok(Arc::new(filter))
}

/// Lets the server forget a plan that is not read. That it cannot be told is no reason to fail: plans expire.
async fn release(table: &LightstreamTable, plan: &ScanPlan) {
    if let Err(error) = table.client().release(plan).await {
        tracing::debug!(%error, "a plan that is not read was not released");
    }
}

/// The filters of a scan, translated where that is possible.
struct HandedDown<'a> {
    /// Each filter that the server is asked to apply, and what it is asked.
    sent: Vec<(&'a Expr, filter::Conjunct)>,
    /// Filters that DataFusion was told are exact, and that together are more than a server takes.
    withheld: Vec<&'a Expr>,
    /// The server is expected to leave exactly the rows that all filters leave.
    are_all_exact: bool,
}

impl<'a> HandedDown<'a> {
    fn new(table: &LightstreamTable, filters: &'a [Expr]) -> Self {
        let mut handed_down = Self {
            sent: Vec::new(),
            withheld: Vec::new(),
            are_all_exact: true,
        };
        let mut size = filter::Size::default();
        for filter in filters {
            let Some(conjunct) = table.conjunct(filter) else {
                handed_down.are_all_exact = false;
                continue;
            };
            handed_down.are_all_exact &= conjunct.is_exact;
            if let Some(sum) = size.checked_add(conjunct.size) {
                size = sum;
                handed_down.sent.push((filter, conjunct));
            } else if conjunct.is_exact {
                handed_down.withheld.push(filter);
            }
        }
        handed_down
    }

    fn to_core(&self) -> Filter {
        let conjuncts: Vec<CoreExpr> = self
            .sent
            .iter()
            .map(|(_, conjunct)| conjunct.expr.clone())
            .collect();
        Filter {
            float_rule: filter::FLOAT_RULE,
            conjuncts,
        }
    }

    /// Filters that DataFusion was told are exact.
    fn promised(&self) -> impl Iterator<Item = &'a Expr> {
        let sent = self
            .sent
            .iter()
            .filter(|(_, conjunct)| conjunct.is_exact)
            .map(|(filter, _)| *filter);
        sent.chain(self.withheld.iter().copied())
    }

    /// Filters that DataFusion was told are exact, and that this plan does not apply exactly.
    fn broken_promises(&self, plan: &ScanPlan) -> Vec<Expr> {
        let answered = self.sent.iter().zip(&plan.filters);
        let broken = answered
            .filter(|((_, conjunct), support)| conjunct.is_exact && **support != Support::Exact)
            .map(|((filter, _), _)| *filter);
        broken
            .chain(self.withheld.iter().copied())
            .cloned()
            .collect()
    }

    /// The projection, followed by those columns that any promised filter needs and it lacks.
    fn with_columns_of_promised(
        &self,
        projection: Option<&[usize]>,
        schema: &Schema,
    ) -> Option<Vec<usize>> {
        let mut columns = projection?.to_vec();
        for filter in self.promised() {
            let mut needed: Vec<usize> = filter
                .column_refs()
                .into_iter()
                .filter_map(|column| schema.index_of(&column.name).ok())
                .collect();
            needed.sort_unstable();
            needed.retain(|column| !columns.contains(column));
            columns.extend(needed);
        }
        Some(columns)
    }

    /// What the server was asked and answered like this, as text close to SQL.
    fn answered(&self, plan: &ScanPlan, wanted: Support) -> Vec<String> {
        let answered = self.sent.iter().zip(&plan.filters);
        answered
            .filter(|(_, support)| **support == wanted)
            .map(|((_, conjunct), _)| conjunct.expr.to_string())
            .collect()
    }
}

/// One way of asking for the scan.
struct Request<'a> {
    table: &'a LightstreamTable,
    filters: &'a HandedDown<'a>,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
    target_partitions: usize,
    /// Streams may take over partitions from each other.
    may_share: bool,
}

impl Request<'_> {
    /// Whether rows are wanted in the table's order: where it is known DataFusion can save a sort.
    fn is_ordered(&self) -> bool {
        self.table.client().options().ordered.unwrap_or(false)
            || !self.table.info().ordering.is_empty()
    }

    /// How many partitions the server is asked for.
    fn wanted_partitions(&self) -> u64 {
        let streams = self.target_partitions as u64;
        if streams == 1 || self.is_ordered() || !self.may_share {
            return streams;
        }
        let bytes = self.table.info().statistics.bytes.value().unwrap_or(0);
        streams.max((streams * SHARES).min(bytes / SHARED_BYTES))
    }

    async fn plan(&self) -> Result<ScanPlan> {
        let client = self.table.client();
        let options = client.options();
        let name = &self.table.info().name;
        let mut request = ScanRequest::table(name);
        request.projection = self.projection.clone();
        request.filter = self.filters.to_core();
        request.limit = self.limit.map(|limit| limit as u64);
        request.snapshot = options.snapshot.clone();
        request.max_partitions = options
            .partitions
            .or_else(|| u32::try_from(self.wanted_partitions()).ok());
        request.ordered = self.is_ordered();
        let plan = client
            .plan(&request)
            .await
            .map_err(|failure| error::of_table(client, name, failure))?;

        let described = projected(&self.table.info().schema, self.projection.as_deref())?;
        match schema::difference(&described, &plan.schema) {
            None => Ok(plan),
            Some(difference) => {
                release(self.table, &plan).await;
                let failure = Error::invalid_argument(format!(
                    "the table's schema is not the one it was described with; describe or register it again:{difference}"
                ));
                Err(error::of_table(client, name, failure))
            }
        }
    }

    fn exec(&self, plan: ScanPlan) -> LightstreamExec {
        let requested = ScanRequested {
            table: self.table.info().name.clone(),
            exact_filters: self.filters.answered(&plan, Support::Exact),
            inexact_filters: self.filters.answered(&plan, Support::Inexact),
            limit: self.limit,
            is_ordered: self.is_ordered(),
            is_shared: self.may_share,
        };
        LightstreamExec::new(
            self.table.client().clone(),
            requested,
            plan,
            self.target_partitions,
        )
    }
}

fn projected(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<SchemaRef> {
    Ok(match projection {
        None => Arc::clone(schema),
        Some(columns) => Arc::new(schema.project(columns)?),
    })
}
