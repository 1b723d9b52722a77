//! Tables of a Flight server in DataFusion. Pushed down are the columns; filters and limits are DataFusion's own.

use std::fmt;
use std::sync::Arc;

use arrow_flight::{FlightDescriptor, Ticket};
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err, project_schema};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;
use futures::{TryFutureExt, TryStreamExt};
use lightstream_benchmarks::flight;
use tonic::transport::{Channel, Endpoint};

use super::Request;

/// Registers every table of a server, to be read over so many connections, which all tables share.
pub async fn register(
    context: &SessionContext,
    url: &str,
    connections: usize,
) -> lightstream_benchmarks::Result<()> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        let endpoint = Endpoint::from_shared(url.to_owned())?;
        channels.push(endpoint.connect().await?);
    }
    let channels = Channels(channels.into());
    let mut client = flight::client(channels.get(0)?);
    let listed = client.list_flights(Vec::<u8>::new()).await?;
    for info in listed.try_collect::<Vec<_>>().await? {
        let descriptor = info.flight_descriptor.as_ref();
        let name = descriptor.and_then(|descriptor| descriptor.path.first());
        let name = name.ok_or("a flight without a name")?.clone();
        let table = FlightTable {
            name: name.clone(),
            rows: usize::try_from(info.total_records)?,
            schema: Arc::new(info.try_decode_schema()?),
            channels: channels.clone(),
        };
        context.register_table(name, Arc::new(table))?;
    }
    Ok(())
}

#[derive(Debug, Clone)]
struct Channels(Arc<[Channel]>);

impl Channels {
    /// The connection of a partition.
    fn get(&self, partition: usize) -> Result<Channel> {
        match self.0.get(partition % self.0.len().max(1)) {
            Some(channel) => Ok(channel.clone()),
            None => internal_err!("there are no connections"),
        }
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[derive(Debug)]
struct FlightTable {
    name: String,
    rows: usize,
    schema: SchemaRef,
    channels: Channels,
}

#[async_trait]
impl TableProvider for FlightTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = project_schema(&self.schema, projection)?;
        let request = Request {
            table: self.name.clone(),
            projection: projection.cloned(),
            partitions: state.config().target_partitions(),
        };
        let command = serde_json::to_vec(&request).map_err(external)?;
        let mut client = flight::client(self.channels.get(0)?);
        let info = client
            .get_flight_info(FlightDescriptor::new_cmd(command))
            .await
            .map_err(external)?;
        let tickets: Vec<Ticket> = info
            .endpoint
            .into_iter()
            .filter_map(|endpoint| endpoint.ticket)
            .collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(tickets.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Arc::new(FlightExec {
            table: self.name.clone(),
            rows: self.rows,
            schema,
            channels: self.channels.clone(),
            tickets,
            properties: Arc::new(properties),
        }))
    }
}

#[derive(Debug)]
struct FlightExec {
    table: String,
    rows: usize,
    schema: SchemaRef,
    channels: Channels,
    /// One for each partition.
    tickets: Vec<Ticket>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for FlightExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "FlightExec: table={}, partitions={}, projection=[{}]",
            self.table,
            self.tickets.len(),
            columns.join(", ")
        )
    }
}

impl ExecutionPlan for FlightExec {
    fn name(&self) -> &str {
        "FlightExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
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

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(ticket) = self.tickets.get(partition).cloned() else {
            return internal_err!("there is no partition {partition}");
        };
        let mut client = flight::client(self.channels.get(partition)?);
        let batches = async move { client.do_get(ticket).await }
            .map_ok(|batches| batches.map_err(external))
            .map_err(external)
            .try_flatten_stream();
        let schema = Arc::clone(&self.schema);
        let stream = RecordBatchStreamAdapter::new(schema, Box::pin(batches));
        Ok(Box::pin(cooperative(stream)))
    }

    /// The number of rows is known of the whole table, as a Flight server says it; joins are ordered by it.
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut known = Statistics::new_unknown(&self.schema);
        if partition.is_none() {
            known.num_rows = Precision::Exact(self.rows);
        }
        Ok(Arc::new(known))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        #[allow(deprecated, reason = "foreign plans still ask by the older name")]
        self.partition_statistics(args.partition())
    }
}
