//! What all benchmarks share: processes that are measured, raw TCP to compare with, and where a run was made.
//!
//! It knows no table, no protocol and no query engine.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod flight;
pub mod machine;
pub mod measure;
pub mod output;
pub mod process;
pub mod random;
pub mod raw_tcp;

/// What can go wrong ends the whole run: numbers next to an error would mean nothing.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
