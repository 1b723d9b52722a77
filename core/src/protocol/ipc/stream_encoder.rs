//! Writes Arrow IPC streams as they stand on a connection of their own, so that the published Lightstream reader
//! understands them too.
//!
//! Knows no connection: who writes one asks here what to send.

use std::collections::{HashMap, VecDeque};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, DictionaryBatchBuilder, DictionaryEncoding, Field,
    KeyValue, KeyValueArgs, Message, MessageBuilder, RecordBatch as Rows, RecordBatchBuilder,
};
use arrow_schema::SchemaRef;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::encode::{ALIGNMENT_BYTES, EncodeOptions, Encoder, Payload};
use super::message::{self, PREFIX_BYTES};
use super::stream::SEQUENCE_KEY;
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// Encodes one stream that any reader of Arrow IPC streams understands.
///
/// Metadata, and every buffer of a body, are padded to 64 bytes, and the dictionary of a column has the column's position
/// for its id: the published Lightstream reader needs both. Without compression buffers of arrays are not copied.
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
/// let mut bytes = encoder.start().to_vec();
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
    start: Payload,
    /// The ids that dictionaries have in the stream, by those that the encoder gives them.
    ids: HashMap<i64, i64>,
    /// How many bytes of the encoder's next payload are the schema, which `start` stands for.
    schema_bytes: usize,
}

impl StreamEncoder {
    /// An encoder of a stream of batches of this schema.
    ///
    /// # Errors
    /// `invalid_argument` for a schema that IPC cannot express: a dictionary whose values are a dictionary.
    pub fn try_new(schema: SchemaRef) -> Result<Self> {
        Self::try_new_with_options(schema, &EncodeOptions::default())
    }

    /// The same, with options.
    ///
    /// # Errors
    /// As [`StreamEncoder::try_new`].
    pub fn try_new_with_options(schema: SchemaRef, options: &EncodeOptions) -> Result<Self> {
        let schema_bytes = Encoder::schema_message(&schema)?.len();
        let (start, ids) = schema_message(&schema)?;
        Ok(Self {
            encoder: Encoder::try_new_with_options(schema, options)?,
            start: Payload::new(vec![Buffer::from_vec(start)]),
            ids,
            schema_bytes,
        })
    }

    /// The start of the stream: its schema.
    pub fn start(&self) -> Payload {
        self.start.clone()
    }

    /// The next batch, with the dictionaries that it needs, under this number among the batches of all streams.
    ///
    /// # Errors
    /// `invalid_argument` when the batch is not of the stream's schema. No batch can be encoded after an error.
    pub fn encode(&mut self, batch: &RecordBatch, sequence: Option<u64>) -> Result<Payload> {
        let segments = self.encoder.encode(batch)?.into_segments().into_iter();
        let mut parts = Parts(segments.filter(|part| !part.is_empty()).collect());
        parts.take(std::mem::take(&mut self.schema_bytes));
        if sequence.is_none() && self.ids.is_empty() {
            return Ok(Payload::new(parts.0.into()));
        }
        rewritten(parts, &self.ids, sequence).map(Payload::new)
    }

    /// The marker that ends the stream.
    pub fn end(&self) -> Payload {
        Payload::new(vec![Buffer::from(&Encoder::END_OF_STREAM)])
    }
}

/// What was made here is sound, and may be as large as the data wants it.
fn parse(metadata: &[u8]) -> Result<Message<'_>> {
    let own = DecodeLimits {
        message_bytes: u64::MAX,
        depth: usize::MAX,
        ..DecodeLimits::default()
    };
    message::parse(metadata, &own).map_err(|error| broken().with_source(error))
}

fn broken() -> Error {
    Error::internal("an IPC message that was just made cannot be read")
}

/// The schema message of a stream, and the ids of its dictionaries by those that an encoder gives them: from 0, in the
/// order in which it meets them.
///
/// The dictionary of a column has the column's position, one further down a number beyond all columns.
fn schema_message(schema: &SchemaRef) -> Result<(Vec<u8>, HashMap<i64, i64>)> {
    // An id of 0 would take no room in the message. With the ids moved by one all can be replaced where they are.
    const MOVED_BY: i64 = 1;
    let mut tracker = DictionaryTracker::new(false);
    for _ in 0..MOVED_BY {
        tracker.next_dict_id();
    }
    let made = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut tracker,
        &IpcWriteOptions::default(),
    );
    let mut metadata = made.ipc_message;
    let parsed = parse(&metadata)?;
    let columns = parsed.header_as_schema().and_then(|schema| schema.fields());
    let columns = columns.ok_or_else(broken)?;
    let mut further = columns.len()..;
    let mut ids = HashMap::new();
    let mut changes = Vec::new();
    for (position, column) in columns.iter().enumerate() {
        for (depth, dictionary) in dictionaries(column) {
            let id = if depth == 0 {
                position
            } else {
                further.next().unwrap_or_default()
            };
            let id = i64::try_from(id).map_err(|_| broken())?;
            ids.insert(dictionary.id() - MOVED_BY, id);
            changes.push((place_of_id(dictionary)?, id));
        }
    }
    for (place, id) in changes {
        let bytes = metadata
            .get_mut(place..)
            .and_then(|rest| rest.first_chunk_mut());
        *bytes.ok_or_else(broken)? = id.to_le_bytes();
    }
    Ok((framed(&metadata)?, ids))
}

/// The dictionaries of a field and of all below it, with how far below they are.
fn dictionaries<'a>(field: Field<'a>) -> Vec<(usize, DictionaryEncoding<'a>)> {
    let own = field.dictionary().map(|dictionary| (0, dictionary));
    let children = field.children().into_iter().flatten();
    let below = children
        .flat_map(dictionaries)
        .map(|(depth, dictionary)| (depth + 1, dictionary));
    own.into_iter().chain(below).collect()
}

/// Where in its message the id of a dictionary stands.
fn place_of_id(dictionary: DictionaryEncoding<'_>) -> Result<usize> {
    let table = dictionary._tab;
    match table.vtable().get(DictionaryEncoding::VT_ID) {
        0 => Err(broken()),
        offset => Ok(table.loc() + usize::from(offset)),
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

/// The same messages, their dictionaries with these ids and the batch among them with its number.
fn rewritten(
    mut parts: Parts,
    ids: &HashMap<i64, i64>,
    sequence: Option<u64>,
) -> Result<Vec<Buffer>> {
    let mut out = Vec::new();
    while !parts.0.is_empty() {
        let prefix = joined(&parts.take(PREFIX_BYTES));
        let prefix = prefix.try_into().map_err(|_| broken())?;
        let length = message::metadata_length(prefix)?.ok_or_else(broken)?;
        let metadata = joined(&parts.take(length));
        let parsed = parse(&metadata)?;
        out.push(Buffer::from_vec(rewritten_message(&parsed, ids, sequence)?));
        out.extend(parts.take(message::body_length(&parsed)?));
    }
    Ok(out)
}

/// The prefix and the metadata of a dictionary or batch message.
fn rewritten_message(
    message: &Message<'_>,
    ids: &HashMap<i64, i64>,
    sequence: Option<u64>,
) -> Result<Vec<u8>> {
    let mut made = FlatBufferBuilder::new();
    let mut entries = None;
    let header: WIPOffset<UnionWIPOffset> =
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            let data = dictionary.data().ok_or_else(broken)?;
            let data = copied(&mut made, data);
            let mut copy = DictionaryBatchBuilder::new(&mut made);
            copy.add_id(*ids.get(&dictionary.id()).ok_or_else(broken)?);
            copy.add_data(data);
            copy.add_isDelta(dictionary.isDelta());
            copy.finish().as_union_value()
        } else {
            let rows = message.header_as_record_batch().ok_or_else(broken)?;
            let rows = copied(&mut made, rows).as_union_value();
            if let Some(sequence) = sequence {
                let arguments = KeyValueArgs {
                    key: Some(made.create_string(SEQUENCE_KEY)),
                    value: Some(made.create_string(&sequence.to_string())),
                };
                let entry = KeyValue::create(&mut made, &arguments);
                entries = Some(made.create_vector(&[entry]));
            }
            rows
        };
    let mut new = MessageBuilder::new(&mut made);
    new.add_version(message.version());
    new.add_header_type(message.header_type());
    new.add_bodyLength(message.bodyLength());
    new.add_header(header);
    if let Some(entries) = entries {
        new.add_custom_metadata(entries);
    }
    let root = new.finish();
    made.finish(root, None);
    framed(made.finished_data())
}

/// The description of a body, in another message.
fn copied<'a>(made: &mut FlatBufferBuilder<'a>, old: Rows<'_>) -> WIPOffset<Rows<'a>> {
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
        BodyCompression::create(made, &arguments)
    });
    let mut new = RecordBatchBuilder::new(made);
    new.add_length(old.length());
    new.add_nodes(nodes);
    new.add_buffers(buffers);
    if let Some(compression) = compression {
        new.add_compression(compression);
    }
    if let Some(counts) = counts {
        new.add_variadicBufferCounts(counts);
    }
    new.finish()
}

/// Metadata as it stands in a stream: with its prefix, padded.
fn framed(metadata: &[u8]) -> Result<Vec<u8>> {
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
