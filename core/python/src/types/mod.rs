//! Types that an engine does not take, in types that it does: per kind of type, at any depth, without losing a value.
//!
//! No rule rounds, truncates, or turns a value into null; what cannot hold every value is refused by name.

mod arrays;
mod kinds;
mod rules;

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use lightstream_core::{Error, Result};

pub(crate) use rules::Rules;

/// What is done to the batches of one schema.
#[derive(Debug, Clone)]
pub(crate) struct Conversion {
    schema: SchemaRef,
    is_identity: bool,
}

impl Conversion {
    /// What the rules make of rows of this schema.
    ///
    /// # Errors
    /// `unimplemented` for a type that the rules refuse, naming the column and the type.
    pub(crate) fn try_new(rules: &Rules, from: &SchemaRef) -> Result<Self> {
        let fields = from
            .fields()
            .iter()
            .map(|field| rules.field(field, field.name()))
            .collect::<Result<Vec<_>>>()?;
        let schema = Schema::new_with_metadata(fields, from.metadata().clone());
        let is_identity = schema == **from;
        Ok(Self {
            schema: if is_identity {
                Arc::clone(from)
            } else {
                Arc::new(schema)
            },
            is_identity,
        })
    }

    /// The schema that comes out.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether batches stay as they are.
    pub(crate) fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// A batch in the types that are wanted.
    ///
    /// # Errors
    /// `resource_exhausted` where an array of the wanted type cannot hold so many bytes.
    pub(crate) fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| {
                arrays::convert(column, field.data_type())
                    .map_err(|error| rejected(field.name(), error))
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal("converted columns make no batch").with_source(error))
    }
}

fn rejected(column: &str, error: arrow_schema::ArrowError) -> Error {
    Error::resource_exhausted(format!(
        "column {column:?} does not fit the type that was asked for: {error}"
    ))
    .with_source(error)
}
