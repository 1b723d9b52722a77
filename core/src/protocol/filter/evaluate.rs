//! Evaluates a filter on a batch, under SQL's three-valued logic and a stated float rule.
//!
//! Computes more than is ever pushed: arithmetic that overflows or divides by zero is an error here, which is why
//! [`support`](super::support) calls it unsupported wherever that could happen.

use std::sync::Arc;

use arrow_arith::{boolean, numeric};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, RecordBatch, Scalar, new_null_array};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use arrow_string::like;

use super::coerce::{self, Meeting, arithmetic_meeting, is_lossless, is_text, meeting, value_type};
use super::tree::{ArithmeticOp, CompareOp, EVALUATION_DEPTH, Expr, FloatRule, StringMatchOp};
use super::{arrow_error, floats, members, resolve};
use crate::{Error, Result};

/// The value of a predicate in each row of a batch; null where it is neither true nor false.
///
/// Columns are found by name in the batch's own schema, so a batch of the required columns is enough.
///
/// Fails with `invalid_argument` where columns are missing, types do not meet or arithmetic overflows, and with
/// `unimplemented` for [`Expr::Unknown`]. Never fails for what [`support`](super::support) says yes to.
pub fn evaluate(expr: &Expr, batch: &RecordBatch, rule: FloatRule) -> Result<BooleanArray> {
    if !expr.fits(EVALUATION_DEPTH) {
        return Err(super::too_deep(EVALUATION_DEPTH));
    }
    Evaluation { batch, rule }.truth(expr)
}

/// The type of an expression over columns of `schema`. Fails where it has none, as [`evaluate`] would.
#[cfg(feature = "sql")]
pub(super) fn data_type(expr: &Expr, schema: &arrow_schema::Schema) -> Result<DataType> {
    if !expr.fits(EVALUATION_DEPTH) {
        return Err(super::too_deep(EVALUATION_DEPTH));
    }
    let batch = RecordBatch::new_empty(Arc::new(schema.clone()));
    // The values of no row have no bearing on the rule.
    let rule = FloatRule::TotalOrder;
    Ok(Evaluation {
        batch: &batch,
        rule,
    }
    .value(expr)?
    .data_type()
    .clone())
}

/// A value for each row, or one for all of them.
enum Value {
    Each(ArrayRef),
    Same(ArrayRef),
}

impl Value {
    fn array(&self) -> &ArrayRef {
        match self {
            Value::Each(array) | Value::Same(array) => array,
        }
    }

    fn data_type(&self) -> &DataType {
        self.array().data_type()
    }

    fn map(self, with: impl FnOnce(&ArrayRef) -> Result<ArrayRef>) -> Result<Self> {
        Ok(match self {
            Value::Each(array) => Value::Each(with(&array)?),
            Value::Same(array) => Value::Same(with(&array)?),
        })
    }

    fn datum(&self) -> Box<dyn Datum> {
        match self {
            Value::Each(array) => Box::new(Arc::clone(array)),
            Value::Same(array) => Box::new(Scalar::new(Arc::clone(array))),
        }
    }
}

/// Applies a kernel of two operands; what holds for two constants holds for every row.
fn apply<A: Array + 'static>(
    left: &Value,
    right: &Value,
    kernel: impl FnOnce(&dyn Datum, &dyn Datum) -> Result<A, ArrowError>,
) -> Result<Value> {
    let answer: ArrayRef = Arc::new(kernel(&*left.datum(), &*right.datum()).map_err(arrow_error)?);
    Ok(match (left, right) {
        (Value::Same(_), Value::Same(_)) => Value::Same(answer),
        _ => Value::Each(answer),
    })
}

struct Evaluation<'a> {
    batch: &'a RecordBatch,
    rule: FloatRule,
}

impl Evaluation<'_> {
    fn truth(&self, expr: &Expr) -> Result<BooleanArray> {
        let rows = self.batch.num_rows();
        let value = self.value(expr)?;
        match (&value, value.array().as_boolean_opt()) {
            (Value::Each(_), Some(answer)) => Ok(answer.clone()),
            (Value::Same(_), Some(answer)) => Ok(repeat(answer, rows)),
            (_, None) if *value.data_type() == DataType::Null => Ok(BooleanArray::new_null(rows)),
            (_, None) => Err(Error::invalid_argument(format!(
                "{expr} is {}, not a condition",
                value.data_type()
            ))),
        }
    }

    fn value(&self, expr: &Expr) -> Result<Value> {
        let each = |answer: BooleanArray| Ok(Value::Each(Arc::new(answer)));
        match expr {
            Expr::Column(path) => Ok(Value::Each(resolve::column(path, self.batch)?)),
            Expr::Literal(literal) => Ok(Value::Same(Arc::clone(literal.array()))),
            Expr::Compare { op, left, right } => {
                self.compare(*op, self.value(left)?, self.value(right)?)
            }
            Expr::And(operands) => each(self.fold(operands, true, boolean::and_kleene)?),
            Expr::Or(operands) => each(self.fold(operands, false, boolean::or_kleene)?),
            Expr::Not(operand) => each(boolean::not(&self.truth(operand)?).map_err(arrow_error)?),
            Expr::IsNull(operand) => self
                .value(operand)?
                .map(|array| Ok(Arc::new(boolean::is_null(array).map_err(arrow_error)?))),
            Expr::IsNotNull(operand) => self
                .value(operand)?
                .map(|array| Ok(Arc::new(boolean::is_not_null(array).map_err(arrow_error)?))),
            Expr::InList {
                operand,
                list,
                negated,
            } => self.value(operand)?.map(|array| {
                Ok(Arc::new(members::contains(
                    array, list, *negated, self.rule,
                )?))
            }),
            Expr::Between {
                operand,
                low,
                high,
                negated,
            } => self.between(operand, low, high, *negated),
            Expr::Like {
                operand,
                pattern,
                case_insensitive,
                negated,
            } => {
                let kernel = match (*case_insensitive, *negated) {
                    (false, false) => like::like,
                    (false, true) => like::nlike,
                    (true, false) => like::ilike,
                    (true, true) => like::nilike,
                };
                self.text(operand, pattern, kernel)
            }
            Expr::StringMatch { op, operand, text } => {
                let kernel = match op {
                    StringMatchOp::StartsWith => like::starts_with,
                    StringMatchOp::EndsWith => like::ends_with,
                    StringMatchOp::Contains => like::contains,
                };
                self.text(operand, text, kernel)
            }
            Expr::IsNan(operand) => self
                .value(operand)?
                .map(|array| Ok(Arc::new(floats::is_nan(array)?))),
            Expr::Cast { operand, data_type } => self.cast(self.value(operand)?, data_type),
            Expr::Arithmetic { op, left, right } => {
                arithmetic(*op, self.value(left)?, self.value(right)?)
            }
            Expr::Unknown => Err(super::unknown_node()),
        }
    }

    fn fold(
        &self,
        operands: &[Expr],
        neutral: bool,
        kernel: fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>,
    ) -> Result<BooleanArray> {
        let mut answer: Option<BooleanArray> = None;
        for operand in operands {
            let next = self.truth(operand)?;
            answer = Some(match answer {
                Some(answer) => kernel(&answer, &next).map_err(arrow_error)?,
                None => next,
            });
        }
        Ok(answer.unwrap_or_else(|| BooleanArray::from(vec![neutral; self.batch.num_rows()])))
    }

    fn between(&self, operand: &Expr, low: &Expr, high: &Expr, negated: bool) -> Result<Value> {
        let above = self.compare(CompareOp::GtEq, self.value(operand)?, self.value(low)?)?;
        let below = self.compare(CompareOp::LtEq, self.value(operand)?, self.value(high)?)?;
        let rows = match (&above, &below) {
            (Value::Same(_), Value::Same(_)) => 1,
            _ => self.batch.num_rows(),
        };
        let whole = |value: &Value| match value {
            Value::Each(array) => array.as_boolean().clone(),
            Value::Same(array) => repeat(array.as_boolean(), rows),
        };
        let both = boolean::and_kleene(&whole(&above), &whole(&below)).map_err(arrow_error)?;
        let answer: ArrayRef = Arc::new(if negated {
            boolean::not(&both).map_err(arrow_error)?
        } else {
            both
        });
        Ok(match (&above, &below) {
            (Value::Same(_), Value::Same(_)) => Value::Same(answer),
            _ => Value::Each(answer),
        })
    }

    fn compare(&self, op: CompareOp, left: Value, right: Value) -> Result<Value> {
        let (left, right) = bring_together(left, right)?;
        let normalize = |value: Value| value.map(|array| Ok(floats::normalize(array, self.rule)));
        let (left, right) = (normalize(left)?, normalize(right)?);
        let kernel = match op {
            CompareOp::Eq => cmp::eq,
            CompareOp::NotEq => cmp::neq,
            CompareOp::Lt => cmp::lt,
            CompareOp::LtEq => cmp::lt_eq,
            CompareOp::Gt => cmp::gt,
            CompareOp::GtEq => cmp::gt_eq,
            CompareOp::IsDistinctFrom => cmp::distinct,
            CompareOp::IsNotDistinctFrom => cmp::not_distinct,
        };
        let answer = apply(&left, &right, kernel)?;
        if self.rule == FloatRule::Ieee && value_type(left.data_type()).is_floating() {
            return with_nans(op, answer, &left, &right);
        }
        Ok(answer)
    }

    fn text(
        &self,
        operand: &Expr,
        text: &Expr,
        kernel: fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>,
    ) -> Result<Value> {
        let (operand, text) = (self.value(operand)?, self.value(text)?);
        for value in [&operand, &text] {
            let data_type = value_type(value.data_type());
            if !is_text(data_type) && *data_type != DataType::Null {
                return Err(Error::invalid_argument(format!(
                    "text is matched, not {data_type}"
                )));
            }
        }
        if *operand.data_type() == DataType::Null && *text.data_type() == DataType::Null {
            return Ok(Value::Same(new_null_array(&DataType::Boolean, 1)));
        }
        let (operand, text) = bring_together(operand, text)?;
        // The kernels take one representation on both sides, and a constant pattern only on the right.
        apply(&operand, &text, kernel)
    }

    fn cast(&self, value: Value, to: &DataType) -> Result<Value> {
        let from = value.data_type().clone();
        if !is_lossless(&from, to) {
            return Err(Error::invalid_argument(format!(
                "a cast of {from} to {to} can lose a value"
            )));
        }
        let (from, to) = (value_type(&from), value_type(to));
        // Another representation of the same text or bytes compares the same: no copy, and no offset to overflow.
        if is_text(from) && is_text(to) || coerce::is_bytes(from) && coerce::is_bytes(to) {
            return Ok(value);
        }
        value.map(|array| coerce::convert(array, to))
    }
}

/// Brings two values to one type: constants to the column's type where they fit, else both to a wider one.
fn bring_together(left: Value, right: Value) -> Result<(Value, Value)> {
    let Some((meeting, _)) = meeting(left.data_type(), right.data_type()) else {
        return Err(Error::invalid_argument(format!(
            "{} and {} do not compare",
            left.data_type(),
            right.data_type()
        )));
    };
    if value_type(left.data_type()) == value_type(right.data_type()) {
        return Ok((left, right));
    }
    match (&left, &right) {
        (Value::Each(array), Value::Same(scalar)) => {
            if let Some(scalar) = coerce::narrow(scalar, array.data_type()) {
                return Ok((left, Value::Same(scalar)));
            }
        }
        (Value::Same(scalar), Value::Each(array)) => {
            if let Some(scalar) = coerce::narrow(scalar, array.data_type()) {
                return Ok((Value::Same(scalar), right));
            }
        }
        _ => {}
    }
    let bring = |value: Value| match &meeting {
        Meeting::At(to) => value.map(|array| coerce::convert(array, to)),
        Meeting::Ticks(unit) => value.map(|array| coerce::ticks(array, *unit)),
    };
    Ok((bring(left)?, bring(right)?))
}

/// Corrects the total-order answer where a NaN is compared under IEEE 754.
fn with_nans(op: CompareOp, answer: Value, left: &Value, right: &Value) -> Result<Value> {
    let nan = |value: &Value| -> Result<Option<Value>> {
        let nans = floats::is_nan(value.array())?;
        let any = nans.true_count() > 0;
        // Nulls count as no NaN: whether the answer is null was settled by the comparison.
        let nans: ArrayRef = Arc::new(
            boolean::and(&nans_or_false(&nans), &nans_or_false(&nans)).map_err(arrow_error)?,
        );
        Ok(any.then(|| match value {
            Value::Each(_) => Value::Each(nans),
            Value::Same(_) => Value::Same(nans),
        }))
    };
    let outcome = matches!(op, CompareOp::NotEq | CompareOp::IsDistinctFrom);
    let mut answer = answer;
    for nans in [nan(left)?, nan(right)?].into_iter().flatten() {
        // A constant has one value however many rows there are, and there may be none.
        let length = match (&answer, &nans) {
            (Value::Each(rows), _) | (Value::Same(_), Value::Each(rows)) => rows.len(),
            (Value::Same(_), Value::Same(_)) => 1,
        };
        let whole = |value: &Value| match value {
            Value::Same(array) if array.len() != length => repeat(array.as_boolean(), length),
            other => other.array().as_boolean().clone(),
        };
        let (old, nans) = (whole(&answer), whole(&nans));
        let values = if outcome {
            old.values() | nans.values()
        } else {
            old.values() & &!nans.values()
        };
        let new: ArrayRef = Arc::new(BooleanArray::new(values, old.nulls().cloned()));
        answer = match answer {
            Value::Same(_) => Value::Same(new),
            Value::Each(_) => Value::Each(new),
        };
    }
    Ok(answer)
}

fn nans_or_false(nans: &BooleanArray) -> BooleanArray {
    match nans.nulls() {
        Some(nulls) => BooleanArray::new(nans.values() & nulls.inner(), None),
        None => nans.clone(),
    }
}

fn arithmetic(op: ArithmeticOp, left: Value, right: Value) -> Result<Value> {
    let Some((to_left, to_right)) = arithmetic_meeting(op, left.data_type(), right.data_type())
    else {
        return Err(Error::invalid_argument(format!(
            "no {} of {} and {}",
            op.as_str(),
            left.data_type(),
            right.data_type()
        )));
    };
    let left = left.map(|array| coerce::convert(array, &to_left))?;
    let right = right.map(|array| coerce::convert(array, &to_right))?;
    let kernel = match op {
        ArithmeticOp::Add => numeric::add,
        ArithmeticOp::Subtract => numeric::sub,
        ArithmeticOp::Multiply => numeric::mul,
        ArithmeticOp::Divide => numeric::div,
        ArithmeticOp::Modulo => numeric::rem,
    };
    apply(&left, &right, kernel)
}

/// One truth value for each of `rows`.
fn repeat(one: &BooleanArray, rows: usize) -> BooleanArray {
    match one.is_valid(0).then(|| one.value(0)) {
        Some(true) => BooleanArray::new(arrow_buffer::BooleanBuffer::new_set(rows), None),
        Some(false) => BooleanArray::new(arrow_buffer::BooleanBuffer::new_unset(rows), None),
        None => BooleanArray::new_null(rows),
    }
}
