//! The shared transport core of Lightstream.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod connection;
mod error;
mod memory;
mod options;
pub mod protocol;
pub mod server;
pub mod transport;

pub use client::Client;
pub use error::{Error, ErrorCode, ErrorDetail, Result, Source};
pub use options::{Options, TlsMode, duration, size};
