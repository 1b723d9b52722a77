//! What this program's processes say to each other.

use serde::{Deserialize, Serialize};

use crate::measure::Usage;
use crate::raw_tcp::Variant;
use crate::shapes::{Facts, Shape};
use crate::systems::System;

/// What a sender is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SenderSpec {
    pub system: System,
    pub shape: Shape,
    pub bytes: u64,
    /// The address to listen at; on another host that host's own choice.
    pub host: String,
    /// 0 for any that is free.
    pub port: u16,
}

/// What a sender says once it listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    pub place: Place,
    pub facts: Facts,
}

/// Where a sender listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    Port(u16),
    Path(String),
}

/// What a receiver is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReceiverSpec {
    pub system: System,
    pub shape: Shape,
    pub streams: usize,
    /// The rows are wanted as one stream in the table's order.
    pub ordered: bool,
    /// Everything that is received is kept until the end.
    pub retain: bool,
    pub variant: Option<Variant>,
    pub flight_window: Option<u64>,
    /// The Flight client asks for a plan before it reads.
    pub flight_info: bool,
    pub host: String,
    pub place: Place,
    pub facts: Facts,
}

/// What peers are asked. Each is answered by one line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// To a sender: start counting what you cost. Answered by null.
    Mark,
    /// To a sender: what did it cost? Answered by a [`Usage`].
    Read,
    /// To a receiver: receive the table. Answered by a [`Run`].
    Run,
    /// To a receiver: scan the table of one row. Answered by [`Small`].
    Small {
        /// So often, one after the other.
        alone: usize,
        /// Then by so many tasks at once,
        tasks: usize,
        /// so often each.
        each: usize,
    },
}

/// One table received.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub seconds: f64,
    /// From the request until something was handed out.
    pub first_batch_s: f64,
    pub usage: Usage,
    pub gaps_us: Vec<u32>,
}

/// Many small scans.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Small {
    /// How long each took, one after the other, in nanoseconds.
    pub alone_ns: Vec<u32>,
    /// Scans by several tasks at once, and how long all took.
    pub together: usize,
    pub together_s: f64,
    /// Of the scans together.
    pub usage: Usage,
}
