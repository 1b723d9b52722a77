//! Reads Arrow IPC streams as they stand on a connection of their own: schema, dictionaries, batches and the marker that
//! ends them, message by message.
//!
//! Knows no connection: who reads one asks here what to read next.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{Message as IpcMessage, MessageHeader};
use arrow_schema::SchemaRef;

use super::decode::{self, Applied, State};
use super::encode::ALIGNMENT_BYTES;
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
