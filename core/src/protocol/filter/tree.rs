//! The nodes of a filter, as an engine builds them and a server reads them.
//!
//! Holds no rule on types or floats of its own: what a node means is in `evaluate`, what it is worth in `exactness`.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::members::Members;
use crate::{Error, Result};

/// Deepest tree that travels or that [`support`](super::support) says yes to.
pub const MAX_DEPTH: usize = 40;

/// Deepest tree that [`evaluate`](super::evaluate) walks.
pub(super) const EVALUATION_DEPTH: usize = 128;

/// How floating-point values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatRule {
    /// `-NaN < -inf < … < -0.0 < 0.0 < … < inf < NaN`, each NaN ordered by its bits and equal to itself.
    TotalOrder,
    /// As [`TotalOrder`](Self::TotalOrder), but `-0.0` and `0.0` are the same value. This is DataFusion's rule.
    TotalOrderZeroEqual,
    /// Every NaN is equal to every other and greater than all else; `-0.0` and `0.0` are the same value.
    NanLargest,
    /// IEEE 754: comparisons with NaN are false, but `<>` and IS DISTINCT FROM are true; `-0.0 = 0.0`.
    Ieee,
}

impl FloatRule {
    /// Every rule, in wire order.
    pub const ALL: [FloatRule; 4] = [
        FloatRule::TotalOrder,
        FloatRule::TotalOrderZeroEqual,
        FloatRule::NanLargest,
        FloatRule::Ieee,
    ];
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
    /// `IS DISTINCT FROM`: never null, and null is not distinct from null.
    IsDistinctFrom,
    /// `IS NOT DISTINCT FROM`: never null, and null is not distinct from null.
    IsNotDistinctFrom,
}

impl CompareOp {
    /// Every operator, in wire order.
    pub const ALL: [CompareOp; 8] = [
        CompareOp::Eq,
        CompareOp::NotEq,
        CompareOp::Lt,
        CompareOp::LtEq,
        CompareOp::Gt,
        CompareOp::GtEq,
        CompareOp::IsDistinctFrom,
        CompareOp::IsNotDistinctFrom,
    ];

    /// The operator as SQL writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            CompareOp::Eq => "=",
            CompareOp::NotEq => "<>",
            CompareOp::Lt => "<",
            CompareOp::LtEq => "<=",
            CompareOp::Gt => ">",
            CompareOp::GtEq => ">=",
            CompareOp::IsDistinctFrom => "IS DISTINCT FROM",
            CompareOp::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
        }
    }
}

/// An arithmetic operator. Integers are computed within their common type; overflow and division by zero are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; integers are cut towards zero.
    Divide,
    /// `%`; the remainder has the sign of the dividend.
    Modulo,
}

impl ArithmeticOp {
    /// Every operator, in wire order.
    pub const ALL: [ArithmeticOp; 5] = [
        ArithmeticOp::Add,
        ArithmeticOp::Subtract,
        ArithmeticOp::Multiply,
        ArithmeticOp::Divide,
        ArithmeticOp::Modulo,
    ];

    /// The operator as SQL writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Subtract => "-",
            ArithmeticOp::Multiply => "*",
            ArithmeticOp::Divide => "/",
            ArithmeticOp::Modulo => "%",
        }
    }
}

/// A match of plain text, without wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StringMatchOp {
    /// The operand starts with the text.
    StartsWith,
    /// The operand ends with the text.
    EndsWith,
    /// The text occurs in the operand.
    Contains,
}

impl StringMatchOp {
    /// Every operator, in wire order.
    pub const ALL: [StringMatchOp; 3] = [
        StringMatchOp::StartsWith,
        StringMatchOp::EndsWith,
        StringMatchOp::Contains,
    ];

    /// The operator as a function name.
    pub fn as_str(self) -> &'static str {
        match self {
            StringMatchOp::StartsWith => "starts_with",
            StringMatchOp::EndsWith => "ends_with",
            StringMatchOp::Contains => "contains",
        }
    }
}

/// One value of an exact Arrow type, possibly null.
#[derive(Debug, Clone)]
pub struct Literal(ArrayRef);

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Literal {
    /// The only value of `array`.
    ///
    /// Fails with `invalid_argument` unless the array has exactly one value.
    pub fn try_new(array: ArrayRef) -> Result<Self> {
        if array.len() != 1 {
            return Err(Error::invalid_argument(format!(
                "a literal has one value, not {}",
                array.len()
            )));
        }
        Ok(Self(array))
    }

    /// The array of one value.
    pub fn array(&self) -> &ArrayRef {
        &self.0
    }

    /// The exact Arrow type of the value.
    pub fn data_type(&self) -> &DataType {
        self.0.data_type()
    }

    /// Whether the value is null, in a dictionary's values too.
    pub fn is_null(&self) -> bool {
        self.0
            .logical_nulls()
            .is_some_and(|nulls| nulls.null_count() > 0)
    }
}

/// The values of an IN list. What is prepared for looking values up is kept and shared by clones.
#[derive(Clone)]
pub struct ValueList {
    values: ArrayRef,
    pub(super) members: Arc<OnceLock<Members>>,
}

impl ValueList {
    /// A list of these values, in which null may occur.
    pub fn new(values: ArrayRef) -> Self {
        Self {
            values,
            members: Arc::default(),
        }
    }

    /// The values, in the order given.
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }
}

impl std::fmt::Debug for ValueList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.values.fmt(f)
    }
}

impl PartialEq for ValueList {
    fn eq(&self, other: &Self) -> bool {
        *self.values == *other.values
    }
}

/// A node of a filter, under SQL's three-valued logic.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A column, as a path from the top-level field down through struct fields. Names match exactly.
    Column(Vec<String>),
    /// A constant.
    Literal(Literal),
    /// A comparison of two values of one family of types.
    Compare {
        /// How the two compare.
        op: CompareOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// True where every operand is true; without operands true.
    And(Vec<Expr>),
    /// True where any operand is true; without operands false.
    Or(Vec<Expr>),
    /// Negation; null stays null.
    Not(Box<Expr>),
    /// True where the operand is null, else false.
    IsNull(Box<Expr>),
    /// False where the operand is null, else true.
    IsNotNull(Box<Expr>),
    /// Whether the operand is among the values: null where it is null, or where it is not found and null is among them.
    /// Nothing, null included, is in an empty list.
    InList {
        /// What is looked up.
        operand: Box<Expr>,
        /// Where it is looked up.
        list: ValueList,
        /// NOT IN.
        negated: bool,
    },
    /// `low <= operand AND operand <= high`.
    Between {
        /// What is bounded.
        operand: Box<Expr>,
        /// The least value that passes.
        low: Box<Expr>,
        /// The greatest value that passes.
        high: Box<Expr>,
        /// NOT BETWEEN.
        negated: bool,
    },
    /// SQL LIKE with `\` as its escape character.
    Like {
        /// The text.
        operand: Box<Expr>,
        /// The pattern: `%` is any text, `_` any one character.
        pattern: Box<Expr>,
        /// ILIKE.
        case_insensitive: bool,
        /// NOT LIKE.
        negated: bool,
    },
    /// A match of plain text.
    StringMatch {
        /// Where the text must occur.
        op: StringMatchOp,
        /// The text that is searched.
        operand: Box<Expr>,
        /// The text that is looked for.
        text: Box<Expr>,
    },
    /// Whether a floating-point value is NaN; null where it is null.
    IsNan(Box<Expr>),
    /// A cast that cannot lose a value.
    Cast {
        /// What is cast.
        operand: Box<Expr>,
        /// The type it is cast to.
        data_type: DataType,
    },
    /// Arithmetic on numbers.
    Arithmetic {
        /// What is computed.
        op: ArithmeticOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// A node that this version does not know. Its conjunct is unsupported.
    Unknown,
}

impl Expr {
    /// A top-level column.
    pub fn column(name: impl Into<String>) -> Self {
        Expr::Column(vec![name.into()])
    }

    /// The only value of `array`; fails unless there is exactly one.
    pub fn literal(array: ArrayRef) -> Result<Self> {
        Literal::try_new(array).map(Expr::Literal)
    }

    /// `left op right`
    pub fn compare(op: CompareOp, left: Expr, right: Expr) -> Self {
        Expr::Compare {
            op,
            left: Box::new(left),
            right: Box::new(right),
        }
    }

    /// `left op right`
    pub fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr) -> Self {
        Expr::Arithmetic {
            op,
            left: Box::new(left),
            right: Box::new(right),
        }
    }

    /// `operand [NOT] IN (values)`
    pub fn in_list(operand: Expr, values: ArrayRef, negated: bool) -> Self {
        Expr::InList {
            operand: Box::new(operand),
            list: ValueList::new(values),
            negated,
        }
    }

    /// Both, without nesting one AND in another: chains of them stay shallow.
    #[must_use]
    pub fn and(self, other: Expr) -> Self {
        Expr::And(chain(self, other, |expr| match expr {
            Expr::And(operands) => Ok(operands),
            other => Err(other),
        }))
    }

    /// Either, without nesting one OR in another: chains of them stay shallow.
    #[must_use]
    pub fn or(self, other: Expr) -> Self {
        Expr::Or(chain(self, other, |expr| match expr {
            Expr::Or(operands) => Ok(operands),
            other => Err(other),
        }))
    }

    /// The conjuncts of the expression: the operands of nested ANDs, else itself.
    pub fn into_conjuncts(self) -> Vec<Expr> {
        let mut conjuncts = Vec::new();
        let mut rest = vec![self];
        while let Some(expr) = rest.pop() {
            match expr {
                Expr::And(operands) => rest.extend(operands.into_iter().rev()),
                other => conjuncts.push(other),
            }
        }
        conjuncts
    }

    /// The paths of all columns that the expression reads, in no order, as often as they stand there.
    pub fn columns(&self) -> impl Iterator<Item = &[String]> {
        let mut rest = vec![self];
        std::iter::from_fn(move || {
            while let Some(expr) = rest.pop() {
                rest.extend(expr.children());
                if let Expr::Column(path) = expr {
                    return Some(path.as_slice());
                }
            }
            None
        })
    }

    /// The nodes right below this one.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) | Expr::Unknown => Vec::new(),
            Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
                vec![left, right]
            }
            Expr::And(operands) | Expr::Or(operands) => operands.iter().collect(),
            Expr::Not(operand)
            | Expr::IsNull(operand)
            | Expr::IsNotNull(operand)
            | Expr::IsNan(operand) => {
                vec![operand]
            }
            Expr::InList { operand, .. } | Expr::Cast { operand, .. } => vec![operand],
            Expr::Between {
                operand, low, high, ..
            } => vec![operand, low, high],
            Expr::Like {
                operand, pattern, ..
            } => vec![operand, pattern],
            Expr::StringMatch { operand, text, .. } => vec![operand, text],
        }
    }

    /// Whether the tree has at most `levels` levels. Walks without recursion, so any tree may be asked.
    pub(super) fn fits(&self, levels: usize) -> bool {
        let mut rest = vec![(self, 1)];
        while let Some((expr, level)) = rest.pop() {
            if level > levels {
                return false;
            }
            rest.extend(expr.children().into_iter().map(|child| (child, level + 1)));
        }
        true
    }
}

/// The operands of both sides, where `take` yields those of a side that is a chain already.
fn chain(left: Expr, right: Expr, take: impl Fn(Expr) -> Result<Vec<Expr>, Expr>) -> Vec<Expr> {
    let mut operands = take(left).unwrap_or_else(|other| vec![other]);
    match take(right) {
        Ok(more) => operands.extend(more),
        Err(other) => operands.push(other),
    }
    operands
}
