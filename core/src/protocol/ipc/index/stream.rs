//! Finds the messages of an Arrow IPC stream, also of one written before Arrow 0.15.

use std::collections::HashMap;

use arrow_ipc::MessageHeader;

use super::{Contents, DictionaryMessage, IpcBatch, Order};
use crate::protocol::ipc::message::{self, Framing, Place, Prefix};
use crate::protocol::ipc::{arrays, decode, schema};
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// How the first version of Feather begins, which is not Arrow IPC at all.
const FEATHER: &[u8] = b"FEA1";

pub(super) fn read(bytes: &[u8], limits: &DecodeLimits) -> Result<Contents> {
    if bytes.starts_with(FEATHER) {
        return Err(Error::unimplemented(
            "files of Feather version 1 are not supported",
        ));
    }
    let mut schema = None;
    let mut batches = Vec::new();
    let mut dictionaries = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let range = match message::read_prefix(bytes, at, Framing::CurrentOrLegacy)? {
            Prefix::Metadata(range) => range,
            Prefix::EndOfStream(_) => break,
        };
        let message = message::parse(message::slice(bytes, range.clone())?, limits)?;
        let body = message::body_range(bytes, &message, range.end)?;
        at = body.end;
        let place = Place {
            metadata: range,
            body,
        };
        match message.header_type() {
            MessageHeader::Schema if schema.is_some() => {
                return Err(Error::data_loss("a second schema stands in an IPC stream"));
            }
            MessageHeader::Schema => {
                let fields = message.header_as_schema().ok_or_else(decode::no_header)?;
                schema = Some(schema::convert(fields, limits)?);
            }
            _ if schema.is_none() => {
                return Err(Error::data_loss("an IPC stream starts without a schema"));
            }
            MessageHeader::DictionaryBatch => {
                let header = message
                    .header_as_dictionary_batch()
                    .ok_or_else(decode::no_header)?;
                dictionaries.push(DictionaryMessage {
                    place,
                    id: header.id(),
                    is_delta: header.isDelta(),
                });
                at = message::skip_padding(bytes, at);
            }
            MessageHeader::RecordBatch => {
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
            _ => return Err(decode::unknown_header()),
        }
    }
    Ok(Contents {
        schema: schema.ok_or_else(|| Error::data_loss("an IPC stream has no schema"))?,
        metadata: HashMap::new(),
        batches,
        dictionaries,
        order: Order::Stream,
    })
}
