//! Compares rows by content, wherever they are cut into batches and however dictionaries are encoded.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

/// How many rows there are.
pub fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// What differs between the rows, in order; `None` where nothing does.
pub fn difference(expected: &[RecordBatch], found: &[RecordBatch]) -> Option<String> {
    if count(expected) != count(found) {
        return Some(format!(
            "{} rows instead of {}",
            count(found),
            count(expected)
        ));
    }
    let (mut at, mut row) = ((0, 0), 0);
    for batch in found {
        let mut start = 0;
        while start < batch.num_rows() {
            let (index, offset) = at;
            let other = &expected[index];
            let rows = (batch.num_rows() - start).min(other.num_rows() - offset);
            if rows > 0 {
                let (part, other) = (batch.slice(start, rows), other.slice(offset, rows));
                if part.num_columns() != other.num_columns() {
                    return Some(format!(
                        "{} columns instead of {}",
                        part.num_columns(),
                        other.num_columns()
                    ));
                }
                let mut columns = part.columns().iter().zip(other.columns()).enumerate();
                if let Some((column, _)) = columns.find(|(_, (found, expected))| found != expected)
                {
                    return Some(format!(
                        "column {column} differs within rows {row} to {}",
                        row + rows
                    ));
                }
            }
            row += rows;
            start += rows;
            at = if offset + rows == other.num_rows() {
                (index + 1, 0)
            } else {
                (index, offset + rows)
            };
        }
    }
    None
}

/// Panics unless the rows are the same, in the same order.
#[track_caller]
pub fn assert_same(expected: &[RecordBatch], found: &[RecordBatch], what: &str) {
    if let Some(difference) = difference(expected, found) {
        panic!("{what}: {difference}");
    }
}

/// Panics unless all batches have this schema, metadata included.
#[track_caller]
pub fn assert_schema(expected: &SchemaRef, found: &[RecordBatch], what: &str) {
    for batch in found {
        assert_eq!(batch.schema_ref(), expected, "{what}");
    }
}
