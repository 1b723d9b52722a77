//! Integration tests of the core, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ipc_corruption;
mod ipc_framing;
mod ipc_golden;
mod ipc_limits;
mod ipc_payloads;
