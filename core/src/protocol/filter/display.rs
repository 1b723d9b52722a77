//! Renders filters as text close to SQL, for EXPLAIN and error messages. Not for parsing back.

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

use super::Filter;
use super::coerce::{value_type, with_zone};
use super::tree::{EVALUATION_DEPTH, Expr, Literal};

/// Most values of an IN list that are shown.
const SHOWN_VALUES: usize = 10;

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_chain(
            f,
            &self.conjuncts,
            " AND ",
            Strength::And,
            "true",
            EVALUATION_DEPTH,
        )
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, Strength::Or, EVALUATION_DEPTH)
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self.array(), 0)
    }
}

/// How strongly an operator binds; what binds less strongly than its surroundings ask stands in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Or,
    And,
    Not,
    Compare,
    Sum,
    Product,
    Primary,
}

fn strength(expr: &Expr) -> Strength {
    use super::tree::ArithmeticOp::*;
    match expr {
        Expr::Or(operands) if operands.len() > 1 => Strength::Or,
        Expr::And(operands) if operands.len() > 1 => Strength::And,
        Expr::Or(operands) | Expr::And(operands) => {
            operands.first().map_or(Strength::Primary, strength)
        }
        Expr::Not(_) => Strength::Not,
        Expr::Arithmetic {
            op: Add | Subtract, ..
        } => Strength::Sum,
        Expr::Arithmetic { .. } => Strength::Product,
        Expr::Column(_)
        | Expr::Literal(_)
        | Expr::Cast { .. }
        | Expr::IsNan(_)
        | Expr::StringMatch { .. }
        | Expr::Unknown => Strength::Primary,
        _ => Strength::Compare,
    }
}

fn write(f: &mut fmt::Formatter<'_>, expr: &Expr, asked: Strength, levels: usize) -> fmt::Result {
    let Some(levels) = levels.checked_sub(1) else {
        return f.write_str("…");
    };
    let own = strength(expr);
    if own < asked {
        f.write_str("(")?;
        write_bare(f, expr, levels)?;
        return f.write_str(")");
    }
    write_bare(f, expr, levels)
}

fn write_bare(f: &mut fmt::Formatter<'_>, expr: &Expr, levels: usize) -> fmt::Result {
    let not = |negated: &bool| if *negated { "NOT " } else { "" };
    match expr {
        Expr::Column(path) => {
            for (i, name) in path.iter().enumerate() {
                if i > 0 {
                    f.write_str(".")?;
                }
                write_name(f, name)?;
            }
            Ok(())
        }
        Expr::Literal(literal) => write_value(f, literal.array(), 0),
        Expr::Compare { op, left, right } => {
            write(f, left, Strength::Sum, levels)?;
            write!(f, " {} ", op.as_str())?;
            write(f, right, Strength::Sum, levels)
        }
        Expr::And(operands) => write_chain(f, operands, " AND ", Strength::And, "true", levels),
        Expr::Or(operands) => write_chain(f, operands, " OR ", Strength::Or, "false", levels),
        Expr::Not(operand) => {
            f.write_str("NOT ")?;
            write(f, operand, Strength::Not, levels)
        }
        Expr::IsNull(operand) => {
            write(f, operand, Strength::Sum, levels)?;
            f.write_str(" IS NULL")
        }
        Expr::IsNotNull(operand) => {
            write(f, operand, Strength::Sum, levels)?;
            f.write_str(" IS NOT NULL")
        }
        Expr::InList {
            operand,
            list,
            negated,
        } => {
            write(f, operand, Strength::Sum, levels)?;
            write!(f, " {}IN ", not(negated))?;
            write_list(f, list.values())
        }
        Expr::Between {
            operand,
            low,
            high,
            negated,
        } => {
            write(f, operand, Strength::Sum, levels)?;
            write!(f, " {}BETWEEN ", not(negated))?;
            write(f, low, Strength::Sum, levels)?;
            f.write_str(" AND ")?;
            write(f, high, Strength::Sum, levels)
        }
        Expr::Like {
            operand,
            pattern,
            case_insensitive,
            negated,
        } => {
            write(f, operand, Strength::Sum, levels)?;
            write!(
                f,
                " {}{} ",
                not(negated),
                if *case_insensitive { "ILIKE" } else { "LIKE" }
            )?;
            write(f, pattern, Strength::Sum, levels)
        }
        Expr::StringMatch { op, operand, text } => {
            write!(f, "{}(", op.as_str())?;
            write(f, operand, Strength::Or, levels)?;
            f.write_str(", ")?;
            write(f, text, Strength::Or, levels)?;
            f.write_str(")")
        }
        Expr::IsNan(operand) => {
            f.write_str("is_nan(")?;
            write(f, operand, Strength::Or, levels)?;
            f.write_str(")")
        }
        Expr::Cast { operand, data_type } => {
            f.write_str("CAST(")?;
            write(f, operand, Strength::Or, levels)?;
            write!(f, " AS {data_type})")
        }
        Expr::Arithmetic { op, left, right } => {
            let own = strength(expr);
            let above = if own == Strength::Sum {
                Strength::Product
            } else {
                Strength::Primary
            };
            write(f, left, own, levels)?;
            write!(f, " {} ", op.as_str())?;
            write(f, right, above, levels)
        }
        Expr::Unknown => f.write_str("<unknown>"),
    }
}

fn write_chain(
    f: &mut fmt::Formatter<'_>,
    operands: &[Expr],
    between: &str,
    own: Strength,
    empty: &str,
    levels: usize,
) -> fmt::Result {
    match operands {
        [] => f.write_str(empty),
        [only] => write(f, only, Strength::Or, levels),
        operands => {
            let above = if own == Strength::Or {
                Strength::And
            } else {
                Strength::Not
            };
            for (i, operand) in operands.iter().enumerate() {
                if i > 0 {
                    f.write_str(between)?;
                }
                write(f, operand, above, levels)?;
            }
            Ok(())
        }
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let plain = name
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain {
        f.write_str(name)
    } else {
        write!(f, "\"{}\"", name.replace('"', "\"\""))
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, values: &ArrayRef) -> fmt::Result {
    f.write_str("(")?;
    for i in 0..values.len().min(SHOWN_VALUES) {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_value(f, values, i)?;
    }
    if values.len() > SHOWN_VALUES {
        write!(f, ", … {} more", values.len() - SHOWN_VALUES)?;
    }
    f.write_str(")")
}

fn write_value(f: &mut fmt::Formatter<'_>, values: &ArrayRef, i: usize) -> fmt::Result {
    if let DataType::Timestamp(_, Some(_)) = values.data_type() {
        // Named zones need a database that may not be built in: every instant is shown in UTC.
        let utc = Some(Arc::from("+00:00"));
        let value = with_zone(&values.slice(i, 1), utc.as_ref());
        return write_plain(f, &value, 0);
    }
    write_plain(f, values, i)
}

fn write_plain(f: &mut fmt::Formatter<'_>, values: &ArrayRef, i: usize) -> fmt::Result {
    let options = FormatOptions::default()
        .with_null("NULL")
        .with_display_error(true);
    let Ok(formatter) = ArrayFormatter::try_new(values.as_ref(), &options) else {
        return f.write_str("<value>");
    };
    let is_null = values.logical_nulls().is_some_and(|nulls| nulls.is_null(i));
    // Dates and times may lie beyond the calendar.
    let text = formatter.value(i).try_to_string();
    let text = text.unwrap_or_else(|_| "beyond the calendar".to_owned());
    let prefix = match value_type(values.data_type()) {
        _ if is_null => return f.write_str("NULL"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "",
        DataType::Date32 | DataType::Date64 => "DATE ",
        DataType::Timestamp(_, _) => "TIMESTAMP ",
        DataType::Time32(_) | DataType::Time64(_) => "TIME ",
        DataType::Duration(_) | DataType::Interval(_) => "INTERVAL ",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "X",
        _ => return f.write_str(&text),
    };
    write!(f, "{prefix}'{}'", text.replace('\'', "''"))
}
