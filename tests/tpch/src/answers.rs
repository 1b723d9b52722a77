//! Compares answers of queries whatever the order of their rows, and floats within the rounding of another order.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

/// How far floats may be from one another, relative to the larger.
const TOLERANCE: f64 = 1e-9;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Cell {
    Text(String),
    Float(f64),
}

/// The rows of an answer. It can be told to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer(Vec<Vec<Cell>>);

impl Answer {
    /// The answer that these batches hold.
    ///
    /// # Errors
    /// For a type that cannot be written as text.
    pub fn new(batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let mut rows = Vec::new();
        for batch in batches {
            let columns: Result<Vec<Vec<Cell>>, ArrowError> = batch
                .columns()
                .iter()
                .map(|column| cells(column.as_ref()))
                .collect();
            let columns = columns?;
            rows.extend(
                (0..batch.num_rows())
                    .map(|row| columns.iter().map(|column| column[row].clone()).collect()),
            );
        }
        rows.sort_by(|a: &Vec<Cell>, b| compare(a, b));
        Ok(Self(rows))
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.0.len()
    }

    /// What differs from another answer; `None` where nothing does.
    pub fn difference(&self, other: &Answer) -> Option<String> {
        if self.rows() != other.rows() {
            return Some(format!("{} rows and {} rows", self.rows(), other.rows()));
        }
        let mut pairs = self.0.iter().zip(&other.0);
        pairs
            .find(|(a, b)| !are_alike(a, b))
            .map(|(a, b)| format!("{a:?} and {b:?}"))
    }
}

fn cells(column: &dyn Array) -> Result<Vec<Cell>, ArrowError> {
    if column.data_type() == &DataType::Float64 {
        let floats = column.as_primitive::<Float64Type>().iter();
        let cell = |value| match value {
            Some(float) if f64::is_finite(float) => Cell::Float(float),
            Some(other) => Cell::Text(other.to_string()),
            None => Cell::Text("null".to_owned()),
        };
        return Ok(floats.map(cell).collect());
    }
    let options = FormatOptions::default().with_null("null");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    (0..column.len())
        .map(|row| Ok(Cell::Text(formatter.value(row).try_to_string()?)))
        .collect()
}

/// Texts first, so that floats that differ in their last digits do not change the order.
fn compare(a: &[Cell], b: &[Cell]) -> Ordering {
    let texts = |row: &[Cell]| {
        row.iter()
            .filter_map(|cell| {
                if let Cell::Text(text) = cell {
                    Some(text.clone())
                } else {
                    None
                }
            })
            .collect::<Vec<_>>()
    };
    texts(a).cmp(&texts(b)).then_with(|| {
        let floats = |row: &[Cell]| {
            row.iter()
                .filter_map(|cell| {
                    if let Cell::Float(float) = cell {
                        Some(*float)
                    } else {
                        None
                    }
                })
                .collect::<Vec<_>>()
        };
        let pairs = floats(a).into_iter().zip(floats(b));
        pairs
            .map(|(a, b)| a.total_cmp(&b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

fn are_alike(a: &[Cell], b: &[Cell]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|pair| match pair {
            (Cell::Float(a), Cell::Float(b)) => {
                a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
            }
            (a, b) => a == b,
        })
}
