//! The tables that are queried: the same in every process, in memory or as Parquet files.

use std::path::{Path, PathBuf};

use datafusion::arrow::array::RecordBatch;
use lightstream_benchmarks::Result;
use lightstream_tpch::tables::{generate, write_parquet};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};

use crate::wide;

/// One set of tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// One table of 16 columns.
    Wide { rows: usize },
    /// The tables of TPC-H, and the folder where they are as Parquet, if they are.
    Tpch {
        scale: f64,
        parquet: Option<PathBuf>,
    },
}

impl Data {
    /// Generates all tables.
    pub fn tables(&self) -> Result<Vec<(&'static str, Vec<RecordBatch>)>> {
        Ok(match self {
            Self::Wide { rows } => vec![(wide::NAME, wide::batches(*rows)?)],
            Self::Tpch { scale, .. } => generate(*scale),
        })
    }

    /// A name and a folder or file for each table.
    pub fn parquet(&self) -> Result<Vec<(String, PathBuf)>> {
        let Self::Tpch {
            parquet: Some(folder),
            ..
        } = self
        else {
            return Err("these tables are not written as Parquet".into());
        };
        let mut tables = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            tables.push((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ));
        }
        Ok(tables)
    }
}

/// Cuts batches into as many contiguous parts of nearly as many batches each.
pub fn parts(batches: &[RecordBatch], of: usize) -> Vec<Vec<RecordBatch>> {
    let edge = |part: usize| batches.len() * part / of;
    (0..of)
        .map(|part| {
            let range = edge(part)..edge(part + 1);
            batches.get(range).unwrap_or_default().to_vec()
        })
        .collect()
}

/// Writes the tables of TPC-H as Parquet below a folder, unless an earlier run did. Returns where they are.
///
/// One file for each table, with the writer's default row groups, compressed with Snappy.
pub fn written_as_parquet(below: &Path, scale: f64) -> Result<PathBuf> {
    let folder = below.join(format!("tpch-sf{scale}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let cannot = |error: &dyn std::fmt::Display| {
        format!(
            "cannot write Parquet files below {}: {error}",
            below.display()
        )
    };
    eprintln!("generating TPC-H at scale {scale} as Parquet, once");
    // Written elsewhere first, so that what an interrupted run left is not taken for the whole.
    let partial = below.join(format!("tpch-sf{scale}.{}", std::process::id()));
    std::fs::create_dir_all(&partial).map_err(|error| cannot(&error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    write_parquet(&generate(scale), &partial, usize::MAX, &properties)
        .map_err(|error| cannot(&error))?;
    std::fs::rename(&partial, &folder).map_err(|error| cannot(&error))?;
    Ok(folder)
}
