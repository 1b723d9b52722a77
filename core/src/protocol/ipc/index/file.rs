//! Finds the messages of an Arrow IPC file through its footer.

use arrow_ipc::{Block, Message, MessageHeader};

use super::{Contents, DictionaryMessage, IpcBatch, Order};
use crate::protocol::ipc::message::{self, Framing, Place, Prefix};
use crate::protocol::ipc::{arrays, decode, schema};
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// How a file begins and ends.
pub(super) const MAGIC: &[u8] = b"ARROW1";

pub(super) fn read(bytes: &[u8], limits: &DecodeLimits) -> Result<Contents> {
    let (blocks, footer) = split_footer(bytes)?;
    message::check_length(footer.len(), limits)?;
    let options = message::verifier_options(footer.len(), limits);
    let footer = arrow_ipc::root_as_footer_with_opts(&options, footer)
        .map_err(|error| Error::data_loss(format!("malformed footer of an IPC file: {error}")))?;
    let schema = footer
        .schema()
        .ok_or_else(|| Error::data_loss("the footer of an IPC file has no schema"))?;
    let schema = schema::convert(schema, limits)?;
    let mut located = Blocks {
        bytes: blocks,
        limits,
        bytes_left: blocks.len(),
    };
    let mut dictionaries = Vec::new();
    for block in footer.dictionaries().into_iter().flatten() {
        let (place, message) = located.next(block)?;
        let header = match message.header_type() {
            MessageHeader::DictionaryBatch => message.header_as_dictionary_batch(),
            _ => None,
        };
        let header = header.ok_or_else(decode::no_header)?;
        dictionaries.push(DictionaryMessage {
            place,
            id: header.id(),
            is_delta: header.isDelta(),
        });
    }
    let mut batches = Vec::new();
    for block in footer.recordBatches().into_iter().flatten() {
        let (place, message) = located.next(block)?;
        let header = message
            .header_as_record_batch()
            .ok_or_else(decode::no_header)?;
        batches.push(IpcBatch {
            place,
            rows: arrays::row_count(header.length(), limits.rows)? as u64,
            metadata: message::custom_metadata(message.custom_metadata()),
            dictionaries: dictionaries.len(),
        });
    }
    Ok(Contents {
        schema,
        metadata: message::custom_metadata(footer.custom_metadata()),
        batches,
        dictionaries,
        order: Order::File,
    })
}

/// What stands before the footer, and the footer.
fn split_footer(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let cut = || Error::data_loss("an IPC file is cut off: it does not end in a footer");
    let rest = bytes.strip_suffix(MAGIC).ok_or_else(cut)?;
    let (rest, length) = rest.split_last_chunk::<4>().ok_or_else(cut)?;
    let length = usize::try_from(i32::from_le_bytes(*length))
        .map_err(|_| Error::data_loss("the footer of an IPC file is of a negative length"))?;
    let start = rest
        .len()
        .checked_sub(length)
        .filter(|start| *start >= MAGIC.len());
    let start = start
        .ok_or_else(|| Error::data_loss("the footer of an IPC file is longer than the file"))?;
    rest.split_at_checked(start).ok_or_else(cut)
}

/// What stands before the footer, and how much of it blocks may still take.
struct Blocks<'a> {
    bytes: &'a [u8],
    limits: &'a DecodeLimits,
    bytes_left: usize,
}

impl<'a> Blocks<'a> {
    /// The place of a block, and its message.
    ///
    /// Blocks never overlap in a sound file. A footer that names one block a million times is refused, lest reading it
    /// costs a million times its size.
    fn next(&mut self, block: &Block) -> Result<(Place, Message<'a>)> {
        let bytes = self.bytes;
        let outside = || {
            Error::data_loss(format!(
                "a block of an IPC file, {block:?}, does not lie in its {} bytes",
                bytes.len()
            ))
        };
        let number = |number: i64| usize::try_from(number).map_err(|_| outside());
        let start = number(block.offset())?;
        let middle = start
            .checked_add(number(block.metaDataLength().into())?)
            .ok_or_else(outside)?;
        let end = middle
            .checked_add(number(block.bodyLength())?)
            .ok_or_else(outside)?;
        let block_bytes = message::slice(bytes, 0..end).map_err(|_| outside())?;
        self.bytes_left = self
            .bytes_left
            .checked_sub(end - start)
            .ok_or_else(|| Error::data_loss("the blocks of an IPC file overlap"))?;
        let head = message::slice(bytes, 0..middle)?;
        let Prefix::Metadata(metadata) =
            message::read_prefix(head, start, Framing::CurrentOrLegacy)?
        else {
            return Err(Error::data_loss("a block of an IPC file has no message"));
        };
        let message = message::parse(message::slice(bytes, metadata.clone())?, self.limits)?;
        let body = message::body_range(block_bytes, &message, middle)?;
        Ok((Place { metadata, body }, message))
    }
}
