//! The wire format without I/O: frames, control messages, IPC payloads, filters and decode limits.
//!
//! Nothing here knows a socket, a runtime or a query engine.

pub(crate) mod checked;
pub mod filter;
pub mod frame;
pub mod ipc;
pub mod limits;
#[rustfmt::skip]
pub mod messages;
pub(crate) mod pass;
pub(crate) mod pieces;
pub mod plan;
pub mod request;
pub mod statistics;
pub mod table;
pub mod ticket;
pub mod units;

use std::time::Duration;

use crate::error::{Error, ErrorCode};

/// The version of the Lightstream Query service that is spoken here.
pub const VERSION: u32 = 1;

const WIRE_CODES: [(ErrorCode, messages::error::Code); 12] = {
    use messages::error::Code;
    [
        (ErrorCode::InvalidArgument, Code::InvalidArgument),
        (ErrorCode::NotFound, Code::NotFound),
        (ErrorCode::Unauthenticated, Code::Unauthenticated),
        (ErrorCode::PermissionDenied, Code::PermissionDenied),
        (ErrorCode::Unimplemented, Code::Unimplemented),
        (ErrorCode::ResourceExhausted, Code::ResourceExhausted),
        (ErrorCode::Expired, Code::Expired),
        (ErrorCode::Unavailable, Code::Unavailable),
        (ErrorCode::DeadlineExceeded, Code::DeadlineExceeded),
        (ErrorCode::Cancelled, Code::Cancelled),
        (ErrorCode::DataLoss, Code::DataLoss),
        (ErrorCode::Internal, Code::Internal),
    ]
};

/// Longest text of an error that travels, in bytes: it may repeat what the peer has sent, at any length.
const ERROR_TEXT_BYTES: usize = 16 << 10;

/// A text, without its end where it is too long to travel.
fn clipped(mut text: String) -> String {
    if text.len() > ERROR_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(ERROR_TEXT_BYTES));
        text.push('…');
    }
    text
}

/// An error as it travels. The cause below stays here, but its words go along.
pub(crate) fn error_to_proto(error: &Error) -> messages::Error {
    let detail = error.detail();
    let code = WIRE_CODES
        .iter()
        .find(|(code, _)| *code == error.code())
        .map_or(messages::error::Code::Internal, |c| c.1);
    let mut message = detail.message.clone();
    let mut cause = detail
        .source
        .as_ref()
        .map(|source| &**source as &dyn std::error::Error);
    while let Some(source) = cause {
        let words = source.to_string();
        if !message.contains(&words) {
            message.push_str(": ");
            message.push_str(&words);
        }
        cause = source.source();
    }
    messages::Error {
        code: code.into(),
        message: clipped(message),
        retryable: detail.retryable,
        details: Some(messages::ErrorDetails {
            table: clipped(detail.table.clone().unwrap_or_default()),
            partition: detail.partition,
            unit: detail.unit,
            retry_after_ms: detail.retry_after.map_or(0, |pause| {
                u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
            }),
        }),
    }
}

/// An error that came from a peer. A code that is not known counts as `internal`.
pub(crate) fn error_from_proto(error: messages::Error) -> Error {
    let code = WIRE_CODES
        .iter()
        .find(|(_, code)| *code == error.code())
        .map_or(ErrorCode::Internal, |c| c.0);
    let mut made = Error::new(code, error.message).with_retryable(error.retryable);
    let details = error.details.unwrap_or_default();
    if !details.table.is_empty() {
        made = made.with_table(details.table);
    }
    if let Some(partition) = details.partition {
        made = made.with_partition(partition);
    }
    if let Some(unit) = details.unit {
        made = made.with_unit(unit);
    }
    if details.retry_after_ms > 0 {
        made = made.with_retry_after(Duration::from_millis(details.retry_after_ms));
    }
    made
}
