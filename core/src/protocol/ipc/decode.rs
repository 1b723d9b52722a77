//! Decodes table payloads: a schema first, then dictionaries that changed and one batch in each.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{Message, MessageHeader};
use arrow_schema::SchemaRef;

use super::arrays::{self, Dictionaries};
use super::dictionaries::{self, Parts};
use super::message::{self, Framing, Prefix};
use super::schema::{self, StreamSchema};
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// Decodes the table payloads of one stream, in their order.
///
/// Arrays lie in the payload itself wherever its alignment allows; only misaligned or compressed buffers are copied.
/// Everything is validated: offsets, UTF-8, dictionary keys, null counts. The first error ends the stream: every later
/// call fails too.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int32Array, RecordBatch};
/// use arrow_buffer::Buffer;
/// use lightstream_core::protocol::ipc::{Decoder, Encoder};
/// use lightstream_core::protocol::limits::DecodeLimits;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2, 3])) as _)])?;
/// let mut encoder = Encoder::try_new(batch.schema())?;
/// let payload = Buffer::from_vec(encoder.encode(&batch)?.to_vec());
/// let mut decoder = Decoder::new(DecodeLimits::default());
/// assert_eq!(decoder.decode(payload)?, batch);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Decoder {
    limits: DecodeLimits,
    state: State,
}

/// How far a stream has come.
#[derive(Debug)]
pub(super) enum State {
    AwaitsSchema,
    Started {
        schema: StreamSchema,
        parts: HashMap<i64, Parts>,
    },
    Failed,
}

impl Decoder {
    /// A decoder of a stream that has not begun.
    pub fn new(limits: DecodeLimits) -> Self {
        Self {
            limits,
            state: State::AwaitsSchema,
        }
    }

    /// The schema of the stream, once its first payload is decoded.
    pub fn schema(&self) -> Option<&SchemaRef> {
        match &self.state {
            State::Started { schema, .. } => Some(&schema.schema),
            _ => None,
        }
    }

    /// Decodes the next payload, which holds exactly one record batch.
    ///
    /// # Errors
    /// `data_loss` for anything malformed, cut off or out of order; `resource_exhausted` beyond the limits;
    /// `unimplemented` for sound data that is not supported, such as big-endian.
    pub fn decode(&mut self, payload: Buffer) -> Result<RecordBatch> {
        let mut state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Failed => {
                return Err(Error::data_loss(
                    "the stream of table payloads has failed before",
                ));
            }
            state => state,
        };
        let batch = decode_payload(&mut state, &payload, &self.limits)?;
        self.state = state;
        Ok(batch)
    }
}

fn decode_payload(
    state: &mut State,
    payload: &Buffer,
    limits: &DecodeLimits,
) -> Result<RecordBatch> {
    if payload.len() as u64 > limits.frame_bytes {
        return Err(Error::resource_exhausted(format!(
            "a payload of {} bytes exceeds the limit of {}",
            payload.len(),
            limits.frame_bytes
        )));
    }
    let mut at = 0;
    while at < payload.len() {
        let Prefix::Metadata(range) = message::read_prefix(payload, at, Framing::Current)? else {
            return Err(Error::data_loss(
                "an end of stream stands within a table payload",
            ));
        };
        let start = range.end;
        let message = message::parse(message::slice(payload, range)?, limits)?;
        let range = message::body_range(payload, &message, start)?;
        let body = payload.slice_with_length(range.start, range.len());
        at = range.end;
        if message.header_type() == MessageHeader::RecordBatch && at != payload.len() {
            return Err(Error::data_loss(
                "bytes follow the record batch of a table payload",
            ));
        }
        match state.apply(&message, body, payload.len(), limits)? {
            Applied::Batch(batch) => return Ok(batch),
            Applied::Dictionary => at = message::skip_padding(payload, at),
            Applied::Schema => {}
        }
    }
    Err(Error::data_loss("a table payload has no record batch"))
}

/// What a message was.
pub(super) enum Applied {
    Schema,
    Dictionary,
    Batch(RecordBatch),
}

impl State {
    /// Takes the next message of a stream. Its body is part of so many bytes that are kept in memory with it.
    pub(super) fn apply(
        &mut self,
        message: &Message<'_>,
        body: Buffer,
        held_bytes: usize,
        limits: &DecodeLimits,
    ) -> Result<Applied> {
        match (message.header_type(), &mut *self) {
            (MessageHeader::Schema, State::AwaitsSchema) => {
                let fields = message.header_as_schema().ok_or_else(no_header)?;
                *self = State::Started {
                    schema: schema::convert(fields, limits)?,
                    parts: HashMap::new(),
                };
                Ok(Applied::Schema)
            }
            (MessageHeader::Schema, _) => {
                Err(Error::data_loss("a second schema stands in a stream"))
            }
            (_, State::AwaitsSchema | State::Failed) => {
                Err(Error::data_loss("a stream starts without a schema"))
            }
            (MessageHeader::DictionaryBatch, State::Started { schema, parts }) => {
                let header = message.header_as_dictionary_batch().ok_or_else(no_header)?;
                // A dictionary outlives its payload: a small one must not keep a large batch in memory.
                let body = if body.len() < held_bytes / 2 {
                    Buffer::from_slice_ref(body.as_slice())
                } else {
                    body
                };
                let id = header.id();
                let nested = schema.needed_by(id);
                let values = dictionaries::read_values(
                    header,
                    &body,
                    message.version(),
                    schema,
                    &merged(parts, Some(&nested))?,
                    limits,
                )?;
                let parts = parts.entry(id).or_default();
                if header.isDelta() {
                    parts.append(id, values, limits)?;
                } else {
                    parts.replace(values);
                }
                Ok(Applied::Dictionary)
            }
            (MessageHeader::RecordBatch, State::Started { schema, parts }) => {
                let header = message.header_as_record_batch().ok_or_else(no_header)?;
                let batch = arrays::read_batch(
                    header,
                    &body,
                    message.version(),
                    &schema.schema,
                    None,
                    &merged(parts, None)?,
                    limits,
                )?;
                Ok(Applied::Batch(batch))
            }
            _ => Err(unknown_header()),
        }
    }
}

/// The values of these dictionaries, or of all.
fn merged(parts: &mut HashMap<i64, Parts>, ids: Option<&[i64]>) -> Result<Dictionaries> {
    let mut found = Dictionaries::new();
    for (id, parts) in parts {
        if ids.is_none_or(|ids| ids.contains(id))
            && let Some(values) = parts.values()?
        {
            found.insert(*id, values);
        }
    }
    Ok(found)
}

pub(super) fn no_header() -> Error {
    Error::data_loss("an IPC message has no header")
}

pub(super) fn unknown_header() -> Error {
    Error::unimplemented("an IPC message is neither a schema nor a dictionary nor a record batch")
}
