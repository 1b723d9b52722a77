//! What is done to the rows of a table that cannot do it itself: they are filtered, and the wanted columns kept, as they
//! pass.
//!
//! Knows no limit: that is for who counts the rows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::filter::Filter;
use super::request::{ScanRequest, project_schema};
use crate::error::{Error, Result};

/// The filter and the columns of a request, for rows of one schema.
pub(crate) struct Pass {
    whole: SchemaRef,
    filter: Filter,
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
}

impl Pass {
    /// What a request asks for of a table of this schema. Conjuncts that cannot be applied to it are left out.
    ///
    /// # Errors
    /// `invalid_argument` where a column does not exist.
    pub(crate) fn try_new(whole: SchemaRef, request: &ScanRequest) -> Result<Self> {
        let schema = match &request.projection {
            None => Arc::clone(&whole),
            Some(columns) => project_schema(&whole, columns)?,
        };
        Ok(Self {
            filter: request.filter.supported(&whole),
            projection: request.projection.clone(),
            schema,
            whole,
        })
    }

    /// The schema of what is left of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Refuses rows of another schema.
    pub(crate) fn check(&self, schema: &SchemaRef) -> Result<()> {
        if *schema == self.whole {
            return Ok(());
        }
        Err(Error::internal(format!(
            "the rows were made with another schema than before: {schema} instead of {}",
            self.whole
        )))
    }

    /// The rows that pass, with the wanted columns.
    pub(crate) fn take(&self, batch: RecordBatch) -> Result<RecordBatch> {
        self.check(batch.schema_ref())?;
        let kept = self.filter.apply(&batch)?;
        match &self.projection {
            None => Ok(kept),
            Some(columns) => kept.project(columns).map_err(|error| {
                Error::internal("columns could not be selected").with_source(error)
            }),
        }
    }
}
