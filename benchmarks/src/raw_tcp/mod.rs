//! Bytes over TCP without any format: what the system's sockets can do.
//!
//! The receiver sums as many of the bytes as it is told to, so that it does what others do who look at what comes.

mod receiver;
mod sender;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde::{Deserialize, Serialize};

use crate::Result;

pub use receiver::{Connections, Transfer, Wanted};
pub use sender::{flatten, listen};

const MIB: usize = 1 << 20;

/// How raw TCP is used. The best of all counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Size of a write, and of the memory that is read into.
    pub chunk: usize,
    /// Threads and blocking sockets instead of tokio.
    pub blocking: bool,
}

impl Variant {
    /// Chunks of 1 MiB and of 8 MiB, with tokio and with blocking sockets.
    pub const ALL: [Self; 4] = [
        Self::new(MIB, false),
        Self::new(MIB, true),
        Self::new(8 * MIB, false),
        Self::new(8 * MIB, true),
    ];

    /// Those of [`ALL`](Self::ALL) with chunks of 8 MiB.
    pub const LARGE: [Self; 2] = [Self::new(8 * MIB, false), Self::new(8 * MIB, true)];

    const fn new(chunk: usize, blocking: bool) -> Self {
        Self { chunk, blocking }
    }

    /// As it is shown.
    pub fn name(self) -> String {
        let sockets = if self.blocking { "blocking" } else { "tokio" };
        format!("{} MiB, {sockets}", self.chunk / MIB)
    }
}

/// What a connection starts with: which share of the bytes is wanted, and how.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Hello {
    index: usize,
    of: usize,
    variant: Variant,
    /// Bytes of each chunk that are summed.
    summed: usize,
}

/// What it is answered by.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Offer {
    bytes: usize,
    sum: u64,
}

fn write_line(mut stream: &TcpStream, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

/// Reads no further than the end of the line.
fn read_line<T: serde::de::DeserializeOwned>(mut stream: &TcpStream) -> Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(serde_json::from_slice(&line)?);
        }
        line.extend_from_slice(&byte);
    }
}

fn word_sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum: u64, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    })
}
