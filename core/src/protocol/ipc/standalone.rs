//! Whole IPC streams in memory, for literals and statistics within control messages.
//!
//! Not for tables: everything is copied.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;

use super::encode::Encoder;
use super::index::IpcIndex;
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// Encodes one batch as a whole IPC stream, with schema, dictionaries and end-of-stream marker.
///
/// # Errors
/// `invalid_argument` for a schema that IPC cannot express.
pub fn encode_batch(batch: &RecordBatch) -> Result<Vec<u8>> {
    encode_batches(std::slice::from_ref(batch))
}

/// Encodes batches of one schema, of which there is at least one, as a whole IPC stream.
///
/// # Errors
/// `invalid_argument` when there is none, when they differ in schema, or for a schema that IPC cannot express.
pub fn encode_batches(batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let [first, ..] = batches else {
        return Err(Error::invalid_argument("no batch to encode"));
    };
    let mut encoder = Encoder::try_new(first.schema())?;
    let mut bytes = Vec::new();
    for batch in batches {
        for segment in encoder.encode(batch)?.segments() {
            bytes.extend_from_slice(segment);
        }
    }
    bytes.extend_from_slice(&Encoder::END_OF_STREAM);
    Ok(bytes)
}

/// Decodes the one batch of a whole IPC stream.
///
/// # Errors
/// As [`decode_batches`], and `data_loss` when there is not exactly one.
pub fn decode_batch(bytes: &[u8], limits: &DecodeLimits) -> Result<RecordBatch> {
    <[RecordBatch; 1]>::try_from(decode_batches(bytes, limits)?)
        .map(|[batch]| batch)
        .map_err(|batches| {
            Error::data_loss(format!(
                "one batch was expected, {} are there",
                batches.len()
            ))
        })
}

/// Decodes the batches of a whole IPC stream.
///
/// # Errors
/// `data_loss` for anything malformed, `resource_exhausted` beyond the limits (of which `message_bytes` bounds the
/// stream as a whole), `unimplemented` for what is not supported.
pub fn decode_batches(bytes: &[u8], limits: &DecodeLimits) -> Result<Vec<RecordBatch>> {
    if bytes.len() as u64 > limits.message_bytes {
        return Err(Error::resource_exhausted(format!(
            "an IPC stream of {} bytes exceeds the limit of {} in a message",
            bytes.len(),
            limits.message_bytes
        )));
    }
    let index = IpcIndex::try_new(Buffer::from_slice_ref(bytes), limits.clone())?;
    (0..index.len()).map(|batch| index.batch(batch)).collect()
}
