//! Tests that cross crates, linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod differential;
mod faults;
mod filter_conformance;
mod golden;
mod pushdown;
mod sharing;
mod stripes;
mod tickets;
mod tpch;
