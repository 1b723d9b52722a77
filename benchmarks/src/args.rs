//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde::Serialize;

use crate::output::default_folder;
use crate::shapes::Shape;
use crate::systems::System;

const MIB: u64 = 1 << 20;

/// Measures how fast tables go from one process to another, by Lightstream, Arrow Flight and raw TCP.
#[derive(Debug, Parser)]
#[command(name = "transport")]
pub struct Args {
    /// Shapes of tables.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Shape::ALL)]
    pub shapes: Vec<Shape>,
    /// Numbers of streams (connections) that a table is read over at once.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    streams: Vec<usize>,
    /// Systems to compare.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::ALL)]
    pub systems: Vec<System>,
    /// Measured rounds of each cell, after one to warm up. Default 5; 2 with --quick.
    #[arg(long)]
    rounds: Option<usize>,
    /// Size of a table, as 512MiB. Default 512MiB; 64MiB with --quick.
    #[arg(long, value_parser = size)]
    bytes: Option<u64>,
    /// Size of the table whose batches are all kept. Default 1GiB; 128MiB with --quick.
    #[arg(long, value_parser = size)]
    retain_bytes: Option<u64>,
    /// Two rounds of small tables: shows that everything works, and little more.
    #[arg(long)]
    pub quick: bool,
    /// HTTP/2 windows of the Flight client, as 8MiB. By default tonic's own.
    #[arg(long, value_parser = size)]
    pub flight_window: Option<u64>,
    /// Ask Flight for a plan (GetFlightInfo) before each DoGet, as a client does that was not told its tickets.
    #[arg(long)]
    pub flight_info: bool,
    /// The link between the hosts, as 10:1000 for a round trip of 10 ms and 1000 Mbit/s. Fewer variants and scans are
    /// made, nothing is kept, and what was reached is set against the link.
    #[arg(long, value_name = "MS:MBIT", requires = "connect", value_parser = link)]
    pub link: Option<Link>,
    /// Folder to write to. Default: `bench` in the target folder.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Be the sending host, reached at HOST:PORT and the ports that follow. Only for networks that are trusted.
    #[arg(long, value_name = "URL", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Be the receiving host: HOST[:PORT] of one that runs with --listen.
    #[arg(long, value_name = "HOST")]
    pub connect: Option<String>,
    #[command(subcommand)]
    pub role: Option<Role>,
}

/// What a process started by this program itself does.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Sends tables.
    #[command(hide = true)]
    Sender {
        /// What to send and where, in JSON.
        spec: String,
    },
    /// Receives tables.
    #[command(hide = true)]
    Receiver {
        /// What to receive and from where, in JSON.
        spec: String,
    },
}

impl Args {
    pub fn streams(&self) -> Vec<usize> {
        let mut streams = self.streams.clone();
        streams.retain(|&count| count > 0);
        streams.dedup();
        streams
    }

    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 }).max(1)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
            .unwrap_or(if self.quick { 64 * MIB } else { 512 * MIB })
    }

    pub fn retain_bytes(&self) -> u64 {
        self.retain_bytes
            .unwrap_or(if self.quick { 128 * MIB } else { 1024 * MIB })
    }

    pub fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(default_folder)
    }
}

/// What joins two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Link {
    pub rtt_ms: f64,
    /// Each way, everything that goes over the wire counted.
    pub mbit_s: f64,
}

fn link(text: &str) -> Result<Link, String> {
    let number = |text: &str| text.parse().ok().filter(|&number| number > 0.0);
    text.split_once(':')
        .and_then(|(rtt_ms, mbit_s)| {
            Some(Link {
                rtt_ms: number(rtt_ms)?,
                mbit_s: number(mbit_s)?,
            })
        })
        .ok_or_else(|| "expected two numbers above 0, as 10:1000".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    lightstream_core::size(text).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_sizes_are_read() {
        let args = Args::parse_from([
            "transport",
            "--shapes=numeric,string-heavy",
            "--streams=1,8",
            "--systems=flight-8mib",
            "--bytes=3MiB",
            "--quick",
        ]);
        assert_eq!(args.shapes, [Shape::Numeric, Shape::StringHeavy]);
        assert_eq!(args.systems, [System::Flight8Mib]);
        assert_eq!((args.streams(), args.rounds()), (vec![1, 8], 2));
        assert_eq!((args.bytes(), args.retain_bytes()), (3 * MIB, 128 * MIB));
        assert!(Args::try_parse_from(["transport", "--bytes=many"]).is_err());
        assert_eq!(link("0.5:100").map(|link| link.mbit_s), Ok(100.0));
        for bad in ["10", "10:", "0:1000", "x:1"] {
            assert!(link(bad).is_err(), "{bad}");
        }
    }
}
