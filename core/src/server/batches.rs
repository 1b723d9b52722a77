//! Scans over a fixed list of batches, in memory or in a mapped file: units, partitions, projection and filters.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use futures::StreamExt;

use super::UNIT_BYTES;
use super::share::share_out;
use super::table::{Scan, ScanPartition, UnitEvent, UnitStream};
use crate::error::{Error, Result};
use crate::protocol::filter::{Expr, Filter, Support, support};
use crate::protocol::request::{ScanRequest, project_schema};
use crate::protocol::statistics::{Precision, Statistics};
use crate::protocol::table::{Capabilities, SortColumn, TableInfo, TableKind};
use crate::protocol::units::Units;

/// Rows of a unit of short rows are a multiple of this, so that validity bitmaps are cut at whole bytes.
const UNIT_ROWS_STEP: u64 = 64;

/// A list of batches that never changes.
pub(super) trait BatchSource: Send + Sync + 'static {
    /// The schema of every batch.
    fn schema(&self) -> &SchemaRef;
    /// How many batches there are.
    fn count(&self) -> usize;
    /// Rows of a batch.
    fn rows(&self, batch: usize) -> u64;
    /// Bytes of a batch, about.
    fn bytes(&self, batch: usize) -> u64;
    /// A batch.
    fn batch(&self, batch: usize) -> Result<RecordBatch>;
    /// What is known of all rows.
    fn statistics(&self) -> Statistics;
}

/// A stretch of rows of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    batch: usize,
    rows: Range<u64>,
}

/// What is read or not read as a whole: rows given by the batches alone, whatever is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Unit {
    stretches: Vec<Stretch>,
    rows: u64,
    bytes: u64,
}

/// Cuts large batches and joins small ones, so that units are of about equal size.
fn units(source: &dyn BatchSource) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut open = Unit::default();
    for batch in 0..source.count() {
        let (rows, bytes) = (source.rows(batch), source.bytes(batch));
        if rows == 0 {
            continue;
        }
        let row_bytes = bytes as f64 / rows as f64;
        let most = (UNIT_BYTES as f64 / row_bytes.max(0.001)) as u64;
        let step = match most / UNIT_ROWS_STEP {
            0 => most.max(1),
            steps => steps * UNIT_ROWS_STEP,
        };
        let mut start = 0;
        while start < rows {
            // A rest of less than half a unit is not worth one of its own.
            let end = if rows - start < step + step / 2 {
                rows
            } else {
                start + step
            };
            let part = (row_bytes * (end - start) as f64) as u64;
            if !open.stretches.is_empty() && open.bytes + part > UNIT_BYTES as u64 {
                units.push(std::mem::take(&mut open));
            }
            open.stretches.push(Stretch {
                batch,
                rows: start..end,
            });
            open.rows += end - start;
            open.bytes += part;
            start = end;
        }
    }
    if !open.stretches.is_empty() {
        units.push(open);
    }
    units
}

/// One state of a table of batches.
pub(super) struct TableState<S> {
    source: S,
    units: Vec<Unit>,
    snapshot: String,
    ordering: Vec<SortColumn>,
}

impl<S: BatchSource> TableState<S> {
    pub(super) fn new(source: S, snapshot: String, ordering: Vec<SortColumn>) -> Self {
        Self {
            units: units(&source),
            source,
            snapshot,
            ordering,
        }
    }

    pub(super) fn source(&self) -> &S {
        &self.source
    }

    pub(super) fn snapshot(&self) -> &str {
        &self.snapshot
    }

    pub(super) fn describe(&self, name: &str) -> TableInfo {
        TableInfo {
            name: name.to_owned(),
            kind: TableKind::Table,
            schema: Arc::clone(self.source.schema()),
            snapshot: Some(self.snapshot.clone()),
            statistics: self.source.statistics(),
            ordering: self.ordering.clone(),
            capabilities: Capabilities {
                exact_filters: true,
                partitions: true,
            },
        }
    }
}

/// A planned scan over batches.
pub(super) struct BatchScan<S> {
    reader: Arc<Reader<S>>,
    ordering: Vec<SortColumn>,
    statistics: Statistics,
    filters: Vec<Support>,
    partitions: Vec<ScanPartition>,
    /// The units of each partition.
    ranges: Vec<Range<usize>>,
}

struct Reader<S> {
    table: Arc<TableState<S>>,
    projection: Option<Vec<usize>>,
    /// The conjuncts that are applied here.
    filter: Filter,
    schema: SchemaRef,
}

impl<S: BatchSource> BatchScan<S> {
    pub(super) fn try_new(table: Arc<TableState<S>>, request: &ScanRequest) -> Result<Self> {
        let whole = Arc::clone(table.source.schema());
        let (schema, mut statistics) = match &request.projection {
            None => (Arc::clone(&whole), table.source.statistics()),
            Some(columns) => (
                project_schema(&whole, columns)?,
                table.source.statistics().project(columns),
            ),
        };
        let rule = request.filter.float_rule;
        let filters: Vec<Support> = request
            .filter
            .conjuncts
            .iter()
            .map(|conjunct| support(conjunct, &whole, rule))
            .collect();
        let applied: Vec<Expr> = request
            .filter
            .conjuncts
            .iter()
            .zip(&filters)
            .filter(|(_, support)| **support != Support::Unsupported)
            .map(|(conjunct, _)| conjunct.clone())
            .collect();
        if !applied.is_empty() {
            statistics = statistics.to_inexact();
        }
        let bytes: Vec<u64> = table.units.iter().map(|unit| unit.bytes).collect();
        let ranges = share_out(&bytes, request.max_partitions);
        let partitions = ranges
            .iter()
            .map(|range| {
                let units = table.units.get(range.clone()).unwrap_or_default();
                ScanPartition {
                    rows: Precision::Exact(units.iter().map(|unit| unit.rows).sum()),
                    bytes: Precision::Inexact(units.iter().map(|unit| unit.bytes).sum()),
                    units: range.len() as u64,
                    resumable: true,
                }
            })
            .collect();
        let ordering: Vec<SortColumn> = table
            .ordering
            .iter()
            .take_while(|column| {
                column
                    .path
                    .first()
                    .is_some_and(|name| schema.fields().iter().any(|field| field.name() == name))
            })
            .cloned()
            .collect();
        Ok(Self {
            ordering,
            statistics,
            filters,
            partitions,
            ranges,
            reader: Arc::new(Reader {
                table,
                projection: request.projection.clone(),
                filter: Filter {
                    float_rule: rule,
                    conjuncts: applied,
                },
                schema,
            }),
        })
    }
}

impl<S: BatchSource> Reader<S> {
    fn read(&self, stretch: &Stretch) -> Result<RecordBatch> {
        let batch = self.table.source.batch(stretch.batch)?;
        let (start, end) = (stretch.rows.start as usize, stretch.rows.end as usize);
        let batch = if start == 0 && end == batch.num_rows() {
            batch
        } else {
            batch.slice(start, end - start)
        };
        let mask = if self.filter.conjuncts.is_empty() {
            None
        } else {
            Some(self.filter.mask(0..self.filter.conjuncts.len(), &batch)?)
        };
        let broken = |error| Error::internal("rows could not be selected").with_source(error);
        let batch = match &self.projection {
            None => batch,
            Some(columns) => batch.project(columns).map_err(broken)?,
        };
        let batch = match mask {
            None => batch,
            Some(mask) => {
                arrow_select::filter::filter_record_batch(&batch, &mask).map_err(broken)?
            }
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            batch.columns().to_vec(),
            &options,
        )
        .map_err(broken)
    }
}

impl<S: BatchSource> Scan for BatchScan<S> {
    fn snapshot(&self) -> Option<&str> {
        Some(&self.reader.table.snapshot)
    }

    fn schema(&self) -> &SchemaRef {
        &self.reader.schema
    }

    fn ordering(&self) -> Vec<SortColumn> {
        self.ordering.clone()
    }

    fn statistics(&self) -> Statistics {
        self.statistics.clone()
    }

    fn filters(&self) -> &[Support] {
        &self.filters
    }

    fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    fn open(&self, partition: usize, wanted: Units) -> Result<UnitStream> {
        let range = self.ranges.get(partition).cloned().ok_or_else(|| {
            Error::invalid_argument(format!(
                "there is no partition {partition} among {}",
                self.ranges.len()
            ))
        })?;
        let reader = Arc::clone(&self.reader);
        let events = wanted.within(range.len() as u64).flat_map(move |index| {
            let reader = Arc::clone(&reader);
            let at = range.start + index as usize;
            let stretches = reader
                .table
                .units
                .get(at)
                .map_or(0, |unit| unit.stretches.len());
            (0..=stretches).map(move |which| {
                match reader
                    .table
                    .units
                    .get(at)
                    .and_then(|unit| unit.stretches.get(which))
                {
                    Some(stretch) => reader
                        .read(stretch)
                        .map(UnitEvent::Batch)
                        .map_err(|error| error.with_unit(index)),
                    None => Ok(UnitEvent::End(index)),
                }
            })
        });
        Ok(futures::stream::iter(events).boxed())
    }
}
