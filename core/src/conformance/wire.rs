//! Everything that is read off a connection, given bytes instead of one: for fuzzing.

use std::io::Cursor;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};

use crate::connection::{Frame, FrameReader};
use crate::error::Result;
use crate::memory::FramePool;
use crate::protocol::filter::FilterLimits;
use crate::protocol::ipc::Decoder;
use crate::protocol::limits::DecodeLimits;
use crate::protocol::messages::{self, request, response};
use crate::protocol::plan::ScanPlan;
use crate::protocol::request::ScanRequest;
use crate::protocol::table::TableInfo;
use crate::protocol::ticket::TicketKey;

/// Reads frames until they end or one is malformed, and takes each apart as client or server would.
///
/// Returns how many frames were understood.
///
/// # Errors
/// Those of the first frame that is not understood.
pub fn receive(bytes: &[u8], limits: &DecodeLimits) -> Result<usize> {
    let source = Box::new(Cursor::new(bytes.to_vec()));
    let mut reader = FrameReader::new(source, limits.clone(), FramePool::new(1 << 20));
    let mut decoder = Decoder::new(limits.clone());
    let mut understood = 0;
    while let Some(frame) = futures::executor::block_on(reader.next())? {
        match frame {
            Frame::Request(request) => receive_request(request)?,
            Frame::Response(response) => receive_response(response, limits)?,
            Frame::Batch(payload) => {
                decoder.decode(payload)?;
            }
        }
        understood += 1;
    }
    Ok(understood)
}

fn receive_request(message: messages::Request) -> Result<()> {
    let (request, ticket) = match message.kind {
        Some(request::Kind::Plan(plan)) => (plan.request, Vec::new()),
        Some(request::Kind::Read(read)) => (read.request, read.ticket),
        Some(request::Kind::Release(release)) => (None, release.ticket),
        _ => return Ok(()),
    };
    let key = TicketKey::from_secret(&[0; 32])?;
    let opened = key.open(&ticket, "", std::time::SystemTime::UNIX_EPOCH);
    let request = ScanRequest::from_proto(&request.unwrap_or_default(), &FilterLimits::default())?;
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
    ]));
    request.filter.support(&schema);
    request.to_proto()?;
    opened.map(|_| ())
}

fn receive_response(message: messages::Response, limits: &DecodeLimits) -> Result<()> {
    match message.kind {
        Some(response::Kind::TableInfo(info)) => TableInfo::from_proto(&info, limits).map(|_| ()),
        Some(response::Kind::ScanPlan(plan)) => {
            let request = ScanRequest::table("t");
            let sent = request.to_proto()?;
            ScanPlan::from_proto(plan, &request, sent, "", limits).map(|_| ())
        }
        _ => Ok(()),
    }
}
