//! What the tests share: rows, a table that can be told to misbehave, servers and sessions.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray,
    StringViewArray, StructArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, stream};
use lightstream_core::Result;
use lightstream_core::protocol::filter::{Filter, Support, support};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::{Precision, Statistics};
use lightstream_core::protocol::table::{Capabilities, SortColumn, TableInfo, TableKind};
use lightstream_core::server::{Scan, ScanPartition, Server, Table, UnitEvent, UnitStream, Units};
use lightstream_datafusion::{LightstreamExec, LightstreamTable, Options};

/// Batches of columns of many types, with nulls, NaN and both zeros among them; ids ascend from 0.
pub fn rows(batches: usize, rows_each: usize) -> Vec<RecordBatch> {
    let batch =
        |batch: usize| typed_rows((batch * rows_each) as i64..((batch + 1) * rows_each) as i64);
    (0..batches).map(batch).collect()
}

fn typed_rows(ids: Range<i64>) -> RecordBatch {
    let some = |every: i64| move |id: i64| (id % every != 0).then_some(id);
    let words = [
        "alpha", "beta", "gamma", "delta", "Alphabet", "", "10%", "naïve",
    ];
    let word = move |id: i64| some(7)(id).map(|id| words[(id % 8) as usize]);
    let floats = [
        0.0,
        -0.0,
        1.5,
        -1.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        100.25,
    ];
    let x: ArrayRef = Arc::new(ids.clone().map(|id| id % 5).collect::<Int64Array>());
    let pair = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, false)), x)]);
    let lists = ids
        .clone()
        .map(|id| some(4)(id).map(|id| vec![Some(id), None, Some(id + 1)]));
    let dates: Date32Array = ids
        .clone()
        .map(|id| Some(18_000 + id as i32 % 400))
        .collect();
    let decimals: Decimal128Array = ids
        .clone()
        .map(|id| some(6)(id).map(|id| i128::from(id) * 37 - 500))
        .collect();
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        (
            "id",
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            false,
        ),
        (
            "k",
            Arc::new(
                ids.clone()
                    .map(|id| some(5)(id).map(|id| id as i32 % 13))
                    .collect::<Int32Array>(),
            ),
            true,
        ),
        (
            "f",
            Arc::new(
                ids.clone()
                    .map(|id| some(9)(id).map(|id| floats[id as usize % 8]))
                    .collect::<Float64Array>(),
            ),
            true,
        ),
        (
            "s",
            Arc::new(ids.clone().map(word).collect::<StringArray>()),
            true,
        ),
        (
            "v",
            Arc::new(ids.clone().map(word).collect::<StringViewArray>()),
            true,
        ),
        ("d", Arc::new(dates), true),
        (
            "ts",
            Arc::new(
                ids.clone()
                    .map(|id| some(11)(id).map(|id| id * 1_000_000))
                    .collect::<TimestampMicrosecondArray>(),
            ),
            true,
        ),
        (
            "dec",
            Arc::new(decimals.with_precision_and_scale(12, 2).unwrap()),
            true,
        ),
        (
            "flag",
            Arc::new(
                ids.clone()
                    .map(|id| some(3)(id).map(|id| id % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
            true,
        ),
        (
            "code",
            Arc::new(
                ids.clone()
                    .map(word)
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
            true,
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            true,
        ),
        ("pair", Arc::new(pair), false),
    ];
    let fields = columns
        .iter()
        .map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(
        Arc::new(schema),
        columns.into_iter().map(|(_, array, _)| array).collect(),
    )
    .unwrap()
}

/// A table of which each batch is a unit, so that few rows make many partitions, and which may be told to misbehave.
#[derive(Clone)]
pub struct Pieces {
    pub batches: Vec<RecordBatch>,
    pub schema: SchemaRef,
    pub ordering: Vec<SortColumn>,
    /// What is answered of each conjunct that could be applied exactly. Below exact, nothing is applied.
    pub applies: Support,
    /// What is said of filters before a scan.
    pub promises_exact: bool,
    /// The schema that is described, where it is another than the rows have.
    pub described: Option<SchemaRef>,
    /// Snapshots are named.
    pub has_snapshots: bool,
    /// How often the table was described and planned.
    pub asked: Arc<Asked>,
}

/// How often a table was asked.
#[derive(Default)]
pub struct Asked {
    pub describes: AtomicUsize,
    pub plans: AtomicUsize,
    pub last: std::sync::Mutex<Option<ScanRequest>>,
}

impl Asked {
    pub fn describes(&self) -> usize {
        self.describes.load(Ordering::SeqCst)
    }

    /// The last scan that was planned.
    pub fn last(&self) -> ScanRequest {
        self.last
            .lock()
            .unwrap()
            .clone()
            .expect("nothing was planned")
    }
}

impl Pieces {
    pub fn new(batches: Vec<RecordBatch>) -> Self {
        Self {
            schema: batches[0].schema(),
            batches,
            ordering: Vec::new(),
            applies: Support::Exact,
            promises_exact: true,
            described: None,
            has_snapshots: true,
            asked: Arc::default(),
        }
    }

    fn statistics(&self) -> Statistics {
        let rows = self
            .batches
            .iter()
            .map(|batch| batch.num_rows() as u64)
            .sum();
        Statistics {
            rows: Precision::Exact(rows),
            ..Statistics::default()
        }
    }

    fn snapshot(&self) -> Option<String> {
        self.has_snapshots.then(|| "pieces-1".to_owned())
    }
}

#[async_trait]
impl Table for Pieces {
    async fn describe(&self, name: &str, _snapshot: Option<&str>) -> Result<TableInfo> {
        self.asked.describes.fetch_add(1, Ordering::SeqCst);
        Ok(TableInfo {
            name: name.to_owned(),
            kind: TableKind::Table,
            schema: self
                .described
                .clone()
                .unwrap_or_else(|| self.schema.clone()),
            snapshot: self.snapshot(),
            statistics: self.statistics(),
            ordering: self.ordering.clone(),
            capabilities: Capabilities {
                exact_filters: self.promises_exact,
                partitions: true,
            },
        })
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        self.asked.plans.fetch_add(1, Ordering::SeqCst);
        *self.asked.last.lock().unwrap() = Some(request.clone());
        let rule = request.filter.float_rule;
        let judge = |conjunct| support(conjunct, &self.schema, rule).min(self.applies);
        let filters: Vec<Support> = request.filter.conjuncts.iter().map(judge).collect();
        let applied = request
            .filter
            .conjuncts
            .iter()
            .zip(&filters)
            .filter(|(_, support)| **support == Support::Exact);
        let filter = Filter {
            float_rule: rule,
            conjuncts: applied.map(|(conjunct, _)| conjunct.clone()).collect(),
        };
        let wanted = request.max_partitions.map_or(4, |most| most as usize);
        let groups = wanted.min(self.batches.len()).max(1);
        let start = |group: usize| self.batches.len() * group / groups;
        let ranges: Vec<Range<usize>> = (0..groups)
            .map(|group| start(group)..start(group + 1))
            .collect();
        let partitions = ranges.iter().map(|range| ScanPartition {
            rows: Precision::Exact(
                self.batches[range.clone()]
                    .iter()
                    .map(|batch| batch.num_rows() as u64)
                    .sum(),
            ),
            bytes: Precision::Absent,
            units: range.len() as u64,
            resumable: true,
        });
        let schema = match &request.projection {
            None => self.schema.clone(),
            Some(columns) => Arc::new(self.schema.project(columns).unwrap()),
        };
        Ok(Arc::new(PiecesScan {
            partitions: partitions.collect(),
            table: self.clone(),
            snapshot: self.snapshot(),
            projection: request.projection.clone(),
            filter,
            filters,
            ranges,
            schema,
        }))
    }
}

struct PiecesScan {
    table: Pieces,
    snapshot: Option<String>,
    projection: Option<Vec<usize>>,
    filter: Filter,
    filters: Vec<Support>,
    ranges: Vec<Range<usize>>,
    partitions: Vec<ScanPartition>,
    schema: SchemaRef,
}

impl PiecesScan {
    fn read(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let batch = self.filter.apply(batch)?;
        let Some(columns) = &self.projection else {
            return Ok(batch);
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns
            .iter()
            .map(|&column| batch.column(column).clone())
            .collect();
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).unwrap())
    }
}

impl Scan for PiecesScan {
    fn snapshot(&self) -> Option<&str> {
        self.snapshot.as_deref()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn ordering(&self) -> Vec<SortColumn> {
        self.table.ordering.clone()
    }

    fn statistics(&self) -> Statistics {
        let known = self.table.statistics();
        if self.filter.conjuncts.is_empty() {
            known
        } else {
            known.to_inexact()
        }
    }

    fn filters(&self) -> &[Support] {
        &self.filters
    }

    fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    fn open(&self, partition: usize, units: Units) -> Result<UnitStream> {
        let batches = &self.table.batches[self.ranges[partition].clone()];
        let events = units.within(batches.len() as u64).flat_map(|unit| {
            [
                self.read(&batches[unit as usize]).map(UnitEvent::Batch),
                Ok(UnitEvent::End(unit)),
            ]
        });
        Ok(stream::iter(events.collect::<Vec<_>>()).boxed())
    }
}

/// A server of one table named `t`.
pub async fn serve(table: impl Table) -> Server {
    Server::builder()
        .table("t", table)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap()
}

/// The URL of a server's table.
pub fn url_of(server: &Server, table: &str) -> String {
    format!("{}/{table}", server.url())
}

/// A session of so many partitions.
pub fn session(target_partitions: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(target_partitions))
}

/// Registers the server's table `t` under its name.
pub async fn register(
    ctx: &SessionContext,
    server: &Server,
    options: Options,
) -> Arc<LightstreamTable> {
    let table = Arc::new(
        LightstreamTable::connect(&url_of(server, "t"), options)
            .await
            .unwrap(),
    );
    ctx.register_table("t", table.clone()).unwrap();
    table
}

/// Registers the same rows in memory, under the same name.
pub fn register_local(ctx: &SessionContext, batches: Vec<RecordBatch>) {
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
}

/// The result of a query, one line for a row, in order.
pub async fn lines(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let run = async { ctx.sql(sql).await?.collect().await };
    let batches = run.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = pretty_format_batches(&batches).unwrap().to_string();
    text.lines()
        .filter(|line| line.starts_with('|'))
        .skip(1)
        .map(str::to_owned)
        .collect()
}

/// The physical plan of a query.
pub async fn physical(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap()
}

/// The physical plan of a query as EXPLAIN shows it.
pub async fn explained(ctx: &SessionContext, sql: &str) -> String {
    displayable(physical(ctx, sql).await.as_ref())
        .indent(false)
        .to_string()
}

/// The scan of a plan, which has one.
pub fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> &LightstreamExec {
    fn find(plan: &Arc<dyn ExecutionPlan>) -> Option<&LightstreamExec> {
        plan.downcast_ref::<LightstreamExec>()
            .or_else(|| plan.children().into_iter().find_map(find))
    }
    find(plan).expect("the plan scans no remote table")
}
