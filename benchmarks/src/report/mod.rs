//! What was measured, and on what machine; as a table, as JSON and as plots.

mod json;
mod link;
mod svg;
pub mod table;

use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::args::{Args, Link};
use crate::machine::Machine;
use crate::measure::{Percentiles, Spread};

/// One system in one cell.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    pub system: String,
    pub shape: String,
    pub streams: usize,
    /// The rows came as one stream in the table's order, whatever the number of connections.
    pub ordered: bool,
    #[serde(flatten)]
    pub measured: Measured,
    /// The receiver kept all batches.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retain: bool,
    /// Which way of several that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    pub gib_s: Spread,
    /// Of sender and receiver together.
    pub cpu_s_per_gib: f64,
    pub batch_ms: Percentiles,
    /// From the request until the first batch was handed out.
    pub first_batch_ms: f64,
    /// Of the receiver.
    pub peak_rss_bytes: u64,
    /// With the table that it holds.
    pub sender_peak_rss_bytes: u64,
}

/// Scans of a table of one row.
#[derive(Debug, Clone, Serialize)]
pub struct OneRow {
    pub system: String,
    pub shape: String,
    pub streams: usize,
    pub ordered: bool,
    /// Of the median scan of each round, one scan after the other.
    pub seconds: Spread,
    pub p99_seconds: f64,
    /// With several tasks that scan at once.
    pub scans_per_s: f64,
    /// Of sender and receiver together.
    pub cpu_s_per_scan: f64,
    pub peak_rss_bytes: u64,
}

/// Where and how a run was made.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    #[serde(flatten)]
    machine: Machine,
    /// Whether sender and receiver shared one host.
    hosts: usize,
    rounds: usize,
    table_bytes: u64,
    kept_table_bytes: u64,
}

impl Setting {
    fn here(args: &Args) -> Self {
        Self {
            machine: Machine::here(),
            hosts: if args.connect.is_some() { 2 } else { 1 },
            rounds: args.rounds(),
            table_bytes: args.bytes(),
            kept_table_bytes: args.retain_bytes(),
        }
    }

    pub fn place_and_date(&self) -> String {
        format!("{}, {}", self.machine.cpu, self.machine.date)
    }

    pub fn summary(&self) -> String {
        self.machine.summary(&format!(
            "{} round(s) after one to warm up, tables of {} MiB, {} MiB where all is kept",
            self.rounds,
            self.table_bytes >> 20,
            self.kept_table_bytes >> 20,
        ))
    }
}

pub struct Report {
    pub setting: Setting,
    pub records: Vec<Record>,
    pub one_row: Vec<OneRow>,
    /// Where the hosts are joined by a link that is known.
    pub link: Option<Link>,
    /// Flight asked for its plans.
    pub flight_info: bool,
}

impl Report {
    pub fn new(args: &Args) -> Result<Self> {
        Ok(Self {
            setting: Setting::here(args),
            records: Vec::new(),
            one_row: Vec::new(),
            link: args.link,
            flight_info: args.flight_info,
        })
    }

    /// Writes `transport.json`, `machine.json` and a plot for each shape.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let cannot = |error| format!("cannot write to {}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let mut files = vec![
            ("transport.json".to_owned(), json::records(self)?),
            (
                "machine.json".to_owned(),
                serde_json::to_string_pretty(&self.setting)? + "\n",
            ),
        ];
        for shape in self.shapes() {
            files.push((format!("transport-{shape}.svg"), svg::plot(self, shape)));
        }
        for (name, text) in files {
            std::fs::write(folder.join(name), text).map_err(cannot)?;
        }
        Ok(())
    }

    /// The shapes in the order they were measured in.
    pub fn shapes(&self) -> Vec<&str> {
        let mut shapes: Vec<&str> = self.records.iter().map(|record| &*record.shape).collect();
        shapes.dedup();
        shapes
    }

    /// What was measured of a shape where batches are dropped.
    pub fn dropping<'a>(&'a self, shape: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records
            .iter()
            .filter(move |record| record.shape == shape && !record.retain)
    }

    /// The faster of the Flights, and raw TCP, in the cell of a record.
    pub fn rivals(&self, of: &Record) -> (Option<&Record>, Option<&Record>) {
        let cell = self.records.iter().filter(|record| {
            record.shape == of.shape && record.streams == of.streams && record.retain == of.retain
        });
        let fastest = |prefix: &str| {
            cell.clone()
                .filter(|record| record.system.starts_with(prefix))
                .max_by(|a, b| a.measured.gib_s.median.total_cmp(&b.measured.gib_s.median))
        };
        (fastest("flight"), fastest("raw-tcp"))
    }
}

impl Record {
    pub fn rate(&self) -> f64 {
        self.measured.gib_s.median
    }

    /// The system, and whether ordered.
    pub fn label(&self) -> String {
        let ordered = if self.ordered { " ordered" } else { "" };
        let retain = if self.retain { " (all kept)" } else { "" };
        format!("{}{ordered}{retain}", self.system)
    }
}
