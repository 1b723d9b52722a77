//! What a filter is worth: whether what it keeps is exactly what an engine would keep.
//!
//! Judges types alone and looks at no data, so that planners may ask as often as they like. Whatever is called exact
//! here is shown to be so by the conformance table, which runs the core's evaluator against DataFusion's.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};

use super::coerce::{
    self, arithmetic_meeting, has_negative_scale, integer_range, is_lossless, is_text, meeting,
    value_type,
};
use super::resolve;
use super::tree::{ArithmeticOp, Expr, FloatRule, Literal, MAX_DEPTH, ValueList};

/// How far a conjunct can be applied away from the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Support {
    /// Not at all: the engine must apply it, and it is not evaluated.
    Unsupported,
    /// Every row that the engine would keep is kept, and perhaps more: the engine must apply it again.
    Inexact,
    /// Exactly the rows that the engine would keep are kept.
    Exact,
}

/// Longest pattern of a LIKE, in bytes: what is compiled from one stays far below the size at which compiling fails.
const PATTERN_BYTES: usize = 1024;

/// How far a predicate over columns of `schema` can be applied, for an engine that compares floats by `rule`.
///
/// Pure and cheap. Whatever does not type-check, names a column that is missing or ambiguous, compares nested types,
/// or could raise an error in one engine and not in another, is unsupported.
pub fn support(expr: &Expr, schema: &Schema, rule: FloatRule) -> Support {
    if !expr.fits(MAX_DEPTH) {
        return Support::Unsupported;
    }
    match (Judge { schema, rule }).judge(expr) {
        Some(typed) if typed.is_condition() => typed.support,
        _ => Support::Unsupported,
    }
}

/// A node of which every value can be computed without error.
struct Typed {
    data_type: DataType,
    /// Exact or inexact; inexact only for conditions, whose true rows are then a superset.
    support: Support,
    /// Bounds of an integer.
    range: Option<(i128, i128)>,
}

impl Typed {
    fn new(data_type: DataType) -> Self {
        let range = integer_range(&data_type);
        Self {
            data_type,
            support: Support::Exact,
            range,
        }
    }

    fn condition(support: Support) -> Option<Self> {
        (support != Support::Unsupported).then_some(Self {
            data_type: DataType::Boolean,
            support,
            range: None,
        })
    }

    fn is_condition(&self) -> bool {
        matches!(self.data_type, DataType::Boolean | DataType::Null)
    }

    fn is_exact(&self) -> bool {
        self.support == Support::Exact
    }
}

struct Judge<'a> {
    schema: &'a Schema,
    rule: FloatRule,
}

impl Judge<'_> {
    /// None for what is unsupported.
    fn judge(&self, expr: &Expr) -> Option<Typed> {
        match expr {
            Expr::Column(path) => {
                let found = resolve::find(path, self.schema).ok()?;
                // DataFusion reads what lies beneath a null struct.
                (!found.below_nullable).then(|| Typed::new(found.field.data_type().clone()))
            }
            Expr::Literal(literal) => Some(literal_range(literal)),
            Expr::Compare { left, right, .. } => {
                let (left, right) = (self.exact(left)?, self.exact(right)?);
                Typed::condition(self.comparison(&left.data_type, &right.data_type)?)
            }
            Expr::And(operands) | Expr::Or(operands) => {
                let mut support = Support::Exact;
                for operand in operands {
                    let operand = self.judge(operand).filter(Typed::is_condition)?;
                    support = support.min(operand.support);
                }
                Typed::condition(support)
            }
            // The rows that a superset leaves out are too few to be the negation's.
            Expr::Not(operand) => self
                .exact(operand)
                .filter(Typed::is_condition)
                .and(Typed::condition(Support::Exact)),
            Expr::IsNull(operand) | Expr::IsNotNull(operand) => {
                let operand = self.exact(operand)?;
                // Their nulls lie in their values, and the table has none.
                let indirect = matches!(
                    value_type(&operand.data_type),
                    DataType::RunEndEncoded(_, _) | DataType::Union(_, _)
                );
                (!indirect).then_some(())?;
                Typed::condition(Support::Exact)
            }
            Expr::InList {
                operand,
                list,
                negated,
            } => {
                let operand = self.exact(operand)?;
                Typed::condition(self.in_list(&operand.data_type, list, *negated)?)
            }
            Expr::Between {
                operand,
                low,
                high,
                negated,
            } => {
                let (operand, low, high) =
                    (self.exact(operand)?, self.exact(low)?, self.exact(high)?);
                let support = self
                    .comparison(&operand.data_type, &low.data_type)?
                    .min(self.comparison(&operand.data_type, &high.data_type)?);
                Typed::condition(weaken_negated(support, *negated))
            }
            Expr::Like {
                operand, pattern, ..
            } => {
                let operand = self.exact(operand)?;
                let Expr::Literal(pattern) = &**pattern else {
                    return None;
                };
                is_pattern(pattern).then_some(())?;
                self.text(&operand.data_type, pattern.data_type())
            }
            Expr::StringMatch { operand, text, .. } => {
                let (operand, text) = (self.exact(operand)?, self.exact(text)?);
                self.text(&operand.data_type, &text.data_type)
            }
            Expr::IsNan(operand) => {
                let operand = self.exact(operand)?;
                operand.data_type.is_floating().then_some(())?;
                Typed::condition(Support::Exact)
            }
            Expr::Cast { operand, data_type } => {
                let operand = self.exact(operand)?;
                is_lossless(&operand.data_type, data_type).then_some(())?;
                agrees_on_dictionaries(&operand.data_type, data_type).then_some(())?;
                let negative =
                    has_negative_scale(&operand.data_type) || has_negative_scale(data_type);
                (operand.data_type == *data_type || !negative).then_some(())?;
                let range = operand.range.filter(|_| data_type.is_integer());
                Some(Typed {
                    range: range.or(integer_range(data_type)),
                    ..Typed::new(data_type.clone())
                })
            }
            Expr::Arithmetic { op, left, right } => {
                let (left, right) = (self.exact(left)?, self.exact(right)?);
                self.arithmetic(*op, &left, &right)
            }
            Expr::Unknown => None,
        }
    }

    fn exact(&self, expr: &Expr) -> Option<Typed> {
        self.judge(expr).filter(Typed::is_exact)
    }

    fn comparison(&self, left: &DataType, right: &DataType) -> Option<Support> {
        let (_, support) = meeting(left, right)?;
        agrees_on_dictionaries(left, right).then_some(support)
    }

    fn in_list(&self, operand: &DataType, list: &ValueList, negated: bool) -> Option<Support> {
        let values = list.values();
        let support = self.comparison(operand, values.data_type())?;
        // DataFusion compares the bits of floats in lists, though not in `=`: what it finds there is found here too.
        let zeros = self.rule == FloatRule::TotalOrderZeroEqual && holds_zero(values);
        let support = if zeros {
            support.min(Support::Inexact)
        } else {
            support
        };
        Some(weaken_negated(support, negated))
    }

    fn text(&self, operand: &DataType, text: &DataType) -> Option<Typed> {
        let is_text = |data_type| is_text(value_type(data_type)) || *data_type == DataType::Null;
        (is_text(operand) && is_text(text) && agrees_on_dictionaries(operand, text))
            .then_some(())?;
        Typed::condition(Support::Exact)
    }

    fn arithmetic(&self, op: ArithmeticOp, left: &Typed, right: &Typed) -> Option<Typed> {
        let (common, other) = arithmetic_meeting(op, &left.data_type, &right.data_type)?;
        if common.is_floating() {
            // The sign of a NaN that arithmetic makes depends on the processor, and total order tells signs apart.
            let decided = matches!(self.rule, FloatRule::NanLargest | FloatRule::Ieee);
            return decided.then(|| Typed::new(common));
        }
        // Decimals overflow by value, not by type.
        if !common.is_integer() || common != other {
            return None;
        }
        let range = integer_arithmetic(op, left.range?, right.range?)?;
        let (least, greatest) = integer_range(&common)?;
        (least <= range.0 && range.1 <= greatest).then(|| Typed {
            range: Some(range),
            ..Typed::new(common)
        })
    }
}

/// Whether engines treat a dictionary as its values here. DataFusion does not make zeros equal within dictionaries, cannot
/// encode some types, and turns nulls among the values into empty text when it casts to views.
fn agrees_on_dictionaries(left: &DataType, right: &DataType) -> bool {
    let coded =
        matches!(left, DataType::Dictionary(_, _)) || matches!(right, DataType::Dictionary(_, _));
    let (left, right) = (value_type(left), value_type(right));
    let alike = left == right || *left == DataType::Null || *right == DataType::Null;
    let sound = |data_type: &DataType| {
        !data_type.is_floating() && !matches!(data_type, DataType::Boolean | DataType::Duration(_))
    };
    !coded || alike && sound(left) && sound(right)
}

/// A superset negated is a subset.
fn weaken_negated(support: Support, negated: bool) -> Support {
    if negated && support == Support::Inexact {
        Support::Unsupported
    } else {
        support
    }
}

/// Bounds of an integer operation that raises no error. None where it may divide by zero.
fn integer_arithmetic(
    op: ArithmeticOp,
    left: (i128, i128),
    right: (i128, i128),
) -> Option<(i128, i128)> {
    let corners = |f: fn(i128, i128) -> Option<i128>| {
        let corners = [
            f(left.0, right.0)?,
            f(left.0, right.1)?,
            f(left.1, right.0)?,
            f(left.1, right.1)?,
        ];
        Some((*corners.iter().min()?, *corners.iter().max()?))
    };
    let divides = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo);
    // -1 overflows as a divisor of the least value.
    if divides && right.0 <= 0 && right.1 >= -1 {
        return None;
    }
    match op {
        ArithmeticOp::Add => corners(i128::checked_add),
        ArithmeticOp::Subtract => corners(i128::checked_sub),
        ArithmeticOp::Multiply => corners(i128::checked_mul),
        ArithmeticOp::Divide => corners(i128::checked_div),
        ArithmeticOp::Modulo => {
            let most = right.0.abs().max(right.1.abs()) - 1;
            Some((
                if left.0 < 0 { -most } else { 0 },
                if left.1 > 0 { most } else { 0 },
            ))
        }
    }
}

/// A literal's type, and of an integer its value as the bounds.
fn literal_range(literal: &Literal) -> Typed {
    let typed = Typed::new(literal.data_type().clone());
    if !literal.data_type().is_integer() || literal.is_null() {
        return typed;
    }
    let value = match literal.data_type() {
        DataType::UInt64 => literal
            .array()
            .as_primitive::<arrow_array::types::UInt64Type>()
            .value(0)
            .into(),
        _ => match coerce::cast(literal.array(), &DataType::Int64) {
            Ok(value) => value.as_primitive::<Int64Type>().value(0).into(),
            Err(_) => return typed,
        },
    };
    Typed {
        range: Some((value, value)),
        ..typed
    }
}

fn is_pattern(pattern: &Literal) -> bool {
    if pattern.is_null() {
        return true;
    }
    let text = coerce::plain(pattern.array()).and_then(|text| coerce::cast(&text, &DataType::Utf8));
    text.is_ok_and(|text| {
        text.as_string_opt::<i32>()
            .is_some_and(|text| text.value(0).len() <= PATTERN_BYTES)
    })
}

/// Whether a list of floats holds a zero of either sign.
fn holds_zero(values: &ArrayRef) -> bool {
    if !value_type(values.data_type()).is_floating() {
        return false;
    }
    let Ok(values) =
        coerce::plain(values).and_then(|values| coerce::cast(&values, &DataType::Float64))
    else {
        return true;
    };
    values
        .as_primitive_opt::<arrow_array::types::Float64Type>()
        .is_none_or(|values| values.iter().flatten().any(|v| v == 0.0))
}
