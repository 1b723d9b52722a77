//! Tables held in memory.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use async_trait::async_trait;

use super::batches::{BatchScan, BatchSource, TableState};
use super::bounds::statistics_of;
use super::history::History;
use super::table::{Scan, Table};
use crate::error::{Error, Result};
use crate::protocol::request::ScanRequest;
use crate::protocol::statistics::Statistics;
use crate::protocol::table::{SortColumn, TableInfo};

/// A table held in memory. Its rows can be replaced as a whole; a plan keeps reading the rows it was made on.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int32Array, RecordBatch};
/// use lightstream_core::server::MemoryTable;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
/// let table = MemoryTable::try_new(vec![RecordBatch::try_from_iter([("a", column)])?])?;
/// let column: ArrayRef = Arc::new(Int32Array::from(vec![4]));
/// table.replace(vec![RecordBatch::try_from_iter([("a", column)])?])?;
/// # Ok(())
/// # }
/// ```
pub struct MemoryTable {
    id: String,
    schema: SchemaRef,
    ordering: Vec<SortColumn>,
    swaps: Mutex<u64>,
    history: History<Batches>,
}

type State = TableState<Batches>;

struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    bytes: Vec<u64>,
    statistics: Statistics,
}

impl MemoryTable {
    /// A table of these batches, which all have the schema of the first.
    ///
    /// # Errors
    /// `invalid_argument` where there is no batch to take the schema from, or schemas differ.
    pub fn try_new(batches: Vec<RecordBatch>) -> Result<Self> {
        let schema = batches.first().map(RecordBatch::schema).ok_or_else(|| {
            Error::invalid_argument(
                "a table of no batches needs a schema: use MemoryTable::try_new_with_schema",
            )
        })?;
        Self::try_new_with_schema(schema, batches)
    }

    /// A table of these batches, of which there may be none.
    ///
    /// # Errors
    /// `invalid_argument` where a batch has another schema.
    pub fn try_new_with_schema(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        let id = crate::random::id()?;
        let state = state(&schema, batches, snapshot_id(&id, 0), Vec::new())?;
        Ok(Self {
            id,
            schema,
            ordering: Vec::new(),
            swaps: Mutex::default(),
            history: History::new(state),
        })
    }

    /// Names the table, so that snapshots have the same names in every process that holds the same rows under the
    /// same id after the same number of replacements. Without it they live as long as this table.
    ///
    /// # Errors
    /// Only `internal` ones.
    pub fn with_id(self, id: impl Into<String>) -> Result<Self> {
        Self {
            id: id.into(),
            ..self
        }
        .renewed()
    }

    /// Declares the order of the rows, batch after batch. It is believed, not checked.
    ///
    /// # Errors
    /// `invalid_argument` where a column does not exist.
    pub fn with_ordering(self, ordering: Vec<SortColumn>) -> Result<Self> {
        for column in &ordering {
            if column
                .path
                .first()
                .is_none_or(|name| self.schema.field_with_name(name).is_err())
            {
                return Err(Error::invalid_argument(format!(
                    "there is no column {:?} to order by",
                    column.path
                )));
            }
        }
        Self { ordering, ..self }.renewed()
    }

    /// The same rows under what was changed of the table.
    fn renewed(self) -> Result<Self> {
        let batches = self.history.at(None)?.source().batches.clone();
        let swaps = *self.swaps.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state(
            &self.schema,
            batches,
            snapshot_id(&self.id, swaps),
            self.ordering.clone(),
        )?;
        Ok(Self {
            history: History::new(state),
            ..self
        })
    }

    /// Puts other rows in place of all rows, at once. Plans made before go on reading the rows from before.
    ///
    /// # Errors
    /// `invalid_argument` where a batch has another schema; the table then stays as it is.
    pub fn replace(&self, batches: Vec<RecordBatch>) -> Result<()> {
        let mut swaps = self.swaps.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state(
            &self.schema,
            batches,
            snapshot_id(&self.id, *swaps + 1),
            self.ordering.clone(),
        )?;
        *swaps += 1;
        self.history.advance(|_| Ok(Some(next)))
    }
}

fn snapshot_id(id: &str, swaps: u64) -> String {
    format!("{id}-{swaps}")
}

fn state(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    snapshot: String,
    ordering: Vec<SortColumn>,
) -> Result<State> {
    for (index, batch) in batches.iter().enumerate() {
        if batch.schema_ref() != schema {
            return Err(Error::invalid_argument(format!(
                "batch {index} has another schema than the table: {} instead of {schema}",
                batch.schema_ref()
            )));
        }
    }
    let bytes = batches.iter().map(slice_bytes).collect();
    let statistics = statistics_of(schema, &batches);
    let source = Batches {
        schema: Arc::clone(schema),
        batches,
        bytes,
        statistics,
    };
    Ok(TableState::new(source, snapshot, ordering))
}

fn slice_bytes(batch: &RecordBatch) -> u64 {
    let column_bytes = |column: &ArrayRef| {
        column
            .to_data()
            .get_slice_memory_size()
            .unwrap_or_else(|_| column.get_array_memory_size()) as u64
    };
    batch.columns().iter().map(column_bytes).sum()
}

impl BatchSource for Batches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn count(&self) -> usize {
        self.batches.len()
    }

    fn rows(&self, batch: usize) -> u64 {
        self.batches
            .get(batch)
            .map_or(0, |batch| batch.num_rows() as u64)
    }

    fn bytes(&self, batch: usize) -> u64 {
        self.bytes.get(batch).copied().unwrap_or(0)
    }

    fn batch(&self, batch: usize) -> Result<RecordBatch> {
        self.batches
            .get(batch)
            .cloned()
            .ok_or_else(|| Error::internal("a batch beyond the end of a table"))
    }

    fn statistics(&self) -> Statistics {
        self.statistics.clone()
    }
}

#[async_trait]
impl Table for MemoryTable {
    async fn describe(&self, name: &str, snapshot: Option<&str>) -> Result<TableInfo> {
        Ok(self.history.at(snapshot)?.describe(name))
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let state = self.history.at(request.snapshot.as_deref())?;
        Ok(Arc::new(BatchScan::try_new(state, request)?))
    }
}
