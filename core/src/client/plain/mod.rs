//! Plain mode: Arrow IPC streams directly on connections, as any Arrow library and the published Lightstream writers and
//! readers speak them.
//!
//! The peer is asked nothing: it has no catalog, plans no scan and gives its rows once. Columns, filters and limits are
//! applied here, by the same code as at a server.

mod as_they_come;
mod claims;
mod connections;
mod in_order;
mod numbers;
mod reader;
mod source;
mod stream;
mod writer;

pub(super) use self::reader::PlainReader;
pub use self::writer::PlainWriter;

pub(super) use self::source::{Source, no_requests};
