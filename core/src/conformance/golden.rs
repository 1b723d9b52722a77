//! The golden files of Arrow's integration tests, and files that crashed other readers.
//!
//! They lie in Arrow's `arrow-testing` repository, whose folder `data` the variable `ARROW_TESTING_DATA` names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // For tests, where a panic is a finding.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_integration_test::{ArrowJson, schema_from_json};
use arrow_schema::SchemaRef;

/// The folder of the files; `None`, saying that the test is skipped, where it is not given.
pub fn data() -> Option<PathBuf> {
    let data = std::env::var_os("ARROW_TESTING_DATA").map(PathBuf::from);
    if data.is_none() {
        // Not by a macro, which the test harness would keep to itself.
        let _ = std::io::stderr().write_all(b"skipped: ARROW_TESTING_DATA is not set\n");
    }
    data
}

/// One golden table: what its JSON says, and the stream and the file that hold it.
pub struct Golden {
    /// Version and name.
    pub name: String,
    /// The table as an Arrow IPC stream.
    pub stream: PathBuf,
    /// The table as an Arrow IPC file.
    pub file: PathBuf,
    json: PathBuf,
}

impl Golden {
    /// What the table is.
    pub fn expected(&self) -> (SchemaRef, Vec<RecordBatch>) {
        let file = fs::File::open(&self.json).unwrap();
        let mut json: serde_json::Value =
            serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
        if json["schema"]["metadata"].is_null() {
            json["schema"].as_object_mut().unwrap().remove("metadata");
        }
        let schema = schema_from_json(&json["schema"]).unwrap();
        let batches = serde_json::from_value::<ArrowJson>(json)
            .unwrap()
            .get_record_batches()
            .unwrap();
        (Arc::new(schema), batches)
    }

    /// Whether its writer has put Arrow's own names in place of those of the JSON's map entries.
    pub fn renames_entries(&self) -> bool {
        self.name.contains("map_non_canonical")
    }

    /// Panics unless the batch is as its JSON says.
    pub fn assert_same(&self, batch: &RecordBatch, expected: &RecordBatch) {
        let name = &self.name;
        if !self.renames_entries() {
            assert_eq!(
                batch.schema().fields(),
                expected.schema().fields(),
                "{name}"
            );
            assert_eq!(batch.columns(), expected.columns(), "{name}");
            return;
        }
        assert_eq!(batch.num_columns(), expected.num_columns(), "{name}");
        let columns = batch.columns().iter().zip(expected.columns());
        for (map, expected) in columns.map(|(map, json)| (map.as_map(), json.as_map())) {
            assert_eq!(map.offsets(), expected.offsets(), "{name}");
            assert_eq!(map.nulls(), expected.nulls(), "{name}");
            assert_eq!(
                (map.keys(), map.values()),
                (expected.keys(), expected.values()),
                "{name}"
            );
        }
    }
}

/// All golden tables under the folder of [`data`].
pub fn all(data: &Path) -> Vec<Golden> {
    let mut all = Vec::new();
    for version in files_in(&data.join("arrow-ipc-stream/integration")) {
        for json in files_in(&version) {
            let Some(stem) = json.to_str().and_then(|json| json.strip_suffix(".json.gz")) else {
                continue;
            };
            let name = Path::new(stem)
                .strip_prefix(version.parent().unwrap())
                .unwrap()
                .display()
                .to_string();
            all.push(Golden {
                name,
                stream: format!("{stem}.stream").into(),
                file: format!("{stem}.arrow_file").into(),
                json: json.clone(),
            });
        }
    }
    assert!(!all.is_empty(), "{} holds no golden files", data.display());
    all
}

/// Streams and files that made other readers crash.
pub fn crashers(data: &Path) -> Vec<PathBuf> {
    let folders = ["arrow-ipc-stream", "arrow-ipc-file"];
    let all = folders
        .iter()
        .flat_map(|folder| files_in(&data.join(folder)));
    all.filter(|path| path.is_file()).collect()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}
