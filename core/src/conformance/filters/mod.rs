//! The filter table: for every operator, each type it is defined for and each float rule, what must come out.
//!
//! One table for all who evaluate or push filters. A runner iterates over [`cases`], evaluates `expr` on `batch` its
//! own way and compares with [`Case::expected`], which plain scalar code computes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // For tests, where a panic is a finding.

pub mod reference;
mod text;
mod types;
pub mod values;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};

use crate::protocol::filter::{Expr, FloatRule};
pub use reference::Failure;

/// One expression on one batch under one rule.
#[derive(Debug, Clone)]
pub struct Case {
    /// Says operator, types and rule.
    pub name: String,
    /// The rows to evaluate on.
    pub batch: RecordBatch,
    /// What is evaluated.
    pub expr: Expr,
    /// How floats compare.
    pub rule: FloatRule,
}

impl Case {
    /// The answer of each row, or why there is none.
    pub fn expected(&self) -> Result<Vec<Option<bool>>, Failure> {
        reference::answers(&self.expr, &self.batch, self.rule)
    }
}

/// The whole table.
pub fn cases() -> Vec<Case> {
    let mut table = Table::default();
    types::comparisons(&mut table);
    types::mixed(&mut table);
    types::lists(&mut table);
    types::ranges(&mut table);
    types::casts(&mut table);
    types::arithmetic(&mut table);
    types::nulls(&mut table);
    types::logic(&mut table);
    text::patterns(&mut table);
    text::matches(&mut table);
    table.cases
}

#[derive(Default)]
struct Table {
    cases: Vec<Case>,
}

impl Table {
    /// Adds a case for each rule, or for one where no floats are in play.
    fn add(&mut self, batch: &RecordBatch, floats: bool, expr: &Expr) {
        let rules: &[FloatRule] = if floats {
            &FloatRule::ALL
        } else {
            &[FloatRule::TotalOrderZeroEqual]
        };
        for rule in rules {
            let types: Vec<_> = batch
                .schema_ref()
                .fields()
                .iter()
                .map(|field| field.data_type().to_string())
                .collect();
            self.cases.push(Case {
                name: format!("{expr} [{}] {rule:?}", types.join(", ")),
                batch: batch.clone(),
                expr: expr.clone(),
                rule: *rule,
            });
        }
    }
}

/// A batch of columns named a, b, …
fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = ["a", "b", "c"];
    let fields: Vec<_> = columns
        .iter()
        .zip(names)
        .map(|(array, name)| Field::new(name, array.data_type().clone(), true))
        .collect();
    let rows = columns.first().map(|array| array.len());
    let options = RecordBatchOptions::new().with_row_count(rows);
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// Columns a and b that hold every pair of values.
fn pairs(a: &ArrayRef, b: &ArrayRef) -> RecordBatch {
    let indices = |pick: fn(usize, usize) -> usize, by: usize| {
        arrow_array::UInt64Array::from_iter_values(
            (0..a.len() * b.len()).map(|i| pick(i, by) as u64),
        )
    };
    let left = arrow_select::take::take(a, &indices(|i, by| i / by, b.len()), None).unwrap();
    let right = arrow_select::take::take(b, &indices(|i, by| i % by, b.len()), None).unwrap();
    batch(vec![left, right])
}

/// Every value of an array as a literal.
fn literals(array: &ArrayRef) -> impl Iterator<Item = Expr> {
    (0..array.len()).map(|i| Expr::literal(array.slice(i, 1)).unwrap())
}

fn is_float(array: &ArrayRef) -> bool {
    match array.data_type() {
        arrow_schema::DataType::Dictionary(_, values) => values.is_floating(),
        other => other.is_floating(),
    }
}

fn a() -> Expr {
    Expr::column("a")
}

fn b() -> Expr {
    Expr::column("b")
}
