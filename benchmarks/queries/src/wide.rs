//! A table of 16 random columns: `i0` to `i7` are integers, `f0` to `f7` floats, all of 8 bytes.
//!
//! `i0` numbers the rows. `i1` is one of [`GROUPS`] numbers, so that a condition on it keeps as few rows as one likes.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use lightstream_benchmarks::Result;
use lightstream_benchmarks::random::Random;

pub const NAME: &str = "wide";
pub const COLUMNS: usize = 16;
pub const GROUPS: u64 = 10_000;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 16;

fn name(column: usize) -> String {
    match column {
        0..8 => format!("i{column}"),
        _ => format!("f{}", column - 8),
    }
}

/// Rows from `first` on of one column; each column and batch has random numbers of its own.
fn column(column: usize, first: usize, rows: usize) -> ArrayRef {
    let mut random = Random::new((column as u64) << 32 | first as u64);
    match column {
        0 => Arc::new(Int64Array::from_iter_values(
            first as i64..(first + rows) as i64,
        )),
        1 => Arc::new(Int64Array::new(
            random.values(rows, |bits| (bits % GROUPS) as i64),
            None,
        )),
        // Sums stay far from overflow, and floats are whole numbers.
        2..8 => Arc::new(Int64Array::new(
            random.values(rows, |bits| (bits >> 32) as i64),
            None,
        )),
        _ => Arc::new(Float64Array::new(
            random.values(rows, |bits| (bits >> 40) as f64),
            None,
        )),
    }
}

/// The starts and lengths of all batches.
fn cuts(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows)
        .step_by(BATCH_ROWS)
        .map(move |first| (first, BATCH_ROWS.min(rows - first)))
}

pub fn batches(rows: usize) -> Result<Vec<RecordBatch>> {
    cuts(rows)
        .map(|(first, length)| {
            let columns = (0..COLUMNS).map(|index| (name(index), column(index, first, length)));
            Ok(RecordBatch::try_from_iter(columns)?)
        })
        .collect()
}

/// Some columns alone, batch after batch.
pub fn arrays(rows: usize, columns: Range<usize>) -> Vec<ArrayRef> {
    cuts(rows)
        .flat_map(|(first, length)| {
            let columns = columns.clone();
            columns.map(move |index| column(index, first, length))
        })
        .collect()
}

/// The bytes of so many columns, or of the whole table.
pub fn bytes(rows: usize, columns: usize) -> usize {
    rows * columns * 8
}

/// The sum of each of these columns.
pub fn sums(columns: Range<usize>) -> String {
    let sums: Vec<String> = columns
        .map(|column| format!("sum({})", name(column)))
        .collect();
    format!("SELECT {} FROM {NAME}", sums.join(", "))
}
