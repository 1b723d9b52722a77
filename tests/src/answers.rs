//! Compares answers of queries whatever the order of their rows, and floats within the rounding of another order.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// How far floats may be from one another, relative to the larger.
const TOLERANCE: f64 = 1e-9;

#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(String),
    Float(f64),
}

/// The rows of an answer.
#[derive(Debug, Clone)]
pub struct Answer(Vec<Vec<Cell>>);

impl Answer {
    /// The answer that these batches hold.
    pub fn new(batches: &[RecordBatch]) -> Self {
        let mut rows = Vec::new();
        for batch in batches {
            let columns: Vec<Vec<Cell>> = batch
                .columns()
                .iter()
                .map(|column| cells(column.as_ref()))
                .collect();
            rows.extend(
                (0..batch.num_rows())
                    .map(|row| columns.iter().map(|column| column[row].clone()).collect()),
            );
        }
        rows.sort_by(|a: &Vec<Cell>, b| compare(a, b));
        Self(rows)
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

fn cells(column: &dyn Array) -> Vec<Cell> {
    if column.data_type() == &DataType::Float64 {
        let floats = column.as_primitive::<Float64Type>().iter();
        return floats
            .map(|value| value.map_or(Cell::Text("null".to_owned()), Cell::Float))
            .collect();
    }
    let options = FormatOptions::default().with_null("null");
    let formatter = ArrayFormatter::try_new(column, &options).unwrap();
    (0..column.len())
        .map(|row| Cell::Text(formatter.value(row).to_string()))
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
