//! A condition that the core evaluates, as a function that DataFusion calls.
//!
//! It says nothing of what it computes, so that no optimizer prunes by it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use lightstream_core::protocol::filter::{self, Expr, FloatRule};

/// A condition over columns that are given as arguments.
#[derive(Debug)]
pub(super) struct CoreCondition {
    condition: Arc<Expr>,
    rule: FloatRule,
    names: Vec<String>,
    signature: Signature,
}

impl CoreCondition {
    /// The condition over the columns of these names, in the order of the arguments.
    pub(super) fn new(condition: Expr, rule: FloatRule, names: Vec<String>) -> Self {
        let signature = match names.len() {
            0 => Signature::nullary(Volatility::Immutable),
            count => Signature::any(count, Volatility::Immutable),
        };
        Self {
            condition: Arc::new(condition),
            rule,
            names,
            signature,
        }
    }
}

impl PartialEq for CoreCondition {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.condition, &other.condition)
    }
}

impl Eq for CoreCondition {}

impl Hash for CoreCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.condition).hash(state);
    }
}

impl ScalarUDFImpl for CoreCondition {
    fn name(&self) -> &str {
        "lightstream_condition"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args
            .args
            .into_iter()
            .map(|column| column.into_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let fields = self
            .names
            .iter()
            .zip(&columns)
            .map(|(name, column)| Field::new(name.as_str(), column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let answer = filter::evaluate(&self.condition, &batch, self.rule)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(ColumnarValue::Array(Arc::new(answer)))
    }
}
