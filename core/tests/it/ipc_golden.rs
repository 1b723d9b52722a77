//! Files and streams of other Arrow implementations, good ones of the integration tests and ones that crashed readers.
//!
//! They lie in Arrow's `arrow-testing` repository, whose folder `data` the variable `ARROW_TESTING_DATA` names. Without
//! it these tests say that they are skipped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_integration_test::ArrowJson;
use lightstream_core::Result;
use lightstream_core::protocol::ipc::{IpcIndex, decode_batches, encode_batches};
use lightstream_core::protocol::limits::DecodeLimits;

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("ARROW_TESTING_DATA").map(PathBuf::from);
    if data.is_none() {
        // Not by a macro, which the test harness would keep to itself.
        let _ = std::io::stderr().write_all(b"skipped: ARROW_TESTING_DATA is not set\n");
    }
    data
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    let bytes = Buffer::from_vec(fs::read(path).unwrap());
    let index = IpcIndex::try_new(bytes, DecodeLimits::default())?;
    let batches = (0..index.len())
        .map(|batch| index.batch(batch))
        .collect::<Result<Vec<_>>>()?;
    for (at, batch) in batches.iter().enumerate() {
        assert_eq!(
            index.rows(at).unwrap(),
            batch.num_rows() as u64,
            "{}",
            path.display()
        );
    }
    Ok(batches)
}

fn expected(path: &Path) -> ArrowJson {
    let file = fs::File::open(path).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap()
}

#[test]
fn corpus_golden_files_are_read_as_their_json_says() {
    let Some(data) = data() else { return };
    let mut read_files = 0;
    for version in files_in(&data.join("arrow-ipc-stream/integration")) {
        for json in files_in(&version) {
            let Some(stem) = json.to_str().unwrap().strip_suffix(".json.gz") else {
                continue;
            };
            for ending in ["stream", "arrow_file"] {
                let path = PathBuf::from(format!("{stem}.{ending}"));
                check_golden(&json, &path);
                read_files += 1;
            }
        }
    }
    println!("{read_files} golden files and streams read");
    assert!(read_files > 0);
}

/// The file is as its JSON says, and its batches survive being written anew.
fn check_golden(json: &Path, path: &Path) {
    let name = path.to_str().unwrap();
    let batches = read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let expected = expected(json).get_record_batches().unwrap();
    assert_eq!(batches.len(), expected.len(), "{name}");
    for (batch, expected) in batches.iter().zip(&expected) {
        if name.contains("map_non_canonical") {
            // Its writer has put Arrow's own names in place of those of the entries.
            let columns = batch.columns().iter().zip(expected.columns());
            for (map, expected) in columns.map(|(map, json)| (map.as_map(), json.as_map())) {
                assert_eq!(map.offsets(), expected.offsets());
                assert_eq!(map.nulls(), expected.nulls());
                assert_eq!(
                    (map.keys(), map.values()),
                    (expected.keys(), expected.values())
                );
            }
            continue;
        }
        assert_eq!(
            batch.schema().fields(),
            expected.schema().fields(),
            "{name}"
        );
        assert_eq!(batch.columns(), expected.columns(), "{name}");
    }
    if !batches.is_empty() {
        let again = encode_batches(&batches).unwrap();
        assert_eq!(
            decode_batches(&again, &DecodeLimits::default()).unwrap(),
            batches,
            "{name}"
        );
    }
}

#[test]
fn corpus_of_what_crashed_other_readers_gives_errors() {
    let Some(data) = data() else { return };
    let (mut refused, mut accepted) = (0, 0);
    for folder in ["arrow-ipc-stream", "arrow-ipc-file"] {
        for path in files_in(&data.join(folder))
            .into_iter()
            .filter(|path| path.is_file())
        {
            match read(&path) {
                Err(_) => refused += 1,
                Ok(batches) => {
                    accepted += 1;
                    for column in batches.iter().flat_map(RecordBatch::columns) {
                        column.to_data().validate_full().unwrap();
                    }
                }
            }
        }
    }
    println!("{refused} malformed files refused, {accepted} found to be sound");
    assert!(refused > 0);
}
