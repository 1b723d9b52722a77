//! Reads filters that people write: the part of SQL after WHERE.
//!
//! Refuses what it cannot express exactly, naming the part: no subqueries, no functions but the text matches and
//! `is_nan`, no casts that can lose a value, no constants rounded to fit a column.

mod constants;
mod reader;
mod types;

use arrow_schema::Schema;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::Filter;
use super::tree::{EVALUATION_DEPTH, FloatRule};
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
    let expr = reader::Reader::new(schema).condition(&parsed, EVALUATION_DEPTH)?;
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

fn unsupported(what: &str) -> Error {
    const SHOWN: usize = 200;
    let cut = what
        .char_indices()
        .nth(SHOWN)
        .map_or(what.len(), |(at, _)| at);
    let more = if cut < what.len() { "…" } else { "" };
    Error::invalid_argument(format!("filters do not know {}{more}", &what[..cut]))
}
