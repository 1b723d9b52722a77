//! Reads filters that people write: the part of SQL after WHERE.
//!
//! Refuses what it cannot express exactly, naming the part: no subqueries, no functions but the text matches and
//! `is_nan`, no casts that can lose a value, no constants rounded to fit a column.

mod constants;
mod types;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, NullArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::concat::concat;
use sqlparser::ast::{self, BinaryOperator, CastKind, UnaryOperator, Value, ValueWithSpan};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use self::constants::Constant;
use super::evaluate::data_type;
use super::tree::{ArithmeticOp, CompareOp, EVALUATION_DEPTH, Expr, FloatRule, StringMatchOp};
use super::{Filter, resolve};
use crate::{Error, Result};

/// Most operators in one clause: each can nest the syntax tree once more.
const OPERATORS: usize = 1_000;

/// Most bytes of one clause.
const CLAUSE_BYTES: usize = 16 << 20;

/// Reads a condition, as it stands after WHERE, over columns of `schema`.
///
/// Understood are comparisons, IS \[NOT\] DISTINCT FROM, AND, OR, NOT, IS \[NOT\] NULL, TRUE or FALSE, \[NOT\] IN,
/// BETWEEN, LIKE and ILIKE, `starts_with`, `ends_with`, `contains`, `is_nan`, `+ - * / %`, CAST and `::`, `DATE '…'`,
/// `TIMESTAMP '…'`, `X'…'` and struct fields as `column.field`. Conjuncts are split at AND.
///
/// A quoted name is a column's exact name; an unquoted one is that too, or else the only name that differs in case
/// alone. A constant takes the type of what it is compared with where that has its exact value.
///
/// # Errors
/// `invalid_argument` for syntax, types or columns that are wrong, saying which part and, for a column, which name may
/// have been meant; `resource_exhausted` for a clause that is too long or too deep.
///
/// ```
/// use arrow_schema::{DataType, Field, Schema};
/// use lightstream_core::protocol::filter::{FloatRule, sql};
///
/// let schema = Schema::new(vec![Field::new("day", DataType::Date32, true)]);
/// let filter = sql::parse("day >= '2024-02-29' AND Day IS NOT NULL", &schema, FloatRule::TotalOrderZeroEqual)?;
/// assert_eq!(filter.to_string(), "day >= DATE '2024-02-29' AND day IS NOT NULL");
///
/// let error = sql::parse("dya > '2024-01-01'", &schema, FloatRule::TotalOrderZeroEqual).unwrap_err();
/// assert_eq!(error.to_string(), "invalid_argument: no column \"dya\": did you mean \"day\"?");
/// # Ok::<(), lightstream_core::Error>(())
/// ```
pub fn parse(where_clause: &str, schema: &Schema, rule: FloatRule) -> Result<Filter> {
    if where_clause.len() > CLAUSE_BYTES {
        return Err(Error::resource_exhausted(format!(
            "a condition has more than {CLAUSE_BYTES} bytes"
        )));
    }
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, where_clause)
        .tokenize_with_location()
        .map_err(|error| Error::invalid_argument(format!("the condition is not SQL: {error}")))?;
    let operators = nesting_tokens(tokens.iter().map(|token| &token.token));
    if operators > OPERATORS {
        return Err(Error::resource_exhausted(format!(
            "a condition has {operators} operators, more than {OPERATORS}: use IN for long lists"
        )));
    }
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let parsed = parser
        .parse_expr()
        .map_err(|error| Error::invalid_argument(format!("the condition is not SQL: {error}")))?;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(Error::invalid_argument(format!(
            "the condition ends before {:?}",
            next.token.to_string()
        )));
    }
    let reader = Reader { schema };
    let expr = reader.condition(&parsed, EVALUATION_DEPTH)?;
    Ok(Filter::new(rule, expr))
}

/// How many tokens can each add a level to the syntax tree.
fn nesting_tokens<'a>(tokens: impl Iterator<Item = &'a Token>) -> usize {
    let mut count = 0;
    // A minus at the start of a value is a sign, as in long lists of negative numbers.
    let mut starts_value = true;
    for token in tokens {
        count += usize::from(match token {
            Token::Whitespace(_) => continue,
            Token::Minus => !starts_value,
            Token::Comma | Token::LParen | Token::RParen => false,
            Token::Number(..) | Token::SingleQuotedString(_) | Token::EOF => false,
            Token::Word(word) => {
                let words = ["AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "BETWEEN"];
                words
                    .iter()
                    .any(|operator| word.value.eq_ignore_ascii_case(operator))
            }
            _ => true,
        });
        starts_value = matches!(token, Token::Comma | Token::LParen);
    }
    count
}

/// Something of a type, or a constant that takes the type of what it meets.
enum Term {
    Typed(Expr, DataType),
    Constant(Constant),
}

struct Reader<'a> {
    schema: &'a Schema,
}

impl Reader<'_> {
    /// A condition, checked to be one.
    fn condition(&self, sql: &ast::Expr, levels: usize) -> Result<Expr> {
        match self.term(sql, levels)? {
            Term::Typed(expr, DataType::Boolean | DataType::Null) => Ok(expr),
            Term::Typed(expr, other) => Err(Error::invalid_argument(format!(
                "{expr} is {other}, not a condition"
            ))),
            Term::Constant(constant) => Err(Error::invalid_argument(format!(
                "{constant} is not a condition"
            ))),
        }
    }

    fn term(&self, sql: &ast::Expr, levels: usize) -> Result<Term> {
        let Some(levels) = levels.checked_sub(1) else {
            return Err(super::too_deep(EVALUATION_DEPTH));
        };
        match sql {
            ast::Expr::Nested(inner) => self.term(inner, levels),
            ast::Expr::Identifier(name) => self.column(std::slice::from_ref(name)),
            ast::Expr::CompoundIdentifier(path) => self.column(path),
            ast::Expr::Value(value) => constant(value),
            ast::Expr::TypedString(typed) => match &typed.value.value {
                Value::SingleQuotedString(text) => {
                    Ok(Term::Constant(Constant::typed(&typed.data_type, text)?))
                }
                other => Err(unsupported(&other.to_string())),
            },
            ast::Expr::UnaryOp { op, expr } => self.unary(*op, expr, levels),
            ast::Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => self.chain(left, right, true, levels),
            ast::Expr::BinaryOp {
                left,
                op: BinaryOperator::Or,
                right,
            } => self.chain(left, right, false, levels),
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right, levels),
            ast::Expr::IsDistinctFrom(left, right) => {
                self.distinct(CompareOp::IsDistinctFrom, left, right, levels)
            }
            ast::Expr::IsNotDistinctFrom(left, right) => {
                self.distinct(CompareOp::IsNotDistinctFrom, left, right, levels)
            }
            ast::Expr::IsNull(operand) => {
                self.checked(Expr::IsNull(Box::new(self.typed(operand, levels)?)))
            }
            ast::Expr::IsNotNull(operand) => {
                self.checked(Expr::IsNotNull(Box::new(self.typed(operand, levels)?)))
            }
            ast::Expr::IsTrue(operand) => {
                self.is_truth(operand, CompareOp::IsNotDistinctFrom, true, levels)
            }
            ast::Expr::IsFalse(operand) => {
                self.is_truth(operand, CompareOp::IsNotDistinctFrom, false, levels)
            }
            ast::Expr::IsNotTrue(operand) => {
                self.is_truth(operand, CompareOp::IsDistinctFrom, true, levels)
            }
            ast::Expr::IsNotFalse(operand) => {
                self.is_truth(operand, CompareOp::IsDistinctFrom, false, levels)
            }
            ast::Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated, levels),
            ast::Expr::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, low, high, *negated, levels),
            ast::Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                expr,
                pattern,
                escape_char.as_ref(),
                (false, *negated),
                levels,
            ),
            ast::Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                expr,
                pattern,
                escape_char.as_ref(),
                (true, *negated),
                levels,
            ),
            ast::Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => self.cast(expr, data_type, levels),
            ast::Expr::Function(function) => self.function(function, levels),
            other => Err(unsupported(&other.to_string())),
        }
    }

    fn column(&self, path: &[ast::Ident]) -> Result<Term> {
        let mut fields: &Fields = self.schema.fields();
        let mut names = Vec::with_capacity(path.len());
        for (i, ident) in path.iter().enumerate() {
            let field = find(ident, fields)?;
            names.push(field.name().clone());
            match field.data_type() {
                DataType::Struct(below) => fields = below,
                other if i + 1 < path.len() => {
                    return Err(Error::invalid_argument(format!(
                        "{:?} has no fields: it is {other}",
                        field.name()
                    )));
                }
                _ => {}
            }
        }
        self.checked(Expr::Column(names))
    }

    fn unary(&self, op: UnaryOperator, operand: &ast::Expr, levels: usize) -> Result<Term> {
        match op {
            UnaryOperator::Not => {
                self.checked(Expr::Not(Box::new(self.condition(operand, levels)?)))
            }
            UnaryOperator::Plus => self.term(operand, levels),
            UnaryOperator::Minus => match self.term(operand, levels)? {
                Term::Constant(Constant::Number(number)) => {
                    Ok(Term::Constant(Constant::Number(number.negated())))
                }
                Term::Constant(other) => {
                    Err(Error::invalid_argument(format!("{other} is not a number")))
                }
                Term::Typed(expr, data_type) => {
                    let zero = Constant::number("0")?.meet(&data_type)?;
                    self.checked(Expr::arithmetic(
                        ArithmeticOp::Subtract,
                        Expr::literal(zero)?,
                        expr,
                    ))
                }
            },
            other => Err(unsupported(&format!("the operator {other}"))),
        }
    }

    /// A chain of ANDs or ORs, which leans to the left, without nesting.
    fn chain(&self, left: &ast::Expr, right: &ast::Expr, all: bool, levels: usize) -> Result<Term> {
        let mut operands = vec![right];
        let mut rest = left;
        loop {
            match rest {
                ast::Expr::BinaryOp {
                    left,
                    op: BinaryOperator::And,
                    right,
                } if all => {
                    operands.push(right);
                    rest = left;
                }
                ast::Expr::BinaryOp {
                    left,
                    op: BinaryOperator::Or,
                    right,
                } if !all => {
                    operands.push(right);
                    rest = left;
                }
                first => {
                    operands.push(first);
                    break;
                }
            }
        }
        let mut whole: Option<Expr> = None;
        for operand in operands.into_iter().rev() {
            let operand = self.condition(operand, levels)?;
            whole = Some(match whole {
                None => operand,
                Some(whole) if all => whole.and(operand),
                Some(whole) => whole.or(operand),
            });
        }
        Ok(Term::Typed(
            whole.unwrap_or(Expr::And(Vec::new())),
            DataType::Boolean,
        ))
    }

    fn binary(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        levels: usize,
    ) -> Result<Term> {
        let compare = match op {
            BinaryOperator::Eq => CompareOp::Eq,
            BinaryOperator::NotEq => CompareOp::NotEq,
            BinaryOperator::Lt => CompareOp::Lt,
            BinaryOperator::LtEq => CompareOp::LtEq,
            BinaryOperator::Gt => CompareOp::Gt,
            BinaryOperator::GtEq => CompareOp::GtEq,
            arithmetic => {
                let op = match arithmetic {
                    BinaryOperator::Plus => ArithmeticOp::Add,
                    BinaryOperator::Minus => ArithmeticOp::Subtract,
                    BinaryOperator::Multiply => ArithmeticOp::Multiply,
                    BinaryOperator::Divide => ArithmeticOp::Divide,
                    BinaryOperator::Modulo => ArithmeticOp::Modulo,
                    other => return Err(unsupported(&format!("the operator {other}"))),
                };
                let (left, right) = self.meet(left, right, levels)?;
                return self.checked(Expr::arithmetic(op, left, right));
            }
        };
        self.compare(compare, left, right, levels)
    }

    fn compare(
        &self,
        op: CompareOp,
        left: &ast::Expr,
        right: &ast::Expr,
        levels: usize,
    ) -> Result<Term> {
        let (left, right) = self.meet(left, right, levels)?;
        self.checked(Expr::compare(op, left, right))
    }

    /// The parser takes everything behind IS DISTINCT FROM for its right side, conditions that follow included.
    fn distinct(
        &self,
        op: CompareOp,
        left: &ast::Expr,
        right: &ast::Expr,
        levels: usize,
    ) -> Result<Term> {
        let is_value = match right {
            ast::Expr::BinaryOp { op, .. } => matches!(
                op,
                BinaryOperator::Plus
                    | BinaryOperator::Minus
                    | BinaryOperator::Multiply
                    | BinaryOperator::Divide
                    | BinaryOperator::Modulo
            ),
            right => matches!(
                right,
                ast::Expr::Identifier(_)
                    | ast::Expr::CompoundIdentifier(_)
                    | ast::Expr::Value(_)
                    | ast::Expr::TypedString(_)
                    | ast::Expr::Nested(_)
                    | ast::Expr::Cast { .. }
                    | ast::Expr::Function(_)
                    | ast::Expr::UnaryOp {
                        op: UnaryOperator::Minus | UnaryOperator::Plus,
                        ..
                    }
            ),
        };
        if !is_value {
            return Err(Error::invalid_argument(format!(
                "a comparison by {} stands in parentheses where a condition follows",
                op.as_str()
            )));
        }
        self.compare(op, left, right, levels)
    }

    fn is_truth(
        &self,
        operand: &ast::Expr,
        op: CompareOp,
        wanted: bool,
        levels: usize,
    ) -> Result<Term> {
        let operand = self.condition(operand, levels)?;
        let wanted = Expr::literal(Arc::new(BooleanArray::from(vec![wanted])))?;
        self.checked(Expr::compare(op, operand, wanted))
    }

    fn in_list(
        &self,
        operand: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        levels: usize,
    ) -> Result<Term> {
        let (operand, operand_type) = match self.term(operand, levels)? {
            Term::Typed(expr, data_type) => (expr, data_type),
            Term::Constant(constant) => {
                let value = constant.alone()?;
                let data_type = value.data_type().clone();
                (Expr::literal(value)?, data_type)
            }
        };
        let value_type = super::coerce::value_type(&operand_type);
        let mut values: Vec<ArrayRef> = Vec::with_capacity(list.len());
        let mut others = Vec::new();
        let equal = |other| Expr::compare(CompareOp::Eq, operand.clone(), other);
        // A number that the operand's type does not hold is equal to none of its values: one such stands for all.
        let mut absent = None;
        for item in list {
            match self.term(item, levels)? {
                Term::Constant(constant) => match constant.fit(value_type)? {
                    Some(value) if value.data_type() == value_type => values.push(value),
                    Some(value) => others.push(equal(Expr::literal(value)?)),
                    None => absent = Some(constant),
                },
                Term::Typed(Expr::Literal(literal), DataType::Null) if literal.is_null() => {
                    values.push(arrow_array::new_null_array(value_type, 1));
                }
                Term::Typed(Expr::Literal(literal), item) if item == *value_type => {
                    values.push(Arc::clone(literal.array()));
                }
                Term::Typed(expr, _) => others.push(equal(expr)),
            }
        }
        if let Some(absent) = absent.filter(|_| values.is_empty() && others.is_empty()) {
            others.push(equal(Expr::literal(absent.meet(value_type)?)?));
        }
        let listed = match values.as_slice() {
            [] => None,
            values => {
                let values: Vec<_> = values.iter().map(|value| value.as_ref()).collect();
                Some(concat(&values).map_err(super::arrow_error)?)
            }
        };
        match listed {
            Some(values) if others.is_empty() => {
                self.checked(Expr::in_list(operand, values, negated))
            }
            listed => {
                let listed = listed.map(|values| Expr::in_list(operand, values, false));
                let any = Expr::Or(listed.into_iter().chain(others).collect());
                self.checked(if negated {
                    Expr::Not(Box::new(any))
                } else {
                    any
                })
            }
        }
    }

    fn between(
        &self,
        operand: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
        levels: usize,
    ) -> Result<Term> {
        let (operand_low, low) = self.meet(operand, low, levels)?;
        let (operand_high, high) = self.meet(operand, high, levels)?;
        let (operand, low, high) = if operand_low == operand_high {
            (operand_low, low, high)
        } else {
            // Constants within bounds of different types.
            let above = Expr::compare(CompareOp::GtEq, operand_low, low);
            let both = above.and(Expr::compare(CompareOp::LtEq, operand_high, high));
            return self.checked(if negated {
                Expr::Not(Box::new(both))
            } else {
                both
            });
        };
        self.checked(Expr::Between {
            operand: Box::new(operand),
            low: Box::new(low),
            high: Box::new(high),
            negated,
        })
    }

    fn like(
        &self,
        operand: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ValueWithSpan>,
        (case_insensitive, negated): (bool, bool),
        levels: usize,
    ) -> Result<Term> {
        let is_backslash = |escape: &ValueWithSpan| matches!(&escape.value, Value::SingleQuotedString(text) if text == "\\");
        if escape.is_some_and(|escape| !is_backslash(escape)) {
            return Err(unsupported("an ESCAPE other than '\\'"));
        }
        let (operand, pattern) = self.meet(operand, pattern, levels)?;
        self.checked(Expr::Like {
            operand: Box::new(operand),
            pattern: Box::new(pattern),
            case_insensitive,
            negated,
        })
    }

    fn cast(&self, operand: &ast::Expr, to: &ast::DataType, levels: usize) -> Result<Term> {
        let to = types::arrow_type(to)?;
        match self.term(operand, levels)? {
            Term::Constant(constant) => match constant.fit(&to)? {
                Some(value) => self.checked(Expr::literal(value)?),
                None => Err(Error::invalid_argument(format!(
                    "{constant} is not a value of {to}"
                ))),
            },
            Term::Typed(expr, _) => self.checked(Expr::Cast {
                operand: Box::new(expr),
                data_type: to,
            }),
        }
    }

    fn function(&self, function: &ast::Function, levels: usize) -> Result<Term> {
        let name = function.name.to_string().to_ascii_lowercase();
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(unsupported(&format!("{name} without arguments")));
        };
        let mut arguments = Vec::new();
        for argument in &list.args {
            match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => arguments.push(expr),
                _ => return Err(unsupported(&format!("an argument of {name}"))),
            }
        }
        let op = match (name.as_str(), arguments.as_slice()) {
            ("is_nan" | "isnan", [operand]) => {
                return self.checked(Expr::IsNan(Box::new(self.typed(operand, levels)?)));
            }
            ("starts_with", [_, _]) => StringMatchOp::StartsWith,
            ("ends_with", [_, _]) => StringMatchOp::EndsWith,
            ("contains", [_, _]) => StringMatchOp::Contains,
            (_, arguments) => {
                return Err(unsupported(&format!(
                    "the function {name} of {} arguments",
                    arguments.len()
                )));
            }
        };
        let (operand, text) = self.meet(arguments[0], arguments[1], levels)?;
        self.checked(Expr::StringMatch {
            op,
            operand: Box::new(operand),
            text: Box::new(text),
        })
    }

    /// Both sides, of which constants have taken the type of the other.
    fn meet(&self, left: &ast::Expr, right: &ast::Expr, levels: usize) -> Result<(Expr, Expr)> {
        Ok(
            match (self.term(left, levels)?, self.term(right, levels)?) {
                (Term::Typed(left, _), Term::Typed(right, _)) => (left, right),
                (Term::Typed(left, data_type), Term::Constant(right)) => {
                    (left, Expr::literal(right.meet(&data_type)?)?)
                }
                (Term::Constant(left), Term::Typed(right, data_type)) => {
                    (Expr::literal(left.meet(&data_type)?)?, right)
                }
                (Term::Constant(left), Term::Constant(right)) => {
                    let left = left.alone()?;
                    let right = right.meet(left.data_type())?;
                    (Expr::literal(left)?, Expr::literal(right)?)
                }
            },
        )
    }

    fn typed(&self, sql: &ast::Expr, levels: usize) -> Result<Expr> {
        match self.term(sql, levels)? {
            Term::Typed(expr, _) => Ok(expr),
            Term::Constant(constant) => Expr::literal(constant.alone()?),
        }
    }

    /// Says what type the expression has, failing where it has none.
    fn checked(&self, expr: Expr) -> Result<Term> {
        let data_type = data_type(&expr, self.schema)
            .map_err(|error| error.context(format_args!("in {expr}")))?;
        Ok(Term::Typed(expr, data_type))
    }
}

/// The field that an identifier names: exactly, or, unquoted, but for case.
fn find<'a>(ident: &ast::Ident, fields: &'a Fields) -> Result<&'a Field> {
    let mut exact = fields.iter().filter(|field| *field.name() == ident.value);
    match (exact.next(), exact.next()) {
        (Some(field), None) => return Ok(field),
        (Some(_), Some(_)) => {
            return Err(Error::invalid_argument(format!(
                "column {:?} is ambiguous: several bear its name",
                ident.value
            )));
        }
        (None, _) => {}
    }
    let lower = ident.value.to_lowercase();
    let mut alike = fields
        .iter()
        .filter(|field| ident.quote_style.is_none() && field.name().to_lowercase() == lower);
    match (alike.next(), alike.next()) {
        (Some(field), None) => Ok(field),
        (Some(one), Some(other)) => Err(Error::invalid_argument(format!(
            "column {:?} is ambiguous: {:?} or {:?}?",
            ident.value,
            one.name(),
            other.name()
        ))),
        (None, _) => Err(resolve::missing(&ident.value, fields)),
    }
}

fn constant(value: &ValueWithSpan) -> Result<Term> {
    let literal = |array: ArrayRef| {
        let data_type = array.data_type().clone();
        Ok(Term::Typed(Expr::literal(array)?, data_type))
    };
    match &value.value {
        Value::Number(text, _) => Ok(Term::Constant(Constant::number(text)?)),
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
            Ok(Term::Constant(Constant::Text(text.clone())))
        }
        Value::HexStringLiteral(text) => Ok(Term::Constant(Constant::hex(text)?)),
        Value::Boolean(value) => literal(Arc::new(BooleanArray::from(vec![*value]))),
        Value::Null => literal(Arc::new(NullArray::new(1))),
        other => Err(unsupported(&other.to_string())),
    }
}

fn unsupported(what: &str) -> Error {
    const SHOWN: usize = 200;
    let cut = what
        .char_indices()
        .nth(SHOWN)
        .map_or(what.len(), |(at, _)| at);
    let more = if cut < what.len() { "…" } else { "" };
    Error::invalid_argument(format!("filters do not know {}{more}", &what[..cut]))
}
