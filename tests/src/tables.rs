//! Tables made for tests: rows of many types, tables of small units, of a slow partition, without end, and one that
//! never answers.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use futures::{StreamExt, stream};
use lightstream_core::Result;
use lightstream_core::protocol::filter::Support;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::{Precision, Statistics};
use lightstream_core::protocol::table::{Capabilities, SortColumn, TableInfo, TableKind};
use lightstream_core::server::{Scan, ScanPartition, Table, UnitEvent, UnitStream, Units};
use tokio::sync::Semaphore;

/// Batches of columns of many types, with nulls; `id` ascends from 0, and each batch has a dictionary of its own.
pub fn many_types(batches: usize, rows_each: usize) -> Vec<RecordBatch> {
    (0..batches as i64)
        .map(|batch| {
            typed(
                batch,
                batch * rows_each as i64..(batch + 1) * rows_each as i64,
            )
        })
        .collect()
}

fn typed(batch: i64, ids: Range<i64>) -> RecordBatch {
    let some = |every: i64| move |id: i64| (id % every != 0).then_some(id);
    let text =
        move |id: i64| some(7)(id).map(|id| format!("{}naïve {id}", "x".repeat(id as usize % 40)));
    let word = move |id: i64| some(5)(id).map(|id| format!("word {batch} {}", id % 4));
    let integers: ArrayRef = Arc::new(ids.clone().map(some(3)).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new(ids.clone().map(text).collect::<StringArray>());
    let pair = StructArray::from(vec![
        (Arc::new(Field::new("x", DataType::Int64, true)), integers),
        (
            Arc::new(Field::new("y", DataType::Utf8, true)),
            texts.clone(),
        ),
    ]);
    let lists = ids
        .clone()
        .map(|id| some(4)(id).map(|id| (0..id % 5).map(|x| some(2)(x + id)).collect::<Vec<_>>()));
    let words: Vec<Option<String>> = ids.clone().map(word).collect();
    let decimals: Decimal128Array = ids
        .clone()
        .map(|id| some(6)(id).map(|id| i128::from(id) * 37 - 500))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        (
            "k",
            Arc::new(
                ids.clone()
                    .map(|id| some(5)(id).map(|id| id as i32 % 13))
                    .collect::<Int32Array>(),
            ),
        ),
        (
            "f",
            Arc::new(
                ids.clone()
                    .map(|id| some(9)(id).map(|id| id as f64 / 3.0))
                    .collect::<Float64Array>(),
            ),
        ),
        ("s", texts),
        (
            "v",
            Arc::new(ids.clone().map(text).collect::<StringViewArray>()),
        ),
        (
            "dec",
            Arc::new(decimals.with_precision_and_scale(12, 2).unwrap()),
        ),
        (
            "word",
            Arc::new(
                words
                    .iter()
                    .map(Option::as_deref)
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
        ),
        ("pair", Arc::new(pair)),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

/// A table of which each batch is a unit, so that few rows make many units and partitions. It projects and applies no
/// filter.
#[derive(Clone)]
pub struct SmallUnits {
    batches: Arc<Vec<RecordBatch>>,
    schema: SchemaRef,
}

impl SmallUnits {
    /// A table of these batches, which there must be.
    pub fn new(batches: Vec<RecordBatch>) -> Self {
        Self {
            schema: batches[0].schema(),
            batches: Arc::new(batches),
        }
    }
}

#[async_trait]
impl Table for SmallUnits {
    async fn describe(&self, name: &str, _snapshot: Option<&str>) -> Result<TableInfo> {
        Ok(info(name, &self.schema))
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let most = request.max_partitions.map_or(3, |most| most as usize);
        let count = most.min(self.batches.len()).max(1);
        let start = |partition: usize| self.batches.len() * partition / count;
        let ranges: Vec<_> = (0..count)
            .map(|partition| start(partition)..start(partition + 1))
            .collect();
        let units = ranges.iter().map(|range| range.len() as u64);
        let partitions: Vec<ScanPartition> = units
            .map(|units| ScanPartition {
                units,
                resumable: true,
                ..ScanPartition::default()
            })
            .collect();
        let schema = match &request.projection {
            None => Arc::clone(&self.schema),
            Some(columns) => Arc::new(self.schema.project(columns).unwrap()),
        };
        let batches = Arc::clone(&self.batches);
        let projection = request.projection.clone();
        let read = move |partition: usize, units: Units| {
            let range = ranges[partition].clone();
            let (batches, projection) = (Arc::clone(&batches), projection.clone());
            let events = units.within(range.len() as u64).flat_map(move |unit| {
                let batch = &batches[range.start + unit as usize];
                let batch = match &projection {
                    None => batch.clone(),
                    Some(columns) => batch.project(columns).unwrap(),
                };
                [Ok(UnitEvent::Batch(batch)), Ok(UnitEvent::End(unit))]
            });
            stream::iter(events).boxed()
        };
        let filters = vec![Support::Unsupported; request.filter.conjuncts.len()];
        Ok(Arc::new(TestScan {
            schema,
            filters,
            partitions,
            read: Box::new(read),
        }))
    }
}

/// A table of four partitions. The first gives nothing before the three others have been read.
pub struct FirstIsLast {
    rows: RecordBatch,
    others_read: Arc<Semaphore>,
}

impl FirstIsLast {
    /// Each partition has these rows.
    pub fn new(rows: RecordBatch) -> Self {
        Self {
            rows,
            others_read: Arc::new(Semaphore::new(0)),
        }
    }
}

#[async_trait]
impl Table for FirstIsLast {
    async fn describe(&self, name: &str, _snapshot: Option<&str>) -> Result<TableInfo> {
        Ok(info(name, &self.rows.schema()))
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let partition = ScanPartition {
            units: 1,
            resumable: true,
            ..ScanPartition::default()
        };
        let (rows, others_read) = (self.rows.clone(), Arc::clone(&self.others_read));
        let read = move |partition: usize, _: Units| {
            let (rows, others_read) = (rows.clone(), Arc::clone(&others_read));
            let first = async move {
                if partition == 0 {
                    others_read.acquire_many(3).await.unwrap().forget();
                } else {
                    others_read.add_permits(1);
                }
                Ok(UnitEvent::Batch(rows))
            };
            let end = stream::iter([Ok(UnitEvent::End(0))]);
            stream::once(first).chain(end).boxed()
        };
        Ok(Arc::new(TestScan {
            schema: self.rows.schema(),
            filters: vec![Support::Unsupported; request.filter.conjuncts.len()],
            partitions: vec![partition; 4],
            read: Box::new(read),
        }))
    }
}

fn info(name: &str, schema: &SchemaRef) -> TableInfo {
    TableInfo {
        name: name.to_owned(),
        kind: TableKind::Table,
        schema: Arc::clone(schema),
        snapshot: Some("only".to_owned()),
        statistics: Statistics::default(),
        ordering: Vec::new(),
        capabilities: Capabilities {
            exact_filters: false,
            partitions: true,
        },
    }
}

type Read = Box<dyn Fn(usize, Units) -> UnitStream + Send + Sync>;

struct TestScan {
    schema: SchemaRef,
    filters: Vec<Support>,
    partitions: Vec<ScanPartition>,
    read: Read,
}

impl Scan for TestScan {
    fn snapshot(&self) -> Option<&str> {
        Some("only")
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn ordering(&self) -> Vec<SortColumn> {
        Vec::new()
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            rows: Precision::Absent,
            ..Statistics::default()
        }
    }

    fn filters(&self) -> &[Support] {
        &self.filters
    }

    fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    fn open(&self, partition: usize, units: Units) -> Result<UnitStream> {
        Ok((self.read)(partition, units))
    }
}

/// A table that is of no use to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Useless {
    /// It has no end: one unit after the other, of the rows of [`Useless::batch`].
    Endless,
    /// Its scan is planned, and never gives a row.
    NeverYields,
    /// Its plan is never made.
    NeverPlans,
}

impl Useless {
    /// What an endless table repeats.
    pub fn batch() -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..16_384));
        RecordBatch::try_from_iter([("id", ids)]).unwrap()
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
    }
}

#[async_trait]
impl Table for Useless {
    async fn describe(&self, name: &str, _snapshot: Option<&str>) -> Result<TableInfo> {
        Ok(info(name, &Self::schema()))
    }

    async fn plan(&self, _request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let read: Read = match self {
            Useless::NeverPlans => std::future::pending().await,
            Useless::NeverYields => Box::new(|_, _| stream::pending().boxed()),
            Useless::Endless => Box::new(|_, units| {
                let batch = Self::batch();
                let events = units.within(u64::MAX).flat_map(move |unit| {
                    [
                        Ok(UnitEvent::Batch(batch.clone())),
                        Ok(UnitEvent::End(unit)),
                    ]
                });
                stream::iter(events).boxed()
            }),
        };
        let partition = ScanPartition {
            units: u64::MAX,
            resumable: true,
            ..ScanPartition::default()
        };
        let scan = TestScan {
            schema: Self::schema(),
            filters: Vec::new(),
            partitions: vec![partition],
            read,
        };
        Ok(Arc::new(scan))
    }
}
