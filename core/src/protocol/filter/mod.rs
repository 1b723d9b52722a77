//! Filters: an engine-neutral tree of conditions, its wire form, what it is worth, and its evaluation on batches.
//!
//! Knows no engine and does no I/O. What an engine cannot be sure to get from here is never called exact: see
//! [`support`].
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{Int64Array, RecordBatch};
//! use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule, Support, support};
//!
//! let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1, 5, 9])) as _)])?;
//! let four = Expr::literal(Arc::new(Int64Array::from(vec![4])))?;
//! let filter = Filter::new(FloatRule::TotalOrder, Expr::compare(CompareOp::Gt, Expr::column("a"), four));
//!
//! assert_eq!(filter.to_string(), "a > 4");
//! assert_eq!(support(&filter.conjuncts[0], &batch.schema(), filter.float_rule), Support::Exact);
//! assert_eq!(filter.apply(&batch)?.num_rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coerce;
mod display;
mod evaluate;
mod exactness;
mod floats;
mod literals;
mod members;
mod resolve;
#[cfg(feature = "sql")]
pub mod sql;
mod tree;
mod wire;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, Schema};
use arrow_select::filter::filter_record_batch;

pub use coerce::is_lossless;
pub use evaluate::evaluate;
pub use exactness::{Support, support};
pub use resolve::required_columns;
pub use tree::{
    ArithmeticOp, CompareOp, Expr, FloatRule, Literal, MAX_DEPTH, StringMatchOp, ValueList,
};
pub use wire::FilterLimits;

use crate::{Error, Result};

/// A conjunction of conditions: a row passes where each is true, not where one is null.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// How floating-point values compare, in every conjunct.
    pub float_rule: FloatRule,
    /// The conditions, each judged and applied on its own.
    pub conjuncts: Vec<Expr>,
}

impl Default for Filter {
    /// A filter that every row passes.
    fn default() -> Self {
        Self {
            float_rule: FloatRule::TotalOrder,
            conjuncts: Vec::new(),
        }
    }
}

impl Filter {
    /// A filter of the conjuncts of `expr`.
    pub fn new(float_rule: FloatRule, expr: Expr) -> Self {
        Self {
            float_rule,
            conjuncts: expr.into_conjuncts(),
        }
    }

    /// What each conjunct is worth over a table of this schema, in order. See [`support`].
    pub fn support(&self, schema: &Schema) -> Vec<Support> {
        self.conjuncts
            .iter()
            .map(|conjunct| support(conjunct, schema, self.float_rule))
            .collect()
    }

    /// The filter of those conjuncts alone that can be applied to a table of this schema, exactly or not.
    #[must_use]
    pub fn supported(&self, schema: &Schema) -> Self {
        let supported =
            |conjunct: &&Expr| support(conjunct, schema, self.float_rule) != Support::Unsupported;
        Self {
            float_rule: self.float_rule,
            conjuncts: self.conjuncts.iter().filter(supported).cloned().collect(),
        }
    }

    /// Positions of the top-level columns that the filter reads. See [`required_columns`].
    pub fn required_columns(&self, schema: &Schema) -> Result<Vec<usize>> {
        required_columns(&self.conjuncts, schema)
    }

    /// Which rows of a batch pass the conjuncts at these positions. The mask holds no nulls. A conjunct is not looked
    /// at once no row is left.
    ///
    /// Fails as [`evaluate`] does, and with `invalid_argument` for a position past the last conjunct.
    pub fn mask(
        &self,
        conjuncts: impl IntoIterator<Item = usize>,
        batch: &RecordBatch,
    ) -> Result<BooleanArray> {
        let mut mask = BooleanBuffer::new_set(batch.num_rows());
        for position in conjuncts {
            let Some(conjunct) = self.conjuncts.get(position) else {
                return Err(Error::invalid_argument(format!(
                    "the filter has no conjunct {position}"
                )));
            };
            if mask.count_set_bits() == 0 {
                break;
            }
            let answer = evaluate(conjunct, batch, self.float_rule)?;
            mask = &mask & answer.values();
            if let Some(nulls) = answer.nulls() {
                mask = &mask & nulls.inner();
            }
        }
        Ok(BooleanArray::new(mask, None))
    }

    /// The rows of a batch that pass every conjunct. A batch without columns keeps its count of rows.
    ///
    /// Fails as [`evaluate`] does.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mask = self.mask(0..self.conjuncts.len(), batch)?;
        if mask.true_count() == mask.len() {
            return Ok(batch.clone());
        }
        filter_record_batch(batch, &mask).map_err(arrow_error)
    }
}

fn arrow_error(error: ArrowError) -> Error {
    Error::invalid_argument(format!("filter: {error}")).with_source(error)
}

fn too_deep(levels: usize) -> Error {
    Error::resource_exhausted(format!("a filter has more than {levels} levels"))
}

fn unknown_node() -> Error {
    Error::unimplemented("the filter has a node that this version does not know")
}
