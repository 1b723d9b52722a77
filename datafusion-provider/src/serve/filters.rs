//! The core's filters as expressions of DataFusion.
//!
//! A condition whose meaning the two share becomes DataFusion's own, so that it prunes files, row groups and pages.
//! Every other one that the core knows how to apply is evaluated by the core, within DataFusion's plan.

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::functions::string::expr_fn::starts_with;
use datafusion::logical_expr::expr::{Between, Cast, InList, Like};
use datafusion::logical_expr::{Expr as DfExpr, Operator, ScalarUDF, binary_expr, lit, not};
use datafusion::scalar::ScalarValue;
use lightstream_core::protocol::filter::{
    CompareOp, Expr, Filter, FloatRule, StringMatchOp, Support, required_columns, support,
};

use super::core_condition::CoreCondition;

/// Longest IN list that is given to DataFusion's optimizer, which looks at each value several times.
const NATIVE_LIST_VALUES: usize = 1_000;

/// What is done of a filter.
#[derive(Debug, Default)]
pub(super) struct AppliedFilter {
    /// The conditions to apply.
    pub conditions: Vec<DfExpr>,
    /// How far each conjunct of the filter is applied.
    pub support: Vec<Support>,
}

impl AppliedFilter {
    /// Whether every conjunct is applied exactly.
    pub(super) fn is_exact(&self) -> bool {
        self.support
            .iter()
            .all(|&support| support == Support::Exact)
    }
}

/// What of a filter can be applied to a table of this schema, whose columns are these expressions.
pub(super) fn translate(filter: &Filter, schema: &Schema, columns: &[DfExpr]) -> AppliedFilter {
    let translator = Translator {
        schema,
        columns,
        rule: filter.float_rule,
    };
    let mut applied = AppliedFilter::default();
    for conjunct in &filter.conjuncts {
        let (condition, worth) = match support(conjunct, schema, filter.float_rule) {
            Support::Exact => (translator.condition(conjunct), Support::Exact),
            // A superset by the core's rules, not by DataFusion's.
            Support::Inexact => (translator.by_core(conjunct), Support::Inexact),
            Support::Unsupported => (None, Support::Unsupported),
        };
        applied.support.push(if condition.is_some() {
            worth
        } else {
            Support::Unsupported
        });
        applied.conditions.extend(condition);
    }
    applied
}

struct Translator<'a> {
    schema: &'a Schema,
    columns: &'a [DfExpr],
    rule: FloatRule,
}

/// An expression and its type.
type Value = (DfExpr, DataType);

impl Translator<'_> {
    fn condition(&self, expr: &Expr) -> Option<DfExpr> {
        match expr {
            Expr::And(operands) => self.chain(operands, Operator::And),
            Expr::Or(operands) => self.chain(operands, Operator::Or),
            Expr::Not(operand) => Some(not(self.condition(operand)?)),
            other => self.native(other).or_else(|| self.by_core(other)),
        }
    }

    /// A balanced tree, so that a long chain makes no deep one.
    fn chain(&self, operands: &[Expr], operator: Operator) -> Option<DfExpr> {
        match operands {
            [] => Some(lit(operator == Operator::And)),
            [operand] => self.condition(operand),
            _ => {
                let (left, right) = operands.split_at(operands.len() / 2);
                Some(binary_expr(
                    self.chain(left, operator)?,
                    operator,
                    self.chain(right, operator)?,
                ))
            }
        }
    }

    fn by_core(&self, expr: &Expr) -> Option<DfExpr> {
        let columns = required_columns([expr], self.schema).ok()?;
        let names = columns
            .iter()
            .map(|&column| self.schema.field(column).name().clone())
            .collect();
        let arguments = columns
            .iter()
            .map(|&column| self.columns.get(column).cloned())
            .collect::<Option<Vec<_>>>()?;
        let function = ScalarUDF::new_from_impl(CoreCondition::new(expr.clone(), self.rule, names));
        Some(function.call(arguments))
    }

    /// A condition that means the same to DataFusion as to the core.
    fn native(&self, expr: &Expr) -> Option<DfExpr> {
        match expr {
            Expr::Column(_) | Expr::Literal(_) => self
                .value(expr)
                .filter(|(_, data_type)| *data_type == DataType::Boolean)
                .map(|(value, _)| value),
            Expr::Compare { op, left, right } => {
                let (left, right) = (self.comparable(left)?, self.comparable(right)?);
                Some(binary_expr(left.0, operator(*op), right.0))
            }
            Expr::Between {
                operand,
                low,
                high,
                negated,
            } => {
                let [operand, low, high] =
                    [operand, low, high].map(|side| self.comparable(side).map(|side| side.0));
                Some(DfExpr::Between(Between::new(
                    Box::new(operand?),
                    *negated,
                    Box::new(low?),
                    Box::new(high?),
                )))
            }
            Expr::InList {
                operand,
                list,
                negated,
            } => {
                let (operand, _) = self.comparable(operand)?;
                let values = list.values();
                if values.len() > NATIVE_LIST_VALUES || !self.is_shared(values.data_type()) {
                    return None;
                }
                let values =
                    (0..values.len()).map(|row| ScalarValue::try_from_array(values, row).map(lit));
                let values = values.collect::<Result<Vec<_>, _>>().ok()?;
                Some(DfExpr::InList(InList::new(
                    Box::new(operand),
                    values,
                    *negated,
                )))
            }
            Expr::IsNull(operand) => Some(self.column(operand)?.is_null()),
            Expr::IsNotNull(operand) => Some(self.column(operand)?.is_not_null()),
            Expr::Like {
                operand,
                pattern,
                case_insensitive,
                negated,
            } => {
                // DataFusion takes apart patterns to prune by them, and escapes are where that goes wrong.
                let (pattern, _) = self.plain_text(pattern, &['\\'])?;
                let (operand, _) = self.text(operand)?;
                let pattern = Box::new(pattern);
                Some(DfExpr::Like(Like::new(
                    *negated,
                    Box::new(operand),
                    pattern,
                    None,
                    *case_insensitive,
                )))
            }
            Expr::StringMatch {
                op: StringMatchOp::StartsWith,
                operand,
                text,
            } => {
                let (text, _) = self.plain_text(text, &['\\', '%', '_'])?;
                let (operand, _) = self.text(operand)?;
                Some(starts_with(operand, text))
            }
            _ => None,
        }
    }

    fn column(&self, expr: &Expr) -> Option<DfExpr> {
        match expr {
            Expr::Column(_) => self.value(expr).map(|(value, _)| value),
            _ => None,
        }
    }

    fn value(&self, expr: &Expr) -> Option<Value> {
        match expr {
            Expr::Column(path) => {
                // Nulls of a struct above its fields are the core's to see.
                let [name] = path.as_slice() else { return None };
                let (position, field) = self.schema.column_with_name(name)?;
                Some((
                    self.columns.get(position)?.clone(),
                    field.data_type().clone(),
                ))
            }
            Expr::Literal(literal) => {
                let value = ScalarValue::try_from_array(literal.array(), 0).ok()?;
                Some((lit(value), literal.data_type().clone()))
            }
            Expr::Cast { operand, data_type } => {
                let (operand, from) = self.value(operand)?;
                let shared = (from.is_numeric() && data_type.is_numeric())
                    || (is_text(&from) && is_text(data_type));
                shared.then(|| {
                    (
                        DfExpr::Cast(Cast::new(Box::new(operand), data_type.clone())),
                        data_type.clone(),
                    )
                })
            }
            _ => None,
        }
    }

    fn comparable(&self, expr: &Expr) -> Option<Value> {
        self.value(expr)
            .filter(|(_, data_type)| self.is_shared(data_type))
    }

    /// Whether values of the type compare the same in DataFusion as the filter wants it. Those of floats do not, by
    /// whatever rule: DataFusion prunes by bounds that leave out NaN, and so would lose rows.
    fn is_shared(&self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Null => false,
            DataType::Dictionary(_, values) => self.is_shared(values),
            other => !other.is_floating(),
        }
    }

    fn text(&self, expr: &Expr) -> Option<Value> {
        self.value(expr).filter(|(_, data_type)| is_text(data_type))
    }

    /// A text literal that has none of these characters.
    fn plain_text(&self, expr: &Expr, without: &[char]) -> Option<Value> {
        let (value, data_type) = self.text(expr)?;
        let DfExpr::Literal(scalar, _) = &value else {
            return None;
        };
        let text = scalar.try_as_str()??;
        (!text.contains(without)).then_some((value, data_type))
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn operator(op: CompareOp) -> Operator {
    match op {
        CompareOp::Eq => Operator::Eq,
        CompareOp::NotEq => Operator::NotEq,
        CompareOp::Lt => Operator::Lt,
        CompareOp::LtEq => Operator::LtEq,
        CompareOp::Gt => Operator::Gt,
        CompareOp::GtEq => Operator::GtEq,
        CompareOp::IsDistinctFrom => Operator::IsDistinctFrom,
        CompareOp::IsNotDistinctFrom => Operator::IsNotDistinctFrom,
    }
}
