//! What was measured, on what machine, and what it means; as text and as JSON.

mod text;

use std::path::Path;

use lightstream_benchmarks::machine::Machine;
use lightstream_benchmarks::measure::Spread;
use lightstream_benchmarks::{Result, output};
use serde::Serialize;

use crate::args::Args;
use crate::wide;

/// One system that answered one query.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    pub system: &'static str,
    /// Which tables it is about.
    pub kind: &'static str,
    pub query: String,
    pub seconds: Spread,
    /// The median, of client and server together.
    pub cpu_s: f64,
    /// Of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// Bytes of messages with rows, the most of all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_bytes: Option<u64>,
    /// Which way of several that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Where and how a run was made.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    #[serde(flatten)]
    machine: Machine,
    rounds: usize,
    scale: f64,
    wide_bytes: usize,
}

pub struct Report {
    pub setting: Setting,
    pub records: Vec<Record>,
}

impl Setting {
    pub fn summary(&self) -> String {
        self.machine.summary(&format!(
            "{} round(s) after one to warm up, TPC-H at scale {}, a wide table of {} MiB",
            self.rounds,
            self.scale,
            self.wide_bytes >> 20
        ))
    }
}

impl Report {
    pub fn new(args: &Args) -> Self {
        Self {
            setting: Setting {
                machine: Machine::here(),
                rounds: args.rounds(),
                scale: args.scale(),
                wide_bytes: wide::bytes(args.wide_rows(), wide::COLUMNS),
            },
            records: Vec::new(),
        }
    }

    /// The tables and conclusions for a terminal.
    pub fn render(&self) -> String {
        text::render(self)
    }

    /// Writes `queries.json`, and `queries-machine.json` about the run.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let cannot = |error| format!("cannot write to {}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let records = output::list(&self.records)?;
        std::fs::write(folder.join("queries.json"), records).map_err(cannot)?;
        let setting = serde_json::to_string_pretty(&self.setting)? + "\n";
        std::fs::write(folder.join("queries-machine.json"), setting).map_err(cannot)?;
        Ok(())
    }

    /// What a system took for a query.
    pub fn of(&self, query: &str, system: &str) -> Option<&Record> {
        self.records
            .iter()
            .find(|record| record.query == query && record.system == system)
    }

    /// The queries of a kind in the order they were measured in.
    pub fn queries(&self, kind: &str) -> Vec<&str> {
        let of_kind = self.records.iter().filter(|record| record.kind == kind);
        let mut queries: Vec<&str> = of_kind.map(|record| record.query.as_str()).collect();
        queries.dedup();
        queries
    }

    /// The systems that have taken part in queries of a kind.
    pub fn systems(&self, kind: &str) -> Vec<&'static str> {
        let mut systems = Vec::new();
        for record in self.records.iter().filter(|record| record.kind == kind) {
            if !systems.contains(&record.system) {
                systems.push(record.system);
            }
        }
        systems
    }
}
