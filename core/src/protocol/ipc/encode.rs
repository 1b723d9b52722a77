//! Encodes record batches as table payloads, without copying the buffers of arrays.
//!
//! Nothing here cuts a batch to a size: see [`cut_rows`](super::cut_rows).

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_schema::{ArrowError, SchemaRef};

use super::compact::compact;
use crate::{Error, Result};

/// Every body and every buffer in it starts at a multiple of this, counted from the payload's start.
pub(super) const ALIGNMENT_BYTES: usize = 64;

/// How the buffers of batches and dictionaries are compressed, each by itself. A buffer that would not become shorter is
/// left as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// `none`: not at all.
    #[default]
    None,
    /// `lz4`: as LZ4 frames.
    Lz4,
    /// `zstd`: as Zstandard frames.
    Zstd,
}

/// How payloads are encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The compression of buffers. Those of a compressed payload are not the arrays' own.
    pub compression: Compression,
}

/// One table payload. Its segments, one behind the other, are its bytes.
#[derive(Debug, Clone)]
pub struct Payload {
    segments: Vec<Buffer>,
    len: usize,
}

impl Payload {
    pub(super) fn new(segments: Vec<Buffer>) -> Self {
        let len = segments.iter().map(Buffer::len).sum();
        Self { segments, len }
    }

    /// The parts of the payload, in order. Those of arrays are the arrays' own buffers.
    pub fn segments(&self) -> &[Buffer] {
        &self.segments
    }

    /// The parts of the payload, to be sent.
    pub fn into_segments(self) -> Vec<Buffer> {
        self.segments
    }

    /// The length of the whole payload, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the payload has no bytes at all; one made by an [`Encoder`] always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The payload in one piece, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        for segment in &self.segments {
            bytes.extend_from_slice(segment);
        }
        bytes
    }
}

/// Encodes the batches of one stream.
///
/// The first payload holds the schema, all dictionaries and the batch; later ones only dictionaries that changed and
/// the batch. There is no end-of-stream marker: messages around the payloads say where a stream ends.
pub struct Encoder {
    schema: SchemaRef,
    stream: StreamEncoder,
    failed: bool,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("schema", &self.schema)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

fn refused(error: ArrowError) -> Error {
    Error::invalid_argument(error.to_string()).with_source(error)
}

fn stream_encoder(schema: &SchemaRef, options: &EncodeOptions) -> Result<StreamEncoder> {
    let compression = match options.compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        Compression::Zstd => Some(CompressionType::ZSTD),
    };
    IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, arrow_ipc::MetadataVersion::V5)
        .and_then(|options| options.try_with_compression(compression))
        .and_then(|options| StreamEncoder::try_new_with_options(schema, options))
        .map_err(refused)
}

impl Encoder {
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
    /// As [`Encoder::try_new`].
    pub fn try_new_with_options(schema: SchemaRef, options: &EncodeOptions) -> Result<Self> {
        Ok(Self {
            stream: stream_encoder(&schema, options)?,
            schema,
            failed: false,
        })
    }

    /// The schema of the stream.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Encodes the next batch.
    ///
    /// Arrays that refer to far more than they show (slices of views, unions and the like) are compacted first.
    ///
    /// # Errors
    /// `invalid_argument` when the batch is not of the stream's schema. No batch can be encoded after an error.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Payload> {
        if self.failed {
            return Err(Error::internal(
                "an encoder of table payloads has failed before",
            ));
        }
        self.failed = true;
        let payload = self.encode_next(batch)?;
        self.failed = false;
        Ok(payload)
    }

    fn encode_next(&mut self, batch: &RecordBatch) -> Result<Payload> {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(compact).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(refused)?;
        self.stream
            .encode(&batch)
            .map(Payload::new)
            .map_err(refused)
    }

    /// The schema message of a stream, as it stands in front of the first payload.
    pub(super) fn schema_message(schema: &SchemaRef) -> Result<Payload> {
        let mut segments = stream_encoder(schema, &EncodeOptions::default())?
            .finish()
            .map_err(refused)?;
        // The marker comes last.
        segments.pop();
        Ok(Payload::new(segments))
    }

    /// The marker that ends an Arrow IPC stream, for payloads that are put together to one.
    pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
}
