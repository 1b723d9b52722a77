//! The span that a request is answered in.

use tracing::Span;
use tracing::field::Empty;

use super::authenticate::Identity;
use crate::protocol::messages::{self, request::Kind};
use crate::protocol::request::{name_of, table_of};
use crate::trace;

/// Longest name in a span: whoever asks may make one up.
const NAME_CHARACTERS: usize = 256;

/// The span of a request, within the trace that the client names. Of a client that is not known it says less.
pub(super) fn request_span(
    request: &messages::Request,
    peer: &str,
    identity: Option<&Identity>,
) -> Span {
    let span = tracing::info_span!(
        "lightstream.request",
        otel.kind = "server",
        request = name_of(request.kind.as_ref()),
        %peer,
        subject = Empty,
        table = Empty,
        partition = Empty,
        trace_id = Empty,
        parent_id = Empty,
        outcome = Empty,
    );
    trace::adopt(&span, &request.traceparent);
    let Some(identity) = identity else {
        return span;
    };
    if !identity.subject.is_empty() {
        span.record("subject", &*identity.subject);
    }
    let table = match &request.kind {
        Some(Kind::DescribeTable(describe)) => Some(&*describe.name),
        Some(Kind::Plan(plan)) => plan.request.as_ref().map(table_of),
        Some(Kind::Read(read)) => read.request.as_ref().map(table_of),
        _ => None,
    };
    if let Some(table) = table {
        let end = table.char_indices().nth(NAME_CHARACTERS);
        let start = end.and_then(|(end, _)| table.get(..end));
        span.record("table", start.unwrap_or(table));
    }
    span
}
