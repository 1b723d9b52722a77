//! What the tests that cross crates share: tables, servers, a proxy that breaks connections, and ways to compare rows.
//!
//! Not for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // For tests, where a panic is a finding.

pub mod fixture;
pub mod isolated;
pub mod panics;
pub mod predicates;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod rows;
pub mod servers;
pub mod tables;
