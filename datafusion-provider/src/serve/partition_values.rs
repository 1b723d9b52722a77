//! Which files can hold rows that pass a filter, going by the values of their partition columns.
//!
//! Whatever cannot be told from these values alone keeps the file.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use datafusion::datasource::listing::{ListingTable, PartitionedFile};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, UNNAMED_TABLE};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// For each file, whether it has to be read.
pub(super) fn kept(
    table: &ListingTable,
    files: &[PartitionedFile],
    conditions: &[Expr],
    state: &SessionState,
) -> Vec<bool> {
    let mut kept = vec![true; files.len()];
    let names = &table.options().table_partition_cols;
    if names.is_empty() || files.is_empty() {
        return kept;
    }
    let deciding: Vec<_> = conditions
        .iter()
        .filter(|condition| {
            let columns = condition.column_refs();
            !columns.is_empty()
                && columns
                    .iter()
                    .all(|column| names.iter().any(|(name, _)| *name == column.name))
        })
        .collect();
    if deciding.is_empty() {
        return kept;
    }
    let Ok((values, schema)) = values_of(table, files) else {
        return kept;
    };
    for condition in deciding {
        let Ok(passes) = passes(condition, &values, &schema, state) else {
            continue;
        };
        kept.iter_mut()
            .zip(passes)
            .for_each(|(kept, passes)| *kept &= passes);
    }
    kept
}

fn values_of(table: &ListingTable, files: &[PartitionedFile]) -> Result<(RecordBatch, DFSchema)> {
    let columns = &table.options().table_partition_cols;
    let fields = columns
        .iter()
        .map(|(name, data_type)| Field::new(name, data_type.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = (0..columns.len()).map(|column| {
        let values = files.iter().map(|file| {
            file.partition_values
                .get(column)
                .cloned()
                .unwrap_or(ScalarValue::Null)
        });
        ScalarValue::iter_to_array(values)
    });
    let values = RecordBatch::try_new(Arc::clone(&schema), arrays.collect::<Result<Vec<_>>>()?)?;
    Ok((
        values,
        DFSchema::try_from_qualified_schema(UNNAMED_TABLE, &schema)?,
    ))
}

fn passes(
    condition: &Expr,
    values: &RecordBatch,
    schema: &DFSchema,
    state: &SessionState,
) -> Result<Vec<bool>> {
    let condition = state.create_physical_expr(condition.clone(), schema)?;
    let answer = condition.evaluate(values)?.into_array(values.num_rows())?;
    let Some(answer) = answer.as_boolean_opt() else {
        return Ok(vec![true; values.num_rows()]);
    };
    Ok(answer.iter().map(|passes| passes == Some(true)).collect())
}
