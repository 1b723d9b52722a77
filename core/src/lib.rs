//! The shared transport core of Lightstream.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod protocol;

pub use error::{Error, ErrorCode, ErrorDetail, Result, Source};
