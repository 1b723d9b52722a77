//! Applies dictionary messages: new ones, replacements and deltas.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc as ipc;
use arrow_schema::DataType;

use super::arrays::{self, Dictionaries};
use super::schema::StreamSchema;
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// Reads the values of a dictionary message, delta or not. `dictionaries` has those that it refers to itself.
pub(super) fn read_values(
    batch: ipc::DictionaryBatch<'_>,
    body: &Buffer,
    version: ipc::MetadataVersion,
    schema: &StreamSchema,
    dictionaries: &Dictionaries,
    limits: &DecodeLimits,
) -> Result<ArrayRef> {
    let id = batch.id();
    let values = schema
        .dictionaries
        .get(&id)
        .ok_or_else(|| Error::data_loss(format!("no field of the schema has dictionary {id}")))?;
    let data = batch
        .data()
        .ok_or_else(|| Error::data_loss("an IPC dictionary message has no data"))?;
    arrays::read_dictionary(data, body, version, values, dictionaries, limits)
        .map_err(|error| error.context(format!("dictionary {id}")))
}

/// The values of a dictionary after a delta.
pub(super) fn append(
    known: &ArrayRef,
    delta: &ArrayRef,
    limits: &DecodeLimits,
) -> Result<ArrayRef> {
    let entries = known.len() as u64 + delta.len() as u64;
    if entries > limits.dictionary_entries {
        return Err(Error::resource_exhausted(format!(
            "a dictionary of {entries} entries exceeds the limit of {}",
            limits.dictionary_entries
        )));
    }
    if overflows(&known.to_data(), &delta.to_data()) {
        return Err(Error::resource_exhausted(
            "a dictionary has grown beyond what the offsets of its type can express",
        ));
    }
    arrow_select::concat::concat(&[known, delta]).map_err(arrays::malformed)
}

/// Whether offsets of 32 bits (or run ends) would overflow when `b` is put behind `a`: Arrow panics then.
fn overflows(a: &ArrayData, b: &ArrayData) -> bool {
    let most = match a.data_type() {
        DataType::Utf8
        | DataType::Binary
        | DataType::List(_)
        | DataType::Map(_, _)
        | DataType::ListView(_)
        | DataType::Union(_, _) => i32::MAX as usize,
        DataType::RunEndEncoded(ends, _) => {
            let most = match ends.data_type() {
                DataType::Int16 => i16::MAX as usize,
                DataType::Int32 => i32::MAX as usize,
                _ => i64::MAX as usize,
            };
            if a.len().saturating_add(b.len()) > most {
                return true;
            }
            usize::MAX
        }
        _ => usize::MAX,
    };
    // Strings have their bytes in the second buffer; the others count elements of their children.
    let bytes = |data: &ArrayData| match data.data_type() {
        DataType::Utf8 | DataType::Binary => data.buffers().get(1).map_or(0, Buffer::len),
        _ => 0,
    };
    if bytes(a).saturating_add(bytes(b)) > most {
        return true;
    }
    a.child_data()
        .iter()
        .zip(b.child_data())
        .any(|(a, b)| a.len().saturating_add(b.len()) > most || overflows(a, b))
}
