//! Finds and verifies the encapsulated messages of an IPC stream, file or payload.
//!
//! Nothing here looks into a body: that is for the readers of batches and dictionaries.

use std::collections::HashMap;
use std::ops::Range;

use arrow_ipc::{KeyValue, Message, MetadataVersion};
use flatbuffers::{ForwardsUOffset, Vector, VerifierOptions};

use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// What stands before the metadata of every message written since Arrow 0.15.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Where a message stands in the bytes that hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The flatbuffer, with its padding and without its prefix.
    pub(super) metadata: Range<usize>,
    /// The body that follows it.
    pub(super) body: Range<usize>,
}

/// What stands at some position of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prefix {
    /// A message, whose flatbuffer takes this range.
    Metadata(Range<usize>),
    /// The marker that ends a stream, and where it ends itself.
    EndOfStream(usize),
}

/// Whether the framing that Arrow wrote before 0.15, without a continuation marker, is read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Messages start with a continuation marker.
    Current,
    /// A message may start with its length at once.
    CurrentOrLegacy,
}

/// How long the prefix of a message is.
pub(super) const PREFIX_BYTES: usize = 8;

/// The length of the metadata that follows a prefix with a continuation marker; `None` for the marker that ends a
/// stream.
pub(super) fn metadata_length(prefix: [u8; PREFIX_BYTES]) -> Result<Option<usize>> {
    let [first @ .., a, b, c, d] = prefix;
    if first != CONTINUATION {
        return Err(no_continuation());
    }
    let length = length([a, b, c, d])?;
    Ok(Some(length).filter(|length| *length > 0))
}

fn no_continuation() -> Error {
    Error::data_loss("an IPC message does not start with a continuation marker")
}

fn length(bytes: [u8; 4]) -> Result<usize> {
    usize::try_from(i32::from_le_bytes(bytes))
        .map_err(|_| Error::data_loss("an IPC message has metadata of a negative length"))
}

/// Reads the prefix of the message at `at`, which lies before the end of `bytes`.
pub(super) fn read_prefix(bytes: &[u8], at: usize, framing: Framing) -> Result<Prefix> {
    let cut = || Error::data_loss("an IPC message is cut off in its prefix");
    let word = |at: usize| -> Result<[u8; 4]> {
        let end = at.checked_add(4).ok_or_else(cut)?;
        let word = bytes.get(at..end).ok_or_else(cut)?;
        word.try_into().map_err(|_| cut())
    };
    let first = word(at)?;
    let (bytes_of_length, start) = if first == CONTINUATION {
        (word(at + 4)?, at + 8)
    } else if framing == Framing::CurrentOrLegacy {
        (first, at + 4)
    } else {
        return Err(no_continuation());
    };
    let length = length(bytes_of_length)?;
    if length == 0 {
        return Ok(Prefix::EndOfStream(start));
    }
    let end = start.checked_add(length).ok_or_else(cut)?;
    if end > bytes.len() {
        return Err(Error::data_loss(format!(
            "an IPC message is cut off in its metadata: {length} bytes announced, {} left",
            bytes.len() - start
        )));
    }
    Ok(Prefix::Metadata(start..end))
}

/// The bytes of `bytes` in `range`.
pub(super) fn slice(bytes: &[u8], range: Range<usize>) -> Result<&[u8]> {
    bytes
        .get(range)
        .ok_or_else(|| Error::data_loss("an IPC message reaches beyond the bytes that hold it"))
}

/// How long the body of a message is.
pub(super) fn body_length(message: &Message<'_>) -> Result<usize> {
    usize::try_from(message.bodyLength())
        .map_err(|_| Error::data_loss("an IPC message has a body of a negative length"))
}

/// The body of a message whose metadata ends at `start`.
pub(super) fn body_range(
    bytes: &[u8],
    message: &Message<'_>,
    start: usize,
) -> Result<Range<usize>> {
    let length = body_length(message)?;
    match start.checked_add(length) {
        Some(end) if end <= bytes.len() => Ok(start..end),
        _ => Err(Error::data_loss(format!(
            "an IPC message is cut off in its body: {length} bytes announced, {} left",
            bytes.len().saturating_sub(start)
        ))),
    }
}

/// Bounds of the flatbuffer verifier for metadata of `length` bytes.
///
/// A flatbuffer may refer to one table many times, so that walking it costs far more than its size; what a sound
/// writer makes stays well below these bounds.
pub(super) fn verifier_options(length: usize, limits: &DecodeLimits) -> VerifierOptions {
    VerifierOptions {
        max_depth: limits.depth.saturating_mul(2).saturating_add(16),
        max_tables: length / 4 + 64,
        max_apparent_size: length.saturating_mul(8).saturating_add(4096),
        ignore_missing_null_terminator: true,
    }
}

/// Verifies the flatbuffer of a message.
pub(super) fn parse<'a>(metadata: &'a [u8], limits: &DecodeLimits) -> Result<Message<'a>> {
    check_length(metadata.len(), limits)?;
    let options = verifier_options(metadata.len(), limits);
    let message = arrow_ipc::root_as_message_with_opts(&options, metadata)
        .map_err(|error| Error::data_loss(format!("malformed IPC metadata: {error}")))?;
    check_version(message.version())?;
    Ok(message)
}

/// Refuses metadata that is too large to be walked.
pub(super) fn check_length(length: usize, limits: &DecodeLimits) -> Result<()> {
    if length as u64 > limits.message_bytes {
        return Err(Error::resource_exhausted(format!(
            "IPC metadata of {length} bytes exceeds the limit of {}",
            limits.message_bytes
        )));
    }
    Ok(())
}

/// Refuses versions of the metadata that are older than Arrow 0.8 or newer than this code.
pub(super) fn check_version(version: MetadataVersion) -> Result<()> {
    if version == MetadataVersion::V4 || version == MetadataVersion::V5 {
        Ok(())
    } else {
        Err(Error::unimplemented(format!(
            "IPC metadata version {version:?} is not supported, only V4 and V5"
        )))
    }
}

/// Custom metadata as a map; entries without key or value are dropped, as Arrow does.
pub(super) fn custom_metadata(
    entries: Option<Vector<'_, ForwardsUOffset<KeyValue<'_>>>>,
) -> HashMap<String, String> {
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry.key()?.to_owned(), entry.value()?.to_owned())))
        .collect()
}

/// The end of the zero padding that stands at `at` after the body of a dictionary.
///
/// The published Lightstream writer pads its dictionary messages to 64 bytes outside of their body length. Fewer than
/// 64 zero bytes that lead to another message are that padding; anything else is left where it is.
pub(super) fn skip_padding(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let zeros = rest.iter().take(64).take_while(|byte| **byte == 0).count();
    let follows = rest.get(zeros..).unwrap_or_default();
    if zeros < 64 && follows.starts_with(&CONTINUATION) {
        at + zeros
    } else {
        at
    }
}
