//! TPC-H: its tables and queries, and how answers are compared. For tests and benchmarks alike.
//!
//! Measures nothing and serves nothing.
#![deny(missing_docs)]

pub mod answers;
pub mod queries;
pub mod tables;
