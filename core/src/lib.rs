//! The shared transport core of Lightstream: tables on one machine, scanned from another.
//!
//! A [`server::Server`] offers a catalog of tables; a [`Client`] lists and describes them, plans a scan, and reads its
//! partitions. What a scan asks for (columns, filters, a limit, a snapshot) is part of the protocol, and so is the end of
//! each stream: a result is complete or an error. Query engines are not known here; see the crates that translate.
//!
//! | module | what it holds | what it knows nothing of |
//! |---|---|---|
//! | [`protocol`] | frames, control messages, Arrow IPC, filters, plans, tickets, limits | sockets, runtimes |
//! | [`transport`] | URLs, and byte streams over TCP and Unix sockets | Arrow, frames |
//! | [`client`] | connections, plans, readers that resume, stripes merged in order | engines |
//! | [`server`] | catalogs, tables in memory and in mapped files, sessions | engines |
//! | [`trace`] | where requests stand in a trace | who records it |
//!
//! # Features
//!
//! | feature | default | what it brings |
//! |---|---|---|
//! | `sql` | yes | [`protocol::filter::sql`]: filters written as SQL |
//! | `conformance` | no | generators and checks for the tests of this and other crates |
//! | `golden` | no | readers of Arrow's golden files, for tests |
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod allowed_hosts;
pub mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod connection;
mod error;
mod incoming;
mod memory;
mod options;
mod patterns;
pub mod protocol;
mod random;
mod secret;
pub mod server;
pub mod trace;
pub mod transport;
mod watched;

pub use allowed_hosts::AllowedHosts;
pub use client::Client;
pub use error::{Attempts, Error, ErrorCode, ErrorDetail, Result, Source};
pub use options::{Checksums, Options, TlsMode, duration, size};
pub use secret::Secret;
