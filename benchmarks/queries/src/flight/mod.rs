//! Tables by Arrow Flight: what a straightforward pair of programs does.
//!
//! Flight leaves to each pair what commands and tickets mean. Here they carry a table's name, the columns that are
//! wanted and into how many shares the table is cut; neither filters nor limits.

pub mod provider;
pub mod server;

use serde::{Deserialize, Serialize};

/// What a command asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Request {
    table: String,
    /// Columns by their places; all where none are given.
    projection: Option<Vec<usize>>,
    partitions: usize,
}

/// What a ticket stands for: one share of what was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Share {
    request: Request,
    index: usize,
}
