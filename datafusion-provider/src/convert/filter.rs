//! DataFusion's filter expressions as the core's.
//!
//! Only what means the same on both sides is translated; all else stays with DataFusion. Of an AND one half may be
//! translated without the other, of an OR never: the rows that come back must never be too few.

use std::cell::Cell;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::functions::string::contains::ContainsFunc;
use datafusion::functions::string::ends_with::EndsWithFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::logical_expr::expr::{Between, InList, Like, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use lightstream_core::protocol::filter::{
    ArithmeticOp, CompareOp, Expr as CoreExpr, FilterLimits, FloatRule, StringMatchOp, Support,
    support,
};

/// How DataFusion compares floating-point values.
pub(crate) const FLOAT_RULE: FloatRule = FloatRule::TotalOrderZeroEqual;

/// Deepest expression that is looked into: beyond it no server says yes.
const MAX_DEPTH: usize = 64;

/// A filter that a server can apply.
#[derive(Debug, Clone)]
pub(crate) struct Conjunct {
    /// What the server is asked to apply.
    pub expr: CoreExpr,
    /// The server leaves exactly the rows that the filter leaves.
    pub is_exact: bool,
    /// What it takes of the bounds on a filter.
    pub size: Size,
}

/// How large a filter is, by the measures that servers put bounds on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    nodes: usize,
    list_values: usize,
    literal_bytes: usize,
}

/// What a literal takes beside its value: a field, and buffers that are padded.
const LITERAL_BYTES: usize = 512;

impl Size {
    /// Both together, unless servers would refuse that.
    pub(crate) fn checked_add(self, other: Size) -> Option<Size> {
        let most = FilterLimits::default();
        let sum = Size {
            nodes: self.nodes + other.nodes,
            list_values: self.list_values + other.list_values,
            literal_bytes: self.literal_bytes + other.literal_bytes,
        };
        let fits = sum.nodes <= most.nodes
            && sum.list_values <= most.list_values
            && sum.literal_bytes <= most.literal_bytes;
        fits.then_some(sum)
    }
}

/// What a server can be asked to apply of a filter on a table of this schema; `None` for nothing.
pub(crate) fn conjunct(
    filter: &Expr,
    schema: &Schema,
    has_exact_filters: bool,
) -> Option<Conjunct> {
    let translator = Translator {
        schema,
        size: Cell::default(),
    };
    let Translated { expr, is_whole } = translator.predicate(filter, 0)?;
    let size = translator.size.get();
    match support(&expr, schema, FLOAT_RULE) {
        Support::Exact => Some(Conjunct {
            expr,
            is_exact: is_whole && has_exact_filters,
            size,
        }),
        Support::Inexact => Some(Conjunct {
            expr,
            is_exact: false,
            size,
        }),
        Support::Unsupported => None,
    }
}

/// The same as DataFusion is told it.
pub(crate) fn pushdown(conjunct: Option<&Conjunct>) -> TableProviderFilterPushDown {
    match conjunct {
        Some(Conjunct { is_exact: true, .. }) => TableProviderFilterPushDown::Exact,
        Some(_) => TableProviderFilterPushDown::Inexact,
        None => TableProviderFilterPushDown::Unsupported,
    }
}

/// An expression that lets through every row that the original lets through.
struct Translated {
    expr: CoreExpr,
    /// It means the same as the original; otherwise it lets more rows through.
    is_whole: bool,
}

struct Translator<'a> {
    schema: &'a Schema,
    /// What was translated so far.
    size: Cell<Size>,
}

impl Translator<'_> {
    /// Counts what is added; `None` once it is more than servers take.
    fn count(&self, added: Size) -> Option<()> {
        self.size.set(self.size.get().checked_add(added)?);
        Some(())
    }

    /// A condition whose true rows are all that matters: it may be weakened.
    fn predicate(&self, expr: &Expr, depth: usize) -> Option<Translated> {
        if depth > MAX_DEPTH {
            return None;
        }
        match expr {
            Expr::Alias(alias) => self.predicate(&alias.expr, depth + 1),
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::And, ..
            }) => {
                let operands = chain(expr, Operator::And);
                let all = operands.len();
                let kept: Vec<_> = operands
                    .into_iter()
                    .filter_map(|operand| self.predicate(operand, depth + 1))
                    .collect();
                let is_whole = kept.len() == all && kept.iter().all(|operand| operand.is_whole);
                let mut kept: Vec<_> = kept.into_iter().map(|operand| operand.expr).collect();
                match kept.len() {
                    0 => None,
                    1 => kept.pop().map(|expr| Translated { expr, is_whole }),
                    _ => Some(Translated {
                        expr: CoreExpr::And(kept),
                        is_whole,
                    }),
                }
            }
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Or, ..
            }) => {
                let operands = chain(expr, Operator::Or);
                let operands: Vec<_> = operands
                    .into_iter()
                    .map(|operand| self.predicate(operand, depth + 1))
                    .collect::<Option<_>>()?;
                let is_whole = operands.iter().all(|operand| operand.is_whole);
                let operands = operands.into_iter().map(|operand| operand.expr).collect();
                Some(Translated {
                    expr: CoreExpr::Or(operands),
                    is_whole,
                })
            }
            other => self.value(other, depth).map(|expr| Translated {
                expr,
                is_whole: true,
            }),
        }
    }

    /// An expression that must have the same value on both sides, for every row.
    fn value(&self, expr: &Expr, depth: usize) -> Option<CoreExpr> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.count(Size {
            nodes: 1,
            ..Size::default()
        })?;
        let boxed = |expr: &Expr| self.value(expr, depth + 1).map(Box::new);
        match expr {
            Expr::Alias(alias) => self.value(&alias.expr, depth + 1),
            Expr::Column(column) => {
                self.schema.field_with_name(&column.name).ok()?;
                Some(CoreExpr::column(&column.name))
            }
            Expr::Literal(value, _) => self.literal(value),
            Expr::BinaryExpr(binary) => self.binary(expr, binary, depth),
            Expr::Not(operand) => Some(CoreExpr::Not(boxed(operand)?)),
            Expr::IsNull(operand) | Expr::IsUnknown(operand) => {
                Some(CoreExpr::IsNull(boxed(operand)?))
            }
            Expr::IsNotNull(operand) | Expr::IsNotUnknown(operand) => {
                Some(CoreExpr::IsNotNull(boxed(operand)?))
            }
            Expr::IsTrue(operand) => {
                self.is_bool(operand, CompareOp::IsNotDistinctFrom, true, depth)
            }
            Expr::IsFalse(operand) => {
                self.is_bool(operand, CompareOp::IsNotDistinctFrom, false, depth)
            }
            Expr::IsNotTrue(operand) => {
                self.is_bool(operand, CompareOp::IsDistinctFrom, true, depth)
            }
            Expr::IsNotFalse(operand) => {
                self.is_bool(operand, CompareOp::IsDistinctFrom, false, depth)
            }
            Expr::Between(Between {
                expr,
                negated,
                low,
                high,
            }) => Some(CoreExpr::Between {
                operand: boxed(expr)?,
                low: boxed(low)?,
                high: boxed(high)?,
                negated: *negated,
            }),
            Expr::InList(InList {
                expr,
                list,
                negated,
            }) => {
                let values = list.iter().map(|value| match value {
                    Expr::Literal(value, _) => Some(value.clone()),
                    _ => None,
                });
                self.count(Size {
                    list_values: list.len(),
                    ..Size::default()
                })?;
                let values =
                    ScalarValue::iter_to_array(values.collect::<Option<Vec<_>>>()?).ok()?;
                self.count_literal(&values)?;
                Some(CoreExpr::in_list(
                    self.value(expr, depth + 1)?,
                    values,
                    *negated,
                ))
            }
            Expr::Like(Like {
                negated,
                expr,
                pattern,
                escape_char: None | Some('\\'),
                case_insensitive,
            }) => Some(CoreExpr::Like {
                operand: boxed(expr)?,
                pattern: boxed(pattern)?,
                case_insensitive: *case_insensitive,
                negated: *negated,
            }),
            // TRY_CAST turns what does not fit into null, which no lossless cast needs.
            Expr::Cast(cast) if cast.field.metadata().is_empty() => Some(CoreExpr::Cast {
                operand: boxed(&cast.expr)?,
                data_type: cast.field.data_type().clone(),
            }),
            Expr::ScalarFunction(function) => self.function(function, depth),
            // Subqueries, placeholders, outer references, CASE, other functions, and whatever comes to be.
            _ => None,
        }
    }

    fn binary(&self, expr: &Expr, binary: &BinaryExpr, depth: usize) -> Option<CoreExpr> {
        let all = |op| -> Option<Vec<_>> {
            chain(expr, op)
                .into_iter()
                .map(|operand| self.value(operand, depth + 1))
                .collect()
        };
        let sides = || {
            Some((
                self.value(&binary.left, depth + 1)?,
                self.value(&binary.right, depth + 1)?,
            ))
        };
        let compare = |op| sides().map(|(left, right)| CoreExpr::compare(op, left, right));
        // Whether it may overflow, where DataFusion wraps around, or fail is judged with all else.
        let arithmetic = |op| sides().map(|(left, right)| CoreExpr::arithmetic(op, left, right));
        let like = |negated, case_insensitive| {
            let (operand, pattern) = sides()?;
            let (operand, pattern) = (Box::new(operand), Box::new(pattern));
            Some(CoreExpr::Like {
                operand,
                pattern,
                case_insensitive,
                negated,
            })
        };
        match binary.op {
            Operator::And => all(Operator::And).map(CoreExpr::And),
            Operator::Or => all(Operator::Or).map(CoreExpr::Or),
            Operator::Eq => compare(CompareOp::Eq),
            Operator::NotEq => compare(CompareOp::NotEq),
            Operator::Lt => compare(CompareOp::Lt),
            Operator::LtEq => compare(CompareOp::LtEq),
            Operator::Gt => compare(CompareOp::Gt),
            Operator::GtEq => compare(CompareOp::GtEq),
            Operator::IsDistinctFrom => compare(CompareOp::IsDistinctFrom),
            Operator::IsNotDistinctFrom => compare(CompareOp::IsNotDistinctFrom),
            Operator::LikeMatch => like(false, false),
            Operator::ILikeMatch => like(false, true),
            Operator::NotLikeMatch => like(true, false),
            Operator::NotILikeMatch => like(true, true),
            Operator::Plus => arithmetic(ArithmeticOp::Add),
            Operator::Minus => arithmetic(ArithmeticOp::Subtract),
            Operator::Multiply => arithmetic(ArithmeticOp::Multiply),
            Operator::Divide => arithmetic(ArithmeticOp::Divide),
            Operator::Modulo => arithmetic(ArithmeticOp::Modulo),
            _ => None,
        }
    }

    /// `IS [NOT] TRUE` and its kin: never null.
    fn is_bool(
        &self,
        operand: &Expr,
        op: CompareOp,
        value: bool,
        depth: usize,
    ) -> Option<CoreExpr> {
        Some(CoreExpr::compare(
            op,
            self.value(operand, depth + 1)?,
            self.literal(&ScalarValue::from(value))?,
        ))
    }

    fn literal(&self, value: &ScalarValue) -> Option<CoreExpr> {
        let array = value.to_array().ok()?;
        self.count_literal(&array)?;
        CoreExpr::literal(array).ok()
    }

    fn count_literal(&self, array: &ArrayRef) -> Option<()> {
        self.count(Size {
            literal_bytes: array.get_buffer_memory_size() + LITERAL_BYTES,
            ..Size::default()
        })
    }

    /// Functions are known by what implements them: a name may stand for anything.
    fn function(&self, function: &ScalarFunction, depth: usize) -> Option<CoreExpr> {
        let implementation = function.func.inner();
        let op = if implementation.is::<StartsWithFunc>() {
            StringMatchOp::StartsWith
        } else if implementation.is::<EndsWithFunc>() {
            StringMatchOp::EndsWith
        } else if implementation.is::<ContainsFunc>() {
            StringMatchOp::Contains
        } else if implementation.is::<GetFieldFunc>() {
            return self.nested_column(&function.args, depth);
        } else {
            return None;
        };
        let [operand, text] = function.args.as_slice() else {
            return None;
        };
        let operand = Box::new(self.value(operand, depth + 1)?);
        let text = Box::new(self.value(text, depth + 1)?);
        Some(CoreExpr::StringMatch { op, operand, text })
    }

    /// A field of a struct that cannot be null: within a null struct DataFusion still sees the field's own value.
    fn nested_column(&self, args: &[Expr], depth: usize) -> Option<CoreExpr> {
        let (base, names) = args.split_first()?;
        let CoreExpr::Column(mut path) = self.value(base, depth + 1)? else {
            return None;
        };
        for name in names {
            let Expr::Literal(name, _) = name else {
                return None;
            };
            path.push(name.try_as_str().flatten()?.to_owned());
        }
        self.field_type(&path)?;
        Some(CoreExpr::Column(path))
    }

    /// The type at the end of a path through structs that cannot be null.
    fn field_type(&self, path: &[String]) -> Option<&DataType> {
        let (first, rest) = path.split_first()?;
        let mut field = self.schema.field_with_name(first).ok()?;
        for name in rest {
            let DataType::Struct(fields) = field.data_type() else {
                return None;
            };
            if field.is_nullable() {
                return None;
            }
            field = fields.find(name)?.1;
        }
        Some(field.data_type())
    }
}

/// The operands of a chain of one operator, from left to right. Walks without recursion: chains may be long.
fn chain(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let mut operands = Vec::new();
    let mut rest = vec![expr];
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == op => {
                rest.extend([&*binary.right, &*binary.left])
            }
            other => operands.push(other),
        }
    }
    operands
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
