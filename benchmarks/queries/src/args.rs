//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use lightstream_benchmarks::output::default_folder;

use crate::system::System;

/// Times DataFusion over local tables, Lightstream and Arrow Flight.
#[derive(Debug, Parser)]
#[command(name = "queries")]
pub struct Args {
    /// Scale factor of TPC-H. Default 1; 0.01 with --quick.
    #[arg(long)]
    sf: Option<f64>,
    /// Measured rounds of each query, after one to warm up. Default 3; 1 with --quick.
    #[arg(long)]
    rounds: Option<usize>,
    /// Queries: `tpch` and `wide` for all of a kind, or names such as `q06` and `sum-1`.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Systems to compare.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::ALL)]
    pub systems: Vec<System>,
    /// Small tables and one round: shows that everything works, and little more.
    #[arg(long)]
    quick: bool,
    /// Print what EXPLAIN ANALYZE says of each query in each system, after it is measured.
    #[arg(long)]
    pub explain: bool,
    /// Folder to write to, and to keep Parquet files in. Default: `bench` in the target folder.
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(subcommand)]
    pub role: Option<Role>,
}

/// What a process started by this program itself does.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Serves tables.
    #[command(hide = true)]
    Serve {
        /// What to serve and how, in JSON.
        spec: String,
    },
    /// Runs queries.
    #[command(hide = true)]
    Client {
        /// Over which tables, in JSON.
        spec: String,
    },
}

impl Args {
    pub fn scale(&self) -> f64 {
        self.sf.unwrap_or(if self.quick { 0.01 } else { 1.0 })
    }

    /// Rows of the wide table: 1 GiB, or 4 MiB with --quick.
    pub fn wide_rows(&self) -> usize {
        if self.quick { 1 << 15 } else { 1 << 23 }
    }

    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    pub fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(default_folder)
    }
}
