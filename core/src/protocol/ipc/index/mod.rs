//! An index over a whole Arrow IPC file or stream that lies in one buffer, as a memory-mapped file does.
//!
//! Only metadata is read to make it; batches and dictionaries are decoded, and validated, when asked for.

mod file;
mod stream;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::arrays::{self, Dictionaries};
use super::dictionaries::Parts;
use super::message::{self, Place};
use super::schema::{self, StreamSchema};
use super::{decode, dictionaries};
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// One record batch of an [`IpcIndex`], not yet decoded.
#[derive(Debug, Clone)]
pub struct IpcBatch {
    place: Place,
    rows: u64,
    metadata: HashMap<String, String>,
    /// How many dictionary messages come before it.
    dictionaries: usize,
}

impl IpcBatch {
    /// Its rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The size of its body, in bytes; compressed where the body is.
    pub fn body_bytes(&self) -> usize {
        self.place.body.len()
    }

    /// Where its body stands in the buffer.
    pub fn body_range(&self) -> Range<usize> {
        self.place.body.clone()
    }

    /// The custom metadata of its message, such as `ls.seq_id`.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.metadata
    }
}

/// One dictionary message.
#[derive(Debug)]
struct DictionaryMessage {
    place: Place,
    id: i64,
    is_delta: bool,
}

/// Which dictionary messages stand for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Those before it: a stream may replace and extend its dictionaries as it goes.
    Stream,
    /// All of them, in whatever order they stand.
    File,
}

/// What the reader of a file or stream has found.
#[derive(Debug)]
struct Contents {
    schema: StreamSchema,
    metadata: HashMap<String, String>,
    batches: Vec<IpcBatch>,
    dictionaries: Vec<DictionaryMessage>,
    order: Order,
}

/// The schema, metadata and batches of an Arrow IPC file or stream that lies in one buffer.
///
/// Batches are decoded when asked for, in place where alignment allows, with the dictionaries that stand for them, and
/// from any thread. Files need their footer. A stream may end without its marker, but not within a message.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int32Array, RecordBatch};
/// use arrow_buffer::Buffer;
/// use lightstream_core::protocol::ipc::{IpcIndex, encode_batch};
/// use lightstream_core::protocol::limits::DecodeLimits;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2, 3])) as _)])?;
/// let index = IpcIndex::try_new(Buffer::from_vec(encode_batch(&batch)?), DecodeLimits::default())?;
/// assert_eq!((index.len(), index.rows(0)?), (1, 3));
/// assert_eq!(index.batch(0)?, batch);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IpcIndex {
    bytes: Buffer,
    limits: DecodeLimits,
    contents: Contents,
    /// The messages of each dictionary, as indices, in the order in which they apply.
    by_id: HashMap<i64, Vec<usize>>,
    /// The last state decoded of each dictionary, with the index of the last message that went into it.
    decoded: Mutex<HashMap<i64, (usize, ArrayRef)>>,
}

impl IpcIndex {
    /// Reads the metadata of a file (which starts with `ARROW1`) or stream.
    ///
    /// # Errors
    /// `data_loss` for anything malformed or cut off, `resource_exhausted` beyond the limits, `unimplemented` for what
    /// is not supported, such as big-endian data.
    pub fn try_new(bytes: Buffer, limits: DecodeLimits) -> Result<Self> {
        let contents = if bytes.starts_with(file::MAGIC) {
            file::read(&bytes, &limits)?
        } else {
            stream::read(&bytes, &limits)?
        };
        let by_id = messages_by_id(&contents)?;
        Ok(Self {
            bytes,
            limits,
            contents,
            by_id,
            decoded: Mutex::new(HashMap::new()),
        })
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.contents.schema.schema
    }

    /// The custom metadata of a file's footer; a stream has none but that of its schema.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.contents.metadata
    }

    /// The batches, not yet decoded.
    pub fn batches(&self) -> &[IpcBatch] {
        &self.contents.batches
    }

    /// How many batches there are.
    pub fn len(&self) -> usize {
        self.contents.batches.len()
    }

    /// Whether there is no batch at all.
    pub fn is_empty(&self) -> bool {
        self.contents.batches.is_empty()
    }

    /// The rows of a batch, without decoding it.
    ///
    /// # Errors
    /// `invalid_argument` when there is no such batch.
    pub fn rows(&self, batch: usize) -> Result<u64> {
        Ok(self.entry(batch)?.rows)
    }

    /// Decodes a batch.
    ///
    /// # Errors
    /// `invalid_argument` when there is no such batch, else as [`IpcIndex::try_new`].
    pub fn batch(&self, batch: usize) -> Result<RecordBatch> {
        self.read(batch, None)
    }

    /// Decodes some columns of a batch, in the order in which they are named. Others are not validated.
    ///
    /// # Errors
    /// `invalid_argument` when there is no such batch or column, else as [`IpcIndex::try_new`].
    pub fn columns(&self, batch: usize, projection: &[usize]) -> Result<RecordBatch> {
        self.read(batch, Some(projection))
    }

    fn entry(&self, batch: usize) -> Result<&IpcBatch> {
        self.contents.batches.get(batch).ok_or_else(|| {
            Error::invalid_argument(format!("batch {batch} of {} was asked for", self.len()))
        })
    }

    fn read(&self, batch: usize, projection: Option<&[usize]>) -> Result<RecordBatch> {
        let entry = self.entry(batch)?;
        let schema = self.schema();
        let mut ids = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if projection.is_none_or(|kept| kept.contains(&index)) {
                schema::field_dictionaries(field, &mut ids);
            }
        }
        let dictionaries = self.dictionaries(&ids, entry.dictionaries)?;
        let metadata = message::slice(&self.bytes, entry.place.metadata.clone())?;
        let message = message::parse(metadata, &self.limits)?;
        let header = message
            .header_as_record_batch()
            .ok_or_else(decode::no_header)?;
        arrays::read_batch(
            header,
            &self.body(&entry.place)?,
            message.version(),
            schema,
            projection,
            &dictionaries,
            &self.limits,
        )
        .map_err(|error| error.context(format!("record batch {batch}")))
    }

    fn body(&self, place: &Place) -> Result<Buffer> {
        message::slice(&self.bytes, place.body.clone())?;
        Ok(self
            .bytes
            .slice_with_length(place.body.start, place.body.len()))
    }

    /// The state of these dictionaries after the first `before` messages.
    fn dictionaries(&self, ids: &[i64], before: usize) -> Result<Dictionaries> {
        let mut found = Dictionaries::new();
        for id in ids {
            if !found.contains_key(id)
                && let Some(values) = self.dictionary(*id, before)?
            {
                found.insert(*id, values);
            }
        }
        Ok(found)
    }

    /// The state of one dictionary after the first `before` messages, if it has any by then.
    fn dictionary(&self, id: i64, before: usize) -> Result<Option<ArrayRef>> {
        let Some(messages) = self.by_id.get(&id) else {
            return Ok(None);
        };
        let applied = match self.contents.order {
            Order::File => messages.as_slice(),
            Order::Stream => {
                let count = messages.partition_point(|message| *message < before);
                messages.get(..count).unwrap_or_default()
            }
        };
        let Some(last) = applied.last() else {
            return Ok(None);
        };
        let decoded = self.decoded().get(&id).cloned();
        let message = |index: &usize| self.contents.dictionaries.get(*index);
        let is_base = |index: &usize| message(index).is_some_and(|message| !message.is_delta);
        let mut chain = applied;
        let mut parts = Parts::default();
        if let Some(base) = applied.iter().rposition(is_base) {
            chain = applied.get(base..).unwrap_or_default();
        }
        if let Some((until, known)) = decoded
            && let Some(position) = chain.iter().position(|message| *message == until)
        {
            chain = chain.get(position + 1..).unwrap_or_default();
            parts.replace(known);
        }
        for index in chain {
            let values = self.read_dictionary(*index)?;
            if is_base(index) {
                parts.replace(values);
            } else {
                parts.append(id, values, &self.limits)?;
            }
        }
        let values = parts.values()?;
        if let Some(values) = &values {
            self.decoded().insert(id, (*last, values.clone()));
        }
        Ok(values)
    }

    fn decoded(&self) -> MutexGuard<'_, HashMap<i64, (usize, ArrayRef)>> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_dictionary(&self, index: usize) -> Result<ArrayRef> {
        let entry = self
            .contents
            .dictionaries
            .get(index)
            .ok_or_else(decode::no_header)?;
        let nested = self.dictionaries(&self.contents.schema.needed_by(entry.id), index)?;
        let metadata = message::slice(&self.bytes, entry.place.metadata.clone())?;
        let message = message::parse(metadata, &self.limits)?;
        let header = message
            .header_as_dictionary_batch()
            .ok_or_else(decode::no_header)?;
        dictionaries::read_values(
            header,
            &self.body(&entry.place)?,
            message.version(),
            &self.contents.schema,
            &nested,
            &self.limits,
        )
    }
}

fn messages_by_id(contents: &Contents) -> Result<HashMap<i64, Vec<usize>>> {
    let mut by_id: HashMap<i64, Vec<usize>> = HashMap::new();
    for (index, message) in contents.dictionaries.iter().enumerate() {
        if !contents.schema.dictionaries.contains_key(&message.id) {
            return Err(Error::data_loss(format!(
                "no field of the schema has dictionary {}",
                message.id
            )));
        }
        by_id.entry(message.id).or_default().push(index);
    }
    if contents.order == Order::File {
        let is_delta = |index: &usize| {
            contents
                .dictionaries
                .get(*index)
                .is_some_and(|message| message.is_delta)
        };
        for (id, messages) in &mut by_id {
            messages.sort_by_key(is_delta);
            if messages.iter().filter(|index| !is_delta(index)).count() > 1 {
                return Err(Error::data_loss(format!(
                    "an IPC file replaces dictionary {id}, which only streams may"
                )));
            }
        }
    }
    Ok(by_id)
}
