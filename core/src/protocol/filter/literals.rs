//! The constants and types of a filter, as Arrow IPC within its message.
//!
//! Whatever is malformed is the caller's fault: an invalid argument, not a loss on the way.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};

use super::wire::FilterLimits;
use crate::protocol::ipc;
use crate::protocol::limits::DecodeLimits;
use crate::{Error, ErrorCode, Result};

/// The message of a cast's type.
pub(super) fn encode_type(data_type: &DataType) -> Result<Vec<u8>> {
    ipc::encode_schema(&Schema::new(vec![Field::new("", data_type.clone(), true)]))
}

/// The type that a cast names; None for one that this version does not know.
pub(super) fn decode_type(bytes: &[u8]) -> Result<Option<DataType>> {
    let schema = match ipc::decode_schema(bytes, &DecodeLimits::default()) {
        Err(error) if error.code() == ErrorCode::Unimplemented => return Ok(None),
        schema => schema.map_err(malformed)?,
    };
    match schema.fields().as_ref() {
        [field] => Ok(Some(field.data_type().clone())),
        fields => Err(Error::invalid_argument(format!(
            "a cast names {} types, not one",
            fields.len()
        ))),
    }
}

/// The constants as the columns of one batch of one row; nothing where there are none.
pub(super) fn encode_literals(literals: Vec<ArrayRef>) -> Result<Vec<u8>> {
    if literals.is_empty() {
        return Ok(Vec::new());
    }
    let fields: Vec<_> = literals
        .iter()
        .map(|array| Field::new("", array.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), literals, &options)
            .map_err(super::arrow_error)?;
    ipc::encode_batch(&batch)
}

/// The constants of a filter; None where one has a type that this version does not know.
pub(super) fn decode_literals(
    bytes: &[u8],
    limits: &FilterLimits,
) -> Result<Option<Vec<ArrayRef>>> {
    if bytes.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let decode_limits = DecodeLimits {
        message_bytes: limits.literal_bytes as u64,
        decompressed_bytes: limits.literal_bytes as u64,
        rows: 1,
        dictionary_entries: limits.list_values as u64,
        ..DecodeLimits::default()
    };
    let batch = match ipc::decode_batch(bytes, &decode_limits) {
        Err(error) if error.code() == ErrorCode::Unimplemented => return Ok(None),
        batch => batch.map_err(malformed)?,
    };
    if batch.num_rows() != 1 {
        return Err(Error::invalid_argument(format!(
            "literals have one row, not {}",
            batch.num_rows()
        )));
    }
    if batch.num_columns() > limits.nodes {
        return Err(Error::resource_exhausted(format!(
            "a filter has more than {} literals (nodes)",
            limits.nodes
        )));
    }
    Ok(Some(batch.columns().to_vec()))
}

/// Bytes that are wrong within a request are the caller's fault, not a loss on the way.
fn malformed(error: Error) -> Error {
    match error.code() {
        ErrorCode::DataLoss => Error::invalid_argument(format!(
            "malformed constant or type in a filter: {}",
            error.detail().message
        ))
        .with_source(error),
        _ => error.context("constants of a filter"),
    }
}
