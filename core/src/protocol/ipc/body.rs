//! The nodes and buffers of one record batch message, each checked against the body before it is touched.
//!
//! Nothing here knows what a buffer means to an array.

use arrow_buffer::Buffer;
use arrow_ipc as ipc;

use crate::memory::part;
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// How many times the buffers of a message, together, may be as long as its body.
///
/// Sound writers lay the buffers one behind the other. Some might share one between arrays, but a message whose buffers
/// all span the whole body would take time without bound to validate.
const MOST_SHARING: u64 = 16;

/// The length of the declared size in front of a compressed buffer.
const DECLARED_BYTES: usize = 8;

/// How many bytes one byte of an LZ4 block can unfold to, at most.
const LZ4_MOST_RATIO: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Lz4Frame,
    Zstd,
}

/// The length and null count of one array, checked to be sound by themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) length: usize,
    pub(super) null_count: usize,
}

/// Hands out the nodes and buffers of a record batch message in their order.
pub(super) struct Body<'a> {
    bytes: &'a Buffer,
    nodes: flatbuffers::VectorIter<'a, ipc::FieldNode>,
    buffers: flatbuffers::VectorIter<'a, ipc::Buffer>,
    variadic_counts: Option<flatbuffers::VectorIter<'a, i64>>,
    codec: Option<Codec>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    unfolded_bytes_left: u64,
    spanned_bytes_left: u64,
}

impl<'a> Body<'a> {
    pub(super) fn try_new(
        batch: ipc::RecordBatch<'a>,
        bytes: &'a Buffer,
        limits: &DecodeLimits,
    ) -> Result<Self> {
        let missing = || Error::data_loss("an IPC record batch has no list of nodes or buffers");
        let nodes = batch.nodes().ok_or_else(missing)?;
        let buffers = batch.buffers().ok_or_else(missing)?;
        if buffers.len() > limits.buffers {
            return Err(Error::resource_exhausted(format!(
                "an IPC record batch has {} buffers, {} are allowed",
                buffers.len(),
                limits.buffers
            )));
        }
        let codec = match batch.compression() {
            None => None,
            Some(compression) if compression.method() != ipc::BodyCompressionMethod::BUFFER => {
                return Err(Error::unimplemented(
                    "unknown method of IPC body compression",
                ));
            }
            Some(compression) => match compression.codec() {
                ipc::CompressionType::LZ4_FRAME => Some(Codec::Lz4Frame),
                ipc::CompressionType::ZSTD => Some(Codec::Zstd),
                _ => {
                    return Err(Error::unimplemented(
                        "unknown codec of IPC body compression",
                    ));
                }
            },
        };
        Ok(Self {
            bytes,
            nodes: nodes.iter(),
            buffers: buffers.iter(),
            variadic_counts: batch.variadicBufferCounts().map(|counts| counts.iter()),
            codec,
            zstd: None,
            unfolded_bytes_left: limits.decompressed_bytes,
            spanned_bytes_left: (bytes.len() as u64).saturating_mul(MOST_SHARING),
        })
    }

    pub(super) fn node(&mut self) -> Result<Node> {
        let node = self
            .nodes
            .next()
            .ok_or_else(|| Error::data_loss("an IPC record batch has too few nodes"))?;
        let unsound = || {
            Error::data_loss(format!(
                "an IPC record batch has an unsound node: {} rows, {} nulls",
                node.length(),
                node.null_count()
            ))
        };
        let length = usize::try_from(node.length()).map_err(|_| unsound())?;
        let null_count = usize::try_from(node.null_count()).map_err(|_| unsound())?;
        if null_count > length {
            return Err(unsound());
        }
        Ok(Node { length, null_count })
    }

    /// How many data buffers the next view array has.
    pub(super) fn variadic_count(&mut self) -> Result<usize> {
        let count = self
            .variadic_counts
            .as_mut()
            .and_then(Iterator::next)
            .ok_or_else(|| Error::data_loss("an IPC record batch has too few variadic counts"))?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.buffers.len())
            .ok_or_else(|| Error::data_loss(format!("unsound variadic buffer count {count}")))
    }

    /// The next buffer as it stands in the body.
    fn raw(&mut self) -> Result<Buffer> {
        let buffer = self
            .buffers
            .next()
            .ok_or_else(|| Error::data_loss("an IPC record batch has too few buffers"))?;
        let range = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .filter(|(start, length)| {
                start
                    .checked_add(*length)
                    .is_some_and(|end| end <= self.bytes.len())
            });
        let Some((start, length)) = range else {
            // Writers leave any offset beside a length of zero.
            if buffer.length() == 0 {
                return Ok(Buffer::default());
            }
            return Err(Error::data_loss(format!(
                "an IPC buffer at {} of {} bytes does not lie in its body of {} bytes",
                buffer.offset(),
                buffer.length(),
                self.bytes.len()
            )));
        };
        self.spanned_bytes_left = self
            .spanned_bytes_left
            .checked_sub(length as u64)
            .ok_or_else(|| Error::data_loss("the buffers of an IPC record batch overlap"))?;
        Ok(part(self.bytes, start, length))
    }

    /// Passes over the next buffer.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.raw().map(drop)
    }

    /// The next buffer, unfolded where it is compressed.
    pub(super) fn buffer(&mut self) -> Result<Buffer> {
        let raw = self.raw()?;
        match self.codec {
            Some(codec) if !raw.is_empty() => self.unfold(&raw, codec),
            _ => Ok(raw),
        }
    }

    /// The next buffer, cut to `length` bytes, of which it must have as many.
    pub(super) fn buffer_of(&mut self, length: Option<usize>) -> Result<Buffer> {
        let buffer = self.buffer()?;
        match length {
            Some(length) if length == buffer.len() => Ok(buffer),
            Some(length) if length < buffer.len() => Ok(part(&buffer, 0, length)),
            _ => Err(Error::data_loss(format!(
                "an IPC buffer has {} bytes, too few for its array",
                buffer.len()
            ))),
        }
    }

    /// Complains of what is left over.
    pub(super) fn finish(self) -> Result<()> {
        let counts = self.variadic_counts.map_or(0, |counts| counts.len());
        if self.nodes.len() > 0 || self.buffers.len() > 0 || counts > 0 {
            return Err(Error::data_loss(
                "an IPC record batch has more nodes or buffers than its schema",
            ));
        }
        Ok(())
    }

    fn unfold(&mut self, raw: &Buffer, codec: Codec) -> Result<Buffer> {
        let (declared, folded) = raw
            .split_first_chunk::<DECLARED_BYTES>()
            .ok_or_else(|| Error::data_loss("a compressed IPC buffer has no length"))?;
        let declared = match i64::from_le_bytes(*declared) {
            -1 => return Ok(raw.slice(DECLARED_BYTES)),
            declared => declared,
        };
        let declared = u64::try_from(declared)
            .map_err(|_| Error::data_loss("a compressed IPC buffer has a negative length"))?;
        if declared == 0 {
            return Ok(Buffer::default());
        }
        self.unfolded_bytes_left =
            self.unfolded_bytes_left
                .checked_sub(declared)
                .ok_or_else(|| {
                    Error::resource_exhausted(
                        "compressed IPC buffers exceed the limit on their size",
                    )
                })?;
        let too_large = || Error::resource_exhausted("a compressed IPC buffer is too large");
        let declared = usize::try_from(declared).map_err(|_| too_large())?;
        if codec == Codec::Lz4Frame && declared / LZ4_MOST_RATIO > folded.len() {
            return Err(Error::data_loss(
                "a compressed IPC buffer cannot be of the length it states",
            ));
        }
        let mut unfolded = Vec::new();
        unfolded
            .try_reserve_exact(declared)
            .map_err(|_| too_large())?;
        match codec {
            Codec::Lz4Frame => unfold_lz4(folded, declared, &mut unfolded)?,
            Codec::Zstd => self.unfold_zstd(folded, &mut unfolded)?,
        }
        if unfolded.len() != declared {
            return Err(Error::data_loss(format!(
                "a compressed IPC buffer unfolds to {} bytes, not to {declared}",
                unfolded.len()
            )));
        }
        Ok(Buffer::from_vec(unfolded))
    }

    fn unfold_zstd(&mut self, folded: &[u8], unfolded: &mut Vec<u8>) -> Result<()> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Decompressor::new().map_err(|error| {
                Error::internal("no zstd decompressor can be made").with_source(error)
            })?),
        };
        // Writes into the capacity that is there, and fails when that is too little.
        zstd.decompress_to_buffer(folded, unfolded)
            .map_err(|error| Error::data_loss(format!("malformed zstd data: {error}")))?;
        Ok(())
    }
}

fn unfold_lz4(folded: &[u8], declared: usize, unfolded: &mut Vec<u8>) -> Result<()> {
    use std::io::Read;

    let malformed =
        |error: std::io::Error| Error::data_loss(format!("malformed LZ4 data: {error}"));
    let mut decoder = lz4_flex::frame::FrameDecoder::new(folded);
    let most = u64::try_from(declared).unwrap_or(u64::MAX);
    decoder
        .by_ref()
        .take(most)
        .read_to_end(unfolded)
        .map_err(malformed)?;
    if decoder.read(&mut [0]).map_err(malformed)? != 0 {
        return Err(Error::data_loss(
            "a compressed IPC buffer unfolds to more than it states",
        ));
    }
    Ok(())
}
