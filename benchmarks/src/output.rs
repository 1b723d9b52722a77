//! Where results are written, and how.

use std::path::PathBuf;

use serde::Serialize;

use crate::Result;

/// `bench` in the target folder.
pub fn default_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    PathBuf::from(target).join("bench")
}

/// A list in JSON with a line for each record, so that runs can be compared by eye.
///
/// # Errors
/// For a record that is no JSON.
pub fn list<T: Serialize>(records: impl IntoIterator<Item = T>) -> Result<String> {
    let lines: Result<Vec<String>, _> = records
        .into_iter()
        // By way of a value, whose keys are sorted.
        .map(|record| serde_json::to_value(record).map(|value| value.to_string()))
        .collect();
    Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
}
