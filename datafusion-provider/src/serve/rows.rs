//! Batches as the plan promised them: the columns that were asked for, under the schema that was announced.
//!
//! Converts no values.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use lightstream_core::protocol::statistics::Statistics;
use lightstream_core::{Error, Result};

/// The columns of a scan: what is planned, and what is made of it.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// Positions in the table's schema, each once.
    pub planned: Vec<usize>,
    /// The schema of the planned columns.
    pub planned_schema: SchemaRef,
    /// The schema of the rows that come back.
    pub schema: SchemaRef,
    /// Where each column that comes back stands in `planned`; `None` where they are the same.
    output: Option<Vec<usize>>,
}

impl Columns {
    /// The columns at these positions of `schema`; `None` for all.
    pub(super) fn of(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<Self> {
        let Some(projection) = projection else {
            let planned = (0..schema.fields().len()).collect();
            return Ok(Self {
                planned,
                planned_schema: Arc::clone(schema),
                schema: Arc::clone(schema),
                output: None,
            });
        };
        let mut planned = Vec::with_capacity(projection.len());
        let mut output = Vec::with_capacity(projection.len());
        for &column in projection {
            if column >= schema.fields().len() {
                return Err(Error::invalid_argument(format!(
                    "column {column} was asked for, but the table has {}",
                    schema.fields().len()
                )));
            }
            let place = planned
                .iter()
                .position(|&known| known == column)
                .unwrap_or_else(|| {
                    planned.push(column);
                    planned.len() - 1
                });
            output.push(place);
        }
        let project = |columns: &[usize]| match schema.project(columns) {
            Ok(projected) => Ok(Arc::new(projected)),
            Err(error) => {
                Err(Error::invalid_argument(format!("projecting: {error}")).with_source(error))
            }
        };
        let (planned_schema, projected) = (project(&planned)?, project(projection)?);
        let output = (output.len() != planned.len()).then_some(output);
        Ok(Self {
            planned,
            planned_schema,
            schema: projected,
            output,
        })
    }

    /// Statistics of the planned columns as those of the columns that come back.
    pub(super) fn statistics(&self, known: Statistics) -> Statistics {
        match &self.output {
            None => known,
            Some(output) => known.project(output),
        }
    }

    /// A batch of the planned columns as a batch of the scan's schema.
    pub(super) fn conform(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.output.is_none() && batch.schema_ref() == &self.schema {
            return Ok(batch);
        }
        if batch.num_columns() != self.planned.len() {
            return Err(self.differs(batch.schema_ref(), "the number of columns"));
        }
        let columns: Vec<ArrayRef> = match &self.output {
            None => batch.columns().to_vec(),
            Some(output) => output
                .iter()
                .map(|&place| Arc::clone(batch.column(place)))
                .collect(),
        };
        let columns = columns
            .into_iter()
            .zip(self.schema.fields())
            .map(|(column, field)| match column.data_type() {
                same if same == field.data_type() => Ok(column),
                // Names, metadata and nullability of nested fields alone.
                alike if alike.equals_datatype(field.data_type()) => {
                    cast(&column, field.data_type())
                        .map_err(|error| self.differs(batch.schema_ref(), &error.to_string()))
                }
                _ => Err(self.differs(
                    batch.schema_ref(),
                    &format!("the type of column {:?}", field.name()),
                )),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| self.differs(batch.schema_ref(), &error.to_string()))
    }

    fn differs(&self, found: &Schema, what: &str) -> Error {
        Error::data_loss(format!(
            "rows of another schema came than was planned ({what}): {found} instead of {}",
            self.schema
        ))
    }
}
