//! The wire format without I/O: frames, control messages, IPC payloads, filters and decode limits.
//!
//! Nothing here knows a socket, a runtime or a query engine.

pub mod filter;
pub mod ipc;
pub mod limits;
#[rustfmt::skip]
pub mod messages;
