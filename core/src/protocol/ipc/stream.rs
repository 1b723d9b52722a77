//! Arrow IPC streams as they stand on a connection of their own: schema, dictionaries, batches and the marker that ends
//! them, message by message.
//!
//! Knows no connection: who reads one asks here what to read next, who writes one what to send.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, KeyValue, KeyValueArgs, Message as IpcMessage,
    MessageBuilder, MessageHeader, RecordBatchBuilder,
};
use arrow_schema::SchemaRef;
use flatbuffers::FlatBufferBuilder;

use super::decode::{self, Applied, State};
use super::encode::{ALIGNMENT_BYTES, Encoder, Payload};
use super::message::{self, PREFIX_BYTES};
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// Under this key the metadata of a batch message holds its number, in decimal digits, where a writer spreads the batches
/// of one table over several streams.
pub const SEQUENCE_KEY: &str = "ls.seq_id";

/// What stands next in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// More bytes are needed to tell.
    Unknown,
    /// A message.
    Starts {
        /// How many of the bytes to pass over: padding, and the prefix of the message.
        prefix_bytes: usize,
        /// How many bytes of metadata follow.
        metadata_bytes: usize,
    },
    /// The marker that ends the stream.
    End,
}

/// What a message was.
#[derive(Debug)]
pub enum StreamEvent {
    /// The schema of all batches.
    Schema(SchemaRef),
    /// A dictionary.
    Dictionary,
    /// Rows.
    Batch {
        /// The rows.
        batch: RecordBatch,
        /// The number of the batch among those of all streams, where the writer gives one.
        sequence: Option<u64>,
    },
}

/// Decodes one stream, of which the parts are handed in as they come.
///
/// Arrays lie in the bodies that are handed in wherever their alignment allows. Everything is validated. The first error
/// ends the stream: every later call fails too.
///
/// Beside what the format allows it takes what the published Lightstream writer sends: zeros after the body of a
/// dictionary, up to the next multiple of 64 bytes. They are never taken for the marker that ended streams before Arrow
/// 0.15; streams without continuation markers are refused.
#[derive(Debug)]
pub struct StreamDecoder {
    limits: DecodeLimits,
    state: State,
    may_be_padded: bool,
}

impl StreamDecoder {
    /// A decoder of a stream that has not begun.
    pub fn new(limits: DecodeLimits) -> Self {
        Self {
            limits,
            state: State::AwaitsSchema,
            may_be_padded: false,
        }
    }

    /// What stands at the start of these bytes, which follow the last message. 71 bytes are always enough to tell.
    ///
    /// # Errors
    /// `data_loss` where no message can start like this, `resource_exhausted` for metadata beyond the limits.
    pub fn next_message(&self, bytes: &[u8]) -> Result<Message> {
        let padding = if self.may_be_padded {
            let zeros = bytes.iter().take(ALIGNMENT_BYTES);
            zeros.take_while(|byte| **byte == 0).count()
        } else {
            0
        };
        if padding == ALIGNMENT_BYTES {
            return Err(Error::data_loss(
                "zeros without end follow a dictionary in an IPC stream",
            ));
        }
        let Some(prefix) = bytes
            .get(padding..)
            .and_then(|bytes| bytes.first_chunk::<PREFIX_BYTES>())
        else {
            return Ok(Message::Unknown);
        };
        let Some(metadata_bytes) = message::metadata_length(*prefix)? else {
            return Ok(Message::End);
        };
        message::check_length(metadata_bytes, &self.limits)?;
        Ok(Message::Starts {
            prefix_bytes: padding + PREFIX_BYTES,
            metadata_bytes,
        })
    }

    /// How many bytes of body follow this metadata.
    ///
    /// # Errors
    /// `data_loss` for malformed metadata, `resource_exhausted` for a body beyond the limit of a frame.
    pub fn body_bytes(&self, metadata: &[u8]) -> Result<usize> {
        let length = message::body_length(&message::parse(metadata, &self.limits)?)?;
        if length as u64 > self.limits.frame_bytes {
            return Err(Error::resource_exhausted(format!(
                "an IPC message of {length} bytes exceeds the limit of {}",
                self.limits.frame_bytes
            )));
        }
        Ok(length)
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// `data_loss` for anything malformed, cut off or out of order; `resource_exhausted` beyond the limits;
    /// `unimplemented` for sound data that is not supported, such as big-endian.
    pub fn decode(&mut self, metadata: &[u8], body: Buffer) -> Result<StreamEvent> {
        let mut state = std::mem::replace(&mut self.state, State::Failed);
        let message = message::parse(metadata, &self.limits)?;
        let body_bytes = message::body_length(&message)?;
        if body.len() != body_bytes {
            return Err(Error::data_loss(format!(
                "an IPC message has {} bytes of body where {body_bytes} are announced",
                body.len()
            )));
        }
        let sequence = sequence(&message)?;
        self.may_be_padded = message.header_type() == MessageHeader::DictionaryBatch;
        let event = match state.apply(&message, body, body_bytes, &self.limits)? {
            Applied::Schema => match &state {
                State::Started { schema, .. } => StreamEvent::Schema(schema.schema.clone()),
                _ => return Err(decode::no_header()),
            },
            Applied::Dictionary => StreamEvent::Dictionary,
            Applied::Batch(batch) => StreamEvent::Batch { batch, sequence },
        };
        self.state = state;
        Ok(event)
    }
}

/// The number that a message carries.
fn sequence(message: &IpcMessage<'_>) -> Result<Option<u64>> {
    let entries = message.custom_metadata().into_iter().flatten();
    let mut found = entries.filter(|entry| entry.key() == Some(SEQUENCE_KEY));
    let Some(entry) = found.next() else {
        return Ok(None);
    };
    let text = entry.value().unwrap_or_default();
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_decimal);
    number.map(Some).ok_or_else(|| {
        Error::data_loss(format!(
            "a batch has {text:?} for its {SEQUENCE_KEY}, which is no number"
        ))
    })
}

/// Encodes one stream that any reader of Arrow IPC streams understands.
///
/// Metadata, and every buffer of a body, are padded to 64 bytes: the published Lightstream reader needs it. Buffers of
/// arrays are not copied.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int32Array, RecordBatch};
/// use arrow_buffer::Buffer;
/// use lightstream_core::protocol::ipc::{IpcIndex, StreamEncoder};
/// use lightstream_core::protocol::limits::DecodeLimits;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2, 3])) as _)])?;
/// let mut encoder = StreamEncoder::try_new(batch.schema())?;
/// let mut bytes = encoder.start()?.to_vec();
/// bytes.extend(encoder.encode(&batch, Some(0))?.to_vec());
/// bytes.extend(encoder.end().to_vec());
/// let index = IpcIndex::try_new(Buffer::from_vec(bytes), DecodeLimits::default())?;
/// assert_eq!(index.batch(0)?, batch);
/// assert_eq!(index.batches()[0].metadata()["ls.seq_id"], "0");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamEncoder {
    encoder: Encoder,
    /// How much of the next payload was sent already.
    sent_bytes: usize,
}

impl StreamEncoder {
    /// An encoder of a stream of batches of this schema.
    ///
    /// # Errors
    /// `invalid_argument` for a schema that IPC cannot express: a dictionary whose values are a dictionary.
    pub fn try_new(schema: SchemaRef) -> Result<Self> {
        Ok(Self {
            sent_bytes: Encoder::schema_message(&schema)?.len(),
            encoder: Encoder::try_new(schema)?,
        })
    }

    /// The start of the stream: its schema.
    ///
    /// # Errors
    /// As [`StreamEncoder::try_new`].
    pub fn start(&self) -> Result<Payload> {
        Encoder::schema_message(self.encoder.schema())
    }

    /// The next batch, with the dictionaries that it needs, under this number among the batches of all streams.
    ///
    /// # Errors
    /// `invalid_argument` when the batch is not of the stream's schema. No batch can be encoded after an error.
    pub fn encode(&mut self, batch: &RecordBatch, sequence: Option<u64>) -> Result<Payload> {
        let segments = self.encoder.encode(batch)?.into_segments().into_iter();
        let mut parts = Parts(segments.filter(|part| !part.is_empty()).collect());
        parts.take(std::mem::take(&mut self.sent_bytes));
        match sequence {
            None => Ok(Payload::new(parts.0.into())),
            Some(sequence) => numbered(parts, sequence).map(Payload::new),
        }
    }

    /// The marker that ends the stream.
    pub fn end(&self) -> Payload {
        Payload::new(vec![Buffer::from(&Encoder::END_OF_STREAM)])
    }
}

/// Bytes in several parts, to be taken from the front.
struct Parts(VecDeque<Buffer>);

impl Parts {
    /// The next so many bytes, in the parts in which they are.
    fn take(&mut self, mut count: usize) -> Vec<Buffer> {
        let mut taken = Vec::new();
        while count > 0
            && let Some(part) = self.0.pop_front()
        {
            if part.len() > count {
                self.0.push_front(part.slice(count));
                taken.push(part.slice_with_length(0, count));
                break;
            }
            count -= part.len();
            taken.push(part);
        }
        taken
    }
}

fn joined(parts: &[Buffer]) -> Vec<u8> {
    parts.iter().flat_map(Buffer::as_slice).copied().collect()
}

/// The same messages, the batch among them with its number.
fn numbered(mut parts: Parts, sequence: u64) -> Result<Vec<Buffer>> {
    let broken = || Error::internal("an IPC message that was just made cannot be read");
    // What was made here is sound, and may be as large as the batch wants it.
    let own = DecodeLimits {
        message_bytes: u64::MAX,
        depth: usize::MAX,
        ..DecodeLimits::default()
    };
    let mut out = Vec::new();
    while !parts.0.is_empty() {
        let head = parts.take(PREFIX_BYTES);
        let prefix = joined(&head).try_into().map_err(|_| broken())?;
        let length = message::metadata_length(prefix)?.ok_or_else(broken)?;
        let metadata = joined(&parts.take(length));
        let parsed =
            message::parse(&metadata, &own).map_err(|error| broken().with_source(error))?;
        if parsed.header_type() == MessageHeader::RecordBatch {
            out.push(Buffer::from_vec(numbered_batch(&parsed, sequence)?));
        } else {
            out.extend(head);
            out.push(Buffer::from_slice_ref(&metadata));
        }
        out.extend(parts.take(message::body_length(&parsed)?));
    }
    Ok(out)
}

/// The prefix and the metadata of a batch message, with its number.
fn numbered_batch(message: &IpcMessage<'_>, sequence: u64) -> Result<Vec<u8>> {
    let old = message
        .header_as_record_batch()
        .ok_or_else(decode::no_header)?;
    let mut made = FlatBufferBuilder::new();
    let nodes: Vec<_> = old.nodes().into_iter().flatten().copied().collect();
    let nodes = made.create_vector(&nodes);
    let buffers: Vec<_> = old.buffers().into_iter().flatten().copied().collect();
    let buffers = made.create_vector(&buffers);
    let counts: Option<Vec<i64>> = old.variadicBufferCounts().map(|all| all.iter().collect());
    let counts = counts.map(|counts| made.create_vector(&counts));
    let compression = old.compression().map(|old| {
        let arguments = BodyCompressionArgs {
            codec: old.codec(),
            method: old.method(),
        };
        BodyCompression::create(&mut made, &arguments)
    });
    let mut batch = RecordBatchBuilder::new(&mut made);
    batch.add_length(old.length());
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    if let Some(compression) = compression {
        batch.add_compression(compression);
    }
    if let Some(counts) = counts {
        batch.add_variadicBufferCounts(counts);
    }
    let batch = batch.finish().as_union_value();
    let arguments = KeyValueArgs {
        key: Some(made.create_string(SEQUENCE_KEY)),
        value: Some(made.create_string(&sequence.to_string())),
    };
    let entry = KeyValue::create(&mut made, &arguments);
    let entries = made.create_vector(&[entry]);
    let mut new = MessageBuilder::new(&mut made);
    new.add_version(message.version());
    new.add_header_type(MessageHeader::RecordBatch);
    new.add_bodyLength(message.bodyLength());
    new.add_header(batch);
    new.add_custom_metadata(entries);
    let root = new.finish();
    made.finish(root, None);
    let metadata = made.finished_data();
    let whole = (PREFIX_BYTES + metadata.len()).next_multiple_of(ALIGNMENT_BYTES);
    let length = i32::try_from(whole - PREFIX_BYTES).map_err(|_| {
        Error::resource_exhausted("a batch has more columns than IPC metadata has room for")
    })?;
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend_from_slice(&message::CONTINUATION);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(metadata);
    bytes.resize(whole, 0);
    Ok(bytes)
}
