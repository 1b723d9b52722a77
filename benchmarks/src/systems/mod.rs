//! The systems that are compared: each one listens in one process and is connected to from another.

pub mod flight;
pub mod lightstream;
pub mod raw_tcp;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clap::ValueEnum;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::messages::{Place, ReceiverSpec, SenderSpec};
use crate::raw_tcp::Variant;
use crate::shapes::{Facts, Table};
use crate::verify::{Verifier, check_whole};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum System {
    /// Bytes, received into the same memory again and again.
    #[value(name = "raw-tcp")]
    #[serde(rename = "raw-tcp")]
    RawTcp,
    /// Bytes, received into fresh memory that is kept.
    #[value(name = "raw-tcp-fresh")]
    #[serde(rename = "raw-tcp-fresh")]
    RawTcpFresh,
    #[value(name = "lightstream")]
    #[serde(rename = "lightstream")]
    Lightstream,
    /// Lightstream asked for frames of 2 MiB, as Arrow Flight sends by default.
    #[value(name = "lightstream-2mib")]
    #[serde(rename = "lightstream-2mib")]
    Lightstream2Mib,
    /// Lightstream over a unix socket.
    #[value(name = "lightstream-unix")]
    #[serde(rename = "lightstream-unix")]
    LightstreamUnix,
    /// Arrow Flight with messages of its default size, 2 MiB.
    #[value(name = "flight")]
    #[serde(rename = "flight")]
    Flight,
    /// Arrow Flight with messages of 8 MiB.
    #[value(name = "flight-8mib")]
    #[serde(rename = "flight-8mib")]
    Flight8Mib,
}

/// A sender that listens until it is dropped.
pub struct Listening {
    pub place: Place,
    _server: Box<dyn Any>,
}

/// What was received and found right.
pub struct Received {
    /// When the first of all streams gave something.
    pub first: Option<Instant>,
    pub gaps_us: Vec<u32>,
    /// What was to be kept.
    _kept: Box<dyn Any + Send>,
}

impl Received {
    /// What came on all streams of batches, if it is the whole table.
    fn verified(streams: Vec<Verifier>, facts: &Facts) -> Result<Self> {
        check_whole(&streams, facts)?;
        let first = streams.iter().filter_map(|stream| stream.arrivals.first);
        let first = first.min();
        let mut gaps_us = Vec::new();
        let mut kept = Vec::new();
        for stream in streams {
            gaps_us.extend(stream.arrivals.gaps_us);
            kept.push(stream.kept);
        }
        Ok(Self {
            first,
            gaps_us,
            _kept: Box::new(kept),
        })
    }
}

/// Scans the table of one row once.
pub type Fetch = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// One end of connections that are there already.
#[async_trait]
pub trait Receiver: Send {
    /// Asks for the whole table and receives it to its verified end.
    async fn receive(&mut self) -> Result<Received>;

    /// How to scan the table of one row.
    fn one_row(&self) -> Result<Fetch> {
        Err("this system has no table of one row".into())
    }
}

impl System {
    pub const ALL: [System; 7] = [
        Self::RawTcp,
        Self::RawTcpFresh,
        Self::Lightstream,
        Self::Lightstream2Mib,
        Self::LightstreamUnix,
        Self::Flight,
        Self::Flight8Mib,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::RawTcp => "raw-tcp",
            Self::RawTcpFresh => "raw-tcp-fresh",
            Self::Lightstream => "lightstream",
            Self::Lightstream2Mib => "lightstream-2mib",
            Self::LightstreamUnix => "lightstream-unix",
            Self::Flight => "flight",
            Self::Flight8Mib => "flight-8mib",
        }
    }

    /// The ways in which it is measured, where there are several.
    pub fn variants(self) -> &'static [Variant] {
        match self {
            Self::RawTcp => &Variant::ALL,
            Self::RawTcpFresh => &Variant::LARGE,
            _ => &[],
        }
    }

    /// The system whose sender it receives from.
    pub fn sender(self) -> Self {
        match self {
            Self::Lightstream2Mib => Self::Lightstream,
            other => other,
        }
    }

    pub fn crosses_hosts(self) -> bool {
        self != Self::LightstreamUnix
    }

    /// Starts to offer a table.
    pub async fn listen(self, spec: &SenderSpec, table: Table) -> Result<Listening> {
        let (place, server): (Place, Box<dyn Any>) = match self {
            Self::RawTcp | Self::RawTcpFresh => {
                (raw_tcp::listen(spec, table)?, Box::new(()) as Box<dyn Any>)
            }
            Self::Lightstream | Self::Lightstream2Mib | Self::LightstreamUnix => {
                let (place, server) = lightstream::listen(spec, table).await?;
                (place, Box::new(server))
            }
            Self::Flight => (flight::listen(spec, table, None)?, Box::new(())),
            Self::Flight8Mib => (flight::listen(spec, table, Some(8 << 20))?, Box::new(())),
        };
        Ok(Listening {
            place,
            _server: server,
        })
    }

    /// Connects to a sender, with as many connections as there are streams where the system lets one choose.
    pub async fn connect(self, spec: &ReceiverSpec) -> Result<Box<dyn Receiver>> {
        Ok(match self {
            Self::RawTcp | Self::RawTcpFresh => Box::new(raw_tcp::connect(spec)?),
            Self::Lightstream | Self::Lightstream2Mib | Self::LightstreamUnix => {
                Box::new(lightstream::connect(spec).await?)
            }
            Self::Flight | Self::Flight8Mib => Box::new(flight::connect(spec).await?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_everywhere() {
        for system in System::ALL {
            let json = serde_json::to_string(&system).unwrap();
            assert_eq!(json, format!("{:?}", system.name()));
            assert_eq!(System::from_str(system.name(), false), Ok(system));
        }
    }
}
