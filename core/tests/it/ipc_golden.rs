//! Files and streams of other Arrow implementations, good ones of the integration tests and ones that crashed readers.
//!
//! Without the folder that holds them these tests say that they are skipped.

use std::fs;
use std::path::Path;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use lightstream_core::Result;
use lightstream_core::conformance::golden::{self, Golden};
use lightstream_core::protocol::ipc::{IpcIndex, decode_batches, encode_batches};
use lightstream_core::protocol::limits::DecodeLimits;

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

#[test]
fn corpus_golden_files_are_read_as_their_json_says() {
    let Some(data) = golden::data() else { return };
    let mut read_files = 0;
    for golden in golden::all(&data) {
        let (_, expected) = golden.expected();
        for path in [&golden.stream, &golden.file] {
            check_golden(&golden, path, &expected);
            read_files += 1;
        }
    }
    println!("{read_files} golden files and streams read");
    assert!(read_files > 0);
}

/// The file is as its JSON says, and its batches survive being written anew.
fn check_golden(golden: &Golden, path: &Path, expected: &[RecordBatch]) {
    let name = path.display();
    let batches = read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(batches.len(), expected.len(), "{name}");
    for (batch, expected) in batches.iter().zip(expected) {
        golden.assert_same(batch, expected);
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
fn corpus_what_crashed_other_readers_gives_errors() {
    let Some(data) = golden::data() else { return };
    let (mut refused, mut accepted) = (0, 0);
    for path in golden::crashers(&data) {
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
    println!("{refused} malformed files refused, {accepted} found to be sound");
    assert!(refused > 0);
}
