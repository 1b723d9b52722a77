//! What is known of the rows of a table, scan or partition, and how it travels.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat;

use super::ipc;
use super::limits::DecodeLimits;
use super::messages;
use crate::error::{Error, Result};

/// A number that is known, estimated or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// The number itself.
    Exact(u64),
    /// An estimate.
    Inexact(u64),
    /// Nothing is known.
    #[default]
    Absent,
}

impl Precision {
    /// The number, exact or not.
    pub fn value(self) -> Option<u64> {
        match self {
            Precision::Exact(value) | Precision::Inexact(value) => Some(value),
            Precision::Absent => None,
        }
    }

    /// The same number as an estimate.
    #[must_use]
    pub fn to_inexact(self) -> Self {
        match self {
            Precision::Exact(value) => Precision::Inexact(value),
            other => other,
        }
    }

    pub(crate) fn to_proto(self) -> Option<messages::Count> {
        match self {
            Precision::Exact(value) => Some(messages::Count { value, exact: true }),
            Precision::Inexact(value) => Some(messages::Count {
                value,
                exact: false,
            }),
            Precision::Absent => None,
        }
    }

    pub(crate) fn from_proto(count: Option<&messages::Count>) -> Self {
        match count {
            Some(count) if count.exact => Precision::Exact(count.value),
            Some(count) => Precision::Inexact(count.value),
            None => Precision::Absent,
        }
    }
}

/// What is known of one column.
#[derive(Debug, Clone, Default)]
pub struct ColumnStatistics {
    /// How many values are null.
    pub nulls: Precision,
    /// An array of one value that no value is below.
    pub min: Option<ArrayRef>,
    /// An array of one value that no value is above.
    pub max: Option<ArrayRef>,
    /// `min` and `max` occur among the values.
    pub bounds_exact: bool,
}

/// What is known of the rows of a table, scan or partition.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// How many rows there are.
    pub rows: Precision,
    /// How many bytes the rows take in memory.
    pub bytes: Precision,
    /// One for each top-level field of the schema, or none at all.
    pub columns: Vec<ColumnStatistics>,
}

impl Statistics {
    /// The statistics of chosen columns.
    #[must_use]
    pub fn project(&self, columns: &[usize]) -> Self {
        Self {
            rows: self.rows,
            bytes: self.bytes.to_inexact(),
            columns: if self.columns.is_empty() {
                Vec::new()
            } else {
                columns
                    .iter()
                    .map(|&i| self.columns.get(i).cloned().unwrap_or_default())
                    .collect()
            },
        }
    }

    /// The same statistics where only some of the rows are left: all counts become estimates, bounds stay bounds.
    #[must_use]
    pub fn to_inexact(mut self) -> Self {
        self.rows = self.rows.to_inexact();
        self.bytes = self.bytes.to_inexact();
        for column in &mut self.columns {
            column.nulls = column.nulls.to_inexact();
            column.bounds_exact = false;
        }
        self
    }

    pub(crate) fn to_proto(&self) -> Result<messages::Statistics> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let known = column.min.as_ref().or(column.max.as_ref());
            if let Some(known) = known {
                let data_type = known.data_type();
                let null = new_null_array(data_type, 1);
                let min = column.min.as_ref().unwrap_or(&null);
                let max = column.max.as_ref().unwrap_or(&null);
                arrays.push(concat(&[min.as_ref(), max.as_ref()]).map_err(|error| {
                    Error::internal("the bounds of a column are not of one type").with_source(error)
                })?);
                fields.push(Field::new("", data_type.clone(), true));
            }
            columns.push(messages::ColumnStatistics {
                nulls: column.nulls.to_proto(),
                bounds: known.is_some(),
                bounds_exact: column.bounds_exact,
            });
        }
        let bounds = if arrays.is_empty() {
            Vec::new()
        } else {
            let options = RecordBatchOptions::new().with_row_count(Some(2));
            let batch =
                RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
                    .map_err(|error| {
                        Error::internal("the bounds of columns make no batch").with_source(error)
                    })?;
            ipc::encode_batch(&batch)?
        };
        Ok(messages::Statistics {
            rows: self.rows.to_proto(),
            bytes: self.bytes.to_proto(),
            columns,
            bounds,
        })
    }

    pub(crate) fn from_proto(
        statistics: Option<&messages::Statistics>,
        limits: &DecodeLimits,
    ) -> Result<Self> {
        let Some(statistics) = statistics else {
            return Ok(Self::default());
        };
        let bounds = if statistics.bounds.is_empty() {
            None
        } else {
            Some(
                ipc::decode_batch(&statistics.bounds, limits)
                    .map_err(|error| error.context("bounds of columns"))?,
            )
        };
        let bounds = bounds.as_ref().filter(|batch| batch.num_rows() == 2);
        let mut next = 0;
        let mut columns = Vec::with_capacity(statistics.columns.len());
        for column in &statistics.columns {
            let mut made = ColumnStatistics {
                nulls: Precision::from_proto(column.nulls.as_ref()),
                bounds_exact: column.bounds_exact,
                ..ColumnStatistics::default()
            };
            if column.bounds {
                if let Some(pair) = bounds.and_then(|batch| batch.columns().get(next)) {
                    made.min = Some(pair.slice(0, 1)).filter(|value| value.is_valid(0));
                    made.max = Some(pair.slice(1, 1)).filter(|value| value.is_valid(0));
                }
                next += 1;
            }
            columns.push(made);
        }
        Ok(Self {
            rows: Precision::from_proto(statistics.rows.as_ref()),
            bytes: Precision::from_proto(statistics.bytes.as_ref()),
            columns,
        })
    }
}
