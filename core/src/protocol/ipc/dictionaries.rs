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

/// A dictionary, the deltas of which are put together only when it is used.
///
/// A stream of many small deltas would else copy all that was there before with each of them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<ArrayRef>,
    entries: u64,
}

impl Parts {
    /// Starts anew with these values.
    pub(super) fn replace(&mut self, values: ArrayRef) {
        self.entries = values.len() as u64;
        self.parts = vec![values];
    }

    /// Puts the values of a delta behind those that are there, of which there must be some.
    pub(super) fn append(&mut self, id: i64, delta: ArrayRef, limits: &DecodeLimits) -> Result<()> {
        if self.parts.is_empty() {
            return Err(Error::data_loss(format!(
                "a delta extends dictionary {id}, which is not there"
            )));
        }
        self.entries = self.entries.saturating_add(delta.len() as u64);
        if self.entries > limits.dictionary_entries {
            return Err(Error::resource_exhausted(format!(
                "dictionary {id} of {} entries exceeds the limit of {}",
                self.entries, limits.dictionary_entries
            )));
        }
        self.parts.push(delta);
        Ok(())
    }

    /// All values in one array.
    pub(super) fn values(&mut self) -> Result<Option<ArrayRef>> {
        if self.parts.len() > 1 {
            let data: Vec<ArrayData> = self.parts.iter().map(|part| part.to_data()).collect();
            if overflows(&data.iter().collect::<Vec<_>>()) {
                return Err(Error::resource_exhausted(
                    "a dictionary has grown beyond what the offsets of its type can express",
                ));
            }
            let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
            self.parts = vec![arrow_select::concat::concat(&parts).map_err(arrays::malformed)?];
        }
        Ok(self.parts.first().cloned())
    }
}

/// Whether offsets of 32 bits (or run ends) would overflow when these are put together: Arrow panics then.
fn overflows(parts: &[&ArrayData]) -> bool {
    let Some(first) = parts.first() else {
        return false;
    };
    let sum = |size: &dyn Fn(&ArrayData) -> usize| {
        parts
            .iter()
            .map(|part| size(part))
            .fold(0, usize::saturating_add)
    };
    let children_beyond = |most: usize| {
        let count = first.child_data().len();
        (0..count).any(|at| sum(&|part| part.child_data().get(at).map_or(0, ArrayData::len)) > most)
    };
    let too_long = match first.data_type() {
        DataType::Utf8 | DataType::Binary => {
            sum(&|part| part.buffers().get(1).map_or(0, Buffer::len)) > i32::MAX as usize
        }
        DataType::List(_) | DataType::Map(_, _) | DataType::ListView(_) | DataType::Union(_, _) => {
            children_beyond(i32::MAX as usize)
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => sum(&ArrayData::len) > i16::MAX as usize,
            DataType::Int32 => sum(&ArrayData::len) > i32::MAX as usize,
            _ => false,
        },
        _ => false,
    };
    too_long
        || (0..first.child_data().len()).any(|at| {
            let children: Vec<&ArrayData> = parts
                .iter()
                .filter_map(|part| part.child_data().get(at))
                .collect();
            overflows(&children)
        })
}
