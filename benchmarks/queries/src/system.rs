//! The systems that are compared.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Where the tables of a query are, and how they are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// In the memory of the process that queries.
    LocalMemory,
    /// In Parquet files that the process that queries reads.
    LocalParquet,
    /// In the memory of a Lightstream server.
    Lightstream,
    /// In the Parquet files of a Lightstream server.
    LightstreamParquet,
    /// In the memory of a Flight server.
    Flight,
    /// The columns that a query reads, as bytes over TCP.
    RawTcp,
}

impl System {
    pub const ALL: [System; 6] = [
        Self::LocalMemory,
        Self::LocalParquet,
        Self::Lightstream,
        Self::LightstreamParquet,
        Self::Flight,
        Self::RawTcp,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalMemory => "local-memory",
            Self::LocalParquet => "local-parquet",
            Self::Lightstream => "lightstream",
            Self::LightstreamParquet => "lightstream-parquet",
            Self::Flight => "flight",
            Self::RawTcp => "raw-tcp",
        }
    }

    /// Whether a process of its own serves the tables.
    pub fn has_server(self) -> bool {
        !matches!(self, Self::LocalMemory | Self::LocalParquet)
    }

    pub fn reads_parquet(self) -> bool {
        matches!(self, Self::LocalParquet | Self::LightstreamParquet)
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
