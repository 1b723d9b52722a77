//! Filters as they travel: the tree as protobuf, its constants beside it as one Arrow IPC batch of one row.
//!
//! Refuses what is malformed or beyond its bounds before it allocates. Nodes and operators that this version does not
//! know become [`Expr::Unknown`], never an error.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

use super::literals::{decode_literals, decode_type, encode_literals, encode_type};
use super::tree::{
    ArithmeticOp, CompareOp, EVALUATION_DEPTH, Expr, FloatRule, Literal, MAX_DEPTH, StringMatchOp,
    ValueList,
};
use super::{Filter, Support};
use crate::protocol::messages::{self, expr::Kind};
use crate::{Error, Result};

/// Bounds on a filter that comes from the other side. A filter beyond one is refused with `resource_exhausted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterLimits {
    /// Most levels of one conjunct.
    pub depth: usize,
    /// Most nodes, all conjuncts together.
    pub nodes: usize,
    /// Most values of all IN lists together.
    pub list_values: usize,
    /// Most bytes of all constants together.
    pub literal_bytes: usize,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self {
            depth: MAX_DEPTH,
            nodes: 10_000,
            list_values: 1_000_000,
            literal_bytes: 32 << 20,
        }
    }
}

impl Filter {
    /// The filter as a message.
    ///
    /// Fails with `resource_exhausted` where a conjunct is deeper than [`MAX_DEPTH`], which the other side would refuse,
    /// and with `unimplemented` for [`Expr::Unknown`].
    pub fn to_proto(&self) -> Result<messages::Filter> {
        let mut writer = Writer::default();
        let mut conjuncts = Vec::with_capacity(self.conjuncts.len());
        for conjunct in &self.conjuncts {
            if !conjunct.fits(MAX_DEPTH) {
                return Err(super::too_deep(MAX_DEPTH));
            }
            conjuncts.push(writer.expr(conjunct)?);
        }
        let mut filter = messages::Filter {
            conjuncts,
            literals: encode_literals(writer.literals)?,
            float_rule: 0,
        };
        filter.set_float_rule(self.float_rule.into());
        Ok(filter)
    }

    /// Reads a message. Under a float rule, or with a constant of a type, that this version does not know, every
    /// conjunct is [`Expr::Unknown`].
    ///
    /// Fails with `resource_exhausted` beyond a bound, naming it, and with `invalid_argument` where it is malformed.
    pub fn from_proto(filter: &messages::Filter, limits: &FilterLimits) -> Result<Self> {
        let over = |what: &str, most: usize| {
            Error::resource_exhausted(format!("a filter has more than {most} {what}"))
        };
        if filter.literals.len() > limits.literal_bytes {
            return Err(over(
                "bytes of literals (literal_bytes)",
                limits.literal_bytes,
            ));
        }
        if filter.conjuncts.len() > limits.nodes {
            return Err(over("nodes (nodes)", limits.nodes));
        }
        let unknown = |float_rule| Self {
            float_rule,
            conjuncts: vec![Expr::Unknown; filter.conjuncts.len()],
        };
        let Ok(float_rule) = messages::FloatRule::try_from(filter.float_rule) else {
            return Ok(unknown(FloatRule::TotalOrder));
        };
        let Some(literals) = decode_literals(&filter.literals, limits)? else {
            return Ok(unknown(float_rule.into()));
        };
        let mut reader = Reader {
            literals,
            limits,
            nodes_left: limits.nodes,
            values_left: limits.list_values,
        };
        let depth = limits.depth.min(EVALUATION_DEPTH);
        let conjuncts = filter
            .conjuncts
            .iter()
            .map(|expr| reader.expr(expr, depth))
            .collect::<Result<_>>()?;
        Ok(Self {
            float_rule: float_rule.into(),
            conjuncts,
        })
    }
}

/// Turns a tree into messages and collects its constants.
#[derive(Default)]
struct Writer {
    literals: Vec<ArrayRef>,
}

impl Writer {
    fn expr(&mut self, expr: &Expr) -> Result<messages::Expr> {
        let kind = match expr {
            Expr::Column(path) => Kind::Column(messages::Column { path: path.clone() }),
            Expr::Literal(literal) => Kind::Literal(self.literal(Arc::clone(literal.array()))?),
            Expr::Compare { op, left, right } => Kind::Comparison(Box::new(messages::Comparison {
                op: messages::comparison::Op::from(*op).into(),
                left: self.boxed(left)?,
                right: self.boxed(right)?,
            })),
            Expr::And(operands) => Kind::And(self.exprs(operands)?),
            Expr::Or(operands) => Kind::Or(self.exprs(operands)?),
            Expr::Not(operand) => Kind::Not(Box::new(self.expr(operand)?)),
            Expr::IsNull(operand) => Kind::IsNull(Box::new(self.expr(operand)?)),
            Expr::IsNotNull(operand) => Kind::IsNotNull(Box::new(self.expr(operand)?)),
            Expr::InList {
                operand,
                list,
                negated,
            } => Kind::InList(Box::new(messages::InList {
                operand: self.boxed(operand)?,
                list: self.list(list.values())?,
                negated: *negated,
            })),
            Expr::Between {
                operand,
                low,
                high,
                negated,
            } => Kind::Between(Box::new(messages::Between {
                operand: self.boxed(operand)?,
                low: self.boxed(low)?,
                high: self.boxed(high)?,
                negated: *negated,
            })),
            Expr::Like {
                operand,
                pattern,
                case_insensitive,
                negated,
            } => Kind::Like(Box::new(messages::Like {
                operand: self.boxed(operand)?,
                pattern: self.boxed(pattern)?,
                case_insensitive: *case_insensitive,
                negated: *negated,
            })),
            Expr::StringMatch { op, operand, text } => {
                Kind::StringMatch(Box::new(messages::StringMatch {
                    op: messages::string_match::Op::from(*op).into(),
                    operand: self.boxed(operand)?,
                    text: self.boxed(text)?,
                }))
            }
            Expr::IsNan(operand) => Kind::IsNan(Box::new(self.expr(operand)?)),
            Expr::Cast { operand, data_type } => Kind::Cast(Box::new(messages::Cast {
                operand: self.boxed(operand)?,
                schema: encode_type(data_type)?,
            })),
            Expr::Arithmetic { op, left, right } => {
                Kind::Arithmetic(Box::new(messages::Arithmetic {
                    op: messages::arithmetic::Op::from(*op).into(),
                    left: self.boxed(left)?,
                    right: self.boxed(right)?,
                }))
            }
            Expr::Unknown => return Err(super::unknown_node()),
        };
        Ok(messages::Expr { kind: Some(kind) })
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Option<Box<messages::Expr>>> {
        Ok(Some(Box::new(self.expr(expr)?)))
    }

    fn exprs(&mut self, operands: &[Expr]) -> Result<messages::Exprs> {
        let operands = operands
            .iter()
            .map(|operand| self.expr(operand))
            .collect::<Result<_>>()?;
        Ok(messages::Exprs { operands })
    }

    fn literal(&mut self, array: ArrayRef) -> Result<u32> {
        let position = u32::try_from(self.literals.len()).map_err(|_| {
            Error::resource_exhausted("a filter has more literals than can be numbered")
        })?;
        self.literals.push(array);
        Ok(position)
    }

    fn list(&mut self, values: &ArrayRef) -> Result<u32> {
        if i32::try_from(values.len()).is_err() {
            return Err(Error::resource_exhausted(format!(
                "an IN list has {} values",
                values.len()
            )));
        }
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(field, offsets, Arc::clone(values), None)
            .map_err(super::arrow_error)?;
        self.literal(Arc::new(list))
    }
}

/// Turns messages into a tree, counting down what the bounds leave.
struct Reader<'a> {
    literals: Vec<ArrayRef>,
    limits: &'a FilterLimits,
    nodes_left: usize,
    values_left: usize,
}

impl Reader<'_> {
    fn expr(&mut self, expr: &messages::Expr, levels: usize) -> Result<Expr> {
        let Some(levels) = levels.checked_sub(1) else {
            return Err(Error::resource_exhausted(format!(
                "a filter has more than {} levels (depth)",
                self.limits.depth.min(EVALUATION_DEPTH)
            )));
        };
        self.nodes_left = self.nodes_left.checked_sub(1).ok_or_else(|| {
            Error::resource_exhausted(format!(
                "a filter has more than {} nodes (nodes)",
                self.limits.nodes
            ))
        })?;
        let Some(kind) = &expr.kind else {
            return Ok(Expr::Unknown);
        };
        Ok(match kind {
            Kind::Column(column) if column.path.is_empty() => {
                return Err(Error::invalid_argument(
                    "a filter names a column by an empty path",
                ));
            }
            Kind::Column(column) => Expr::Column(column.path.clone()),
            Kind::Literal(position) => Expr::Literal(Literal::try_new(self.literal(*position)?)?),
            Kind::Comparison(node) => {
                let (left, right) = (
                    self.child(&node.left, levels)?,
                    self.child(&node.right, levels)?,
                );
                match known(node.op, messages::comparison::Op::try_from, compare_op) {
                    Some(op) => Expr::Compare { op, left, right },
                    None => Expr::Unknown,
                }
            }
            Kind::And(node) => Expr::And(self.children(node, levels)?),
            Kind::Or(node) => Expr::Or(self.children(node, levels)?),
            Kind::Not(operand) => Expr::Not(Box::new(self.expr(operand, levels)?)),
            Kind::IsNull(operand) => Expr::IsNull(Box::new(self.expr(operand, levels)?)),
            Kind::IsNotNull(operand) => Expr::IsNotNull(Box::new(self.expr(operand, levels)?)),
            Kind::InList(node) => Expr::InList {
                operand: self.child(&node.operand, levels)?,
                list: self.list(node.list)?,
                negated: node.negated,
            },
            Kind::Between(node) => Expr::Between {
                operand: self.child(&node.operand, levels)?,
                low: self.child(&node.low, levels)?,
                high: self.child(&node.high, levels)?,
                negated: node.negated,
            },
            Kind::Like(node) => Expr::Like {
                operand: self.child(&node.operand, levels)?,
                pattern: self.child(&node.pattern, levels)?,
                case_insensitive: node.case_insensitive,
                negated: node.negated,
            },
            Kind::StringMatch(node) => {
                let (operand, text) = (
                    self.child(&node.operand, levels)?,
                    self.child(&node.text, levels)?,
                );
                match known(
                    node.op,
                    messages::string_match::Op::try_from,
                    string_match_op,
                ) {
                    Some(op) => Expr::StringMatch { op, operand, text },
                    None => Expr::Unknown,
                }
            }
            Kind::IsNan(operand) => Expr::IsNan(Box::new(self.expr(operand, levels)?)),
            Kind::Cast(node) => {
                let operand = self.child(&node.operand, levels)?;
                match decode_type(&node.schema)? {
                    Some(data_type) => Expr::Cast { operand, data_type },
                    None => Expr::Unknown,
                }
            }
            Kind::Arithmetic(node) => {
                let (left, right) = (
                    self.child(&node.left, levels)?,
                    self.child(&node.right, levels)?,
                );
                match known(node.op, messages::arithmetic::Op::try_from, arithmetic_op) {
                    Some(op) => Expr::Arithmetic { op, left, right },
                    None => Expr::Unknown,
                }
            }
        })
    }

    fn child(&mut self, expr: &Option<Box<messages::Expr>>, levels: usize) -> Result<Box<Expr>> {
        match expr {
            Some(expr) => Ok(Box::new(self.expr(expr, levels)?)),
            None => Err(Error::invalid_argument(
                "a node of a filter lacks an operand",
            )),
        }
    }

    fn children(&mut self, node: &messages::Exprs, levels: usize) -> Result<Vec<Expr>> {
        node.operands
            .iter()
            .map(|operand| self.expr(operand, levels))
            .collect()
    }

    fn literal(&self, position: u32) -> Result<ArrayRef> {
        let literal = usize::try_from(position)
            .ok()
            .and_then(|position| self.literals.get(position));
        literal.cloned().ok_or_else(|| {
            let count = self.literals.len();
            Error::invalid_argument(format!("a filter refers to literal {position} of {count}"))
        })
    }

    fn list(&mut self, position: u32) -> Result<ValueList> {
        let literal = self.literal(position)?;
        if literal.is_null(0) {
            return Err(Error::invalid_argument("an IN list is null"));
        }
        let values = match literal.data_type() {
            DataType::List(_) => literal.as_list::<i32>().value(0),
            DataType::LargeList(_) => literal.as_list::<i64>().value(0),
            other => {
                return Err(Error::invalid_argument(format!(
                    "an IN list is a List literal, not {other}"
                )));
            }
        };
        self.values_left = self.values_left.checked_sub(values.len()).ok_or_else(|| {
            let most = self.limits.list_values;
            Error::resource_exhausted(format!(
                "a filter has more than {most} values in IN lists (list_values)"
            ))
        })?;
        Ok(ValueList::new(values))
    }
}

/// An operator from its number; None for numbers that this version does not know.
fn known<W, T, E>(
    number: i32,
    read: impl Fn(i32) -> Result<W, E>,
    convert: impl Fn(W) -> Option<T>,
) -> Option<T> {
    read(number).ok().and_then(convert)
}

macro_rules! operators {
    ($($function:ident: $own:ident = $wire:path { $($variant:ident),* })*) => {$(
        impl From<$own> for $wire {
            fn from(op: $own) -> Self {
                match op {
                    $($own::$variant => Self::$variant,)*
                }
            }
        }

        fn $function(op: $wire) -> Option<$own> {
            use $wire as Wire;
            match op {
                Wire::Unknown => None,
                $(Wire::$variant => Some($own::$variant),)*
            }
        }
    )*};
}

operators! {
    compare_op: CompareOp = messages::comparison::Op {
        Eq, NotEq, Lt, LtEq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom
    }
    string_match_op: StringMatchOp = messages::string_match::Op { StartsWith, EndsWith, Contains }
    arithmetic_op: ArithmeticOp = messages::arithmetic::Op { Add, Subtract, Multiply, Divide, Modulo }
}

macro_rules! same_names {
    ($own:ident = $wire:path { $($variant:ident),* }) => {
        impl From<$own> for $wire {
            fn from(value: $own) -> Self {
                match value {
                    $($own::$variant => Self::$variant,)*
                }
            }
        }

        impl From<$wire> for $own {
            fn from(value: $wire) -> Self {
                use $wire as Wire;
                match value {
                    $(Wire::$variant => Self::$variant,)*
                }
            }
        }
    };
}

same_names!(
    FloatRule = messages::FloatRule {
        TotalOrder,
        TotalOrderZeroEqual,
        NanLargest,
        Ieee
    }
);
same_names!(
    Support = messages::FilterSupport {
        Unsupported,
        Inexact,
        Exact
    }
);
