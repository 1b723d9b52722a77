//! What this program's processes say to each other.

use std::ops::Range;

use lightstream_benchmarks::raw_tcp::Variant;
use lightstream_tpch::answers::Answer;
use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::system::System;

/// What a server is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerSpec {
    pub system: System,
    pub data: Data,
    /// Of the wide table, for raw TCP.
    pub columns: Option<Range<usize>>,
}

/// Where a server listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    Url(String),
    /// Of raw TCP, with the bytes that it sends.
    Port {
        port: u16,
        bytes: usize,
    },
}

/// What a client is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientSpec {
    pub system: System,
    pub data: Data,
    /// None where the tables are its own.
    pub server: Option<Place>,
    /// Of raw TCP.
    pub variant: Option<Variant>,
}

/// What processes are asked. Each is answered by one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// To a server: start counting what you cost. Answered by null.
    Mark,
    /// To a server: what did it cost? Answered by a [`Served`].
    Read,
    /// To a client: answer this query. Answered by a [`Run`].
    Run { sql: String },
    /// To a client: run it, and say how. Answered by text.
    Explain { sql: String },
}

/// What a query has cost a server.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Served {
    pub cpu_s: f64,
    /// Bytes of messages that hold rows.
    pub wire_bytes: u64,
}

/// One query answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub seconds: f64,
    pub cpu_s: f64,
    /// None of raw TCP.
    pub answer: Option<Answer>,
}
