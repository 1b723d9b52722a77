//! What a filter must answer, computed value by value and as plainly as can be.
//!
//! Shares no code with the evaluator: no kernels, no casts, no tables of types.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};

use crate::protocol::filter::{ArithmeticOp, CompareOp, Expr, FloatRule, StringMatchOp};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Arithmetic overflows or divides by zero in some row: evaluation must fail.
    Arithmetic,
    /// The reference does not define this.
    Undefined,
}

/// One value, apart from its representation.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer within an integer type.
    Integer(i128, DataType),
    /// Digits and how many of them stand after the point.
    Decimal(i256, i8),
    /// A float, widened, with its own width in bits.
    Float(f64, u32),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A point in time or a span, in nanoseconds, of a kind that compares only with itself.
    Nanoseconds(i128, &'static str),
    /// Something that is neither compared nor computed with.
    Opaque,
}

/// The answer for every row of a batch.
pub fn answers(
    expr: &Expr,
    batch: &RecordBatch,
    rule: FloatRule,
) -> Result<Vec<Option<bool>>, Failure> {
    (0..batch.num_rows())
        .map(|row| match (Row { batch, row, rule }).value(expr)? {
            Scalar::Null => Ok(None),
            Scalar::Bool(answer) => Ok(Some(answer)),
            _ => Err(Failure::Undefined),
        })
        .collect()
}

struct Row<'a> {
    batch: &'a RecordBatch,
    row: usize,
    rule: FloatRule,
}

impl Row<'_> {
    fn value(&self, expr: &Expr) -> Result<Scalar, Failure> {
        Ok(match expr {
            Expr::Column(path) => self.column(path)?,
            Expr::Literal(literal) => scalar(literal.array().as_ref(), 0),
            Expr::Compare { op, left, right } => {
                self.compare(*op, &self.value(left)?, &self.value(right)?)?
            }
            Expr::And(operands) => self.all(operands, false)?,
            Expr::Or(operands) => self.all(operands, true)?,
            Expr::Not(operand) => negate(self.value(operand)?, true),
            Expr::IsNull(operand) => Scalar::Bool(self.value(operand)? == Scalar::Null),
            Expr::IsNotNull(operand) => Scalar::Bool(self.value(operand)? != Scalar::Null),
            Expr::InList {
                operand,
                list,
                negated,
            } => {
                let operand = self.value(operand)?;
                let mut answer = Scalar::Bool(false);
                for i in 0..list.values().len() {
                    match self.compare(
                        CompareOp::Eq,
                        &operand,
                        &scalar(list.values().as_ref(), i),
                    )? {
                        Scalar::Bool(true) => {
                            answer = Scalar::Bool(true);
                            break;
                        }
                        Scalar::Null => answer = Scalar::Null,
                        _ => {}
                    }
                }
                // Whether null is in a list is not known, unless the list is empty.
                if operand == Scalar::Null && !list.values().is_empty() {
                    Scalar::Null
                } else {
                    negate(answer, *negated)
                }
            }
            Expr::Between {
                operand,
                low,
                high,
                negated,
            } => {
                let operand = self.value(operand)?;
                let above = self.compare(CompareOp::GtEq, &operand, &self.value(low)?)?;
                let below = self.compare(CompareOp::LtEq, &operand, &self.value(high)?)?;
                let both = match (above, below) {
                    (Scalar::Bool(false), _) | (_, Scalar::Bool(false)) => Scalar::Bool(false),
                    (Scalar::Null, _) | (_, Scalar::Null) => Scalar::Null,
                    _ => Scalar::Bool(true),
                };
                negate(both, *negated)
            }
            Expr::Like {
                operand,
                pattern,
                case_insensitive,
                negated,
            } => match (self.value(operand)?, self.value(pattern)?) {
                (Scalar::Null, _) | (_, Scalar::Null) => Scalar::Null,
                (Scalar::Text(text), Scalar::Text(pattern)) => {
                    let (text, pattern): (Vec<_>, Vec<_>) =
                        (text.chars().collect(), pattern.chars().collect());
                    Scalar::Bool(is_like(&text, &pattern, *case_insensitive) != *negated)
                }
                _ => return Err(Failure::Undefined),
            },
            Expr::StringMatch { op, operand, text } => {
                match (self.value(operand)?, self.value(text)?) {
                    (Scalar::Null, _) | (_, Scalar::Null) => Scalar::Null,
                    (Scalar::Text(operand), Scalar::Text(text)) => Scalar::Bool(match op {
                        StringMatchOp::StartsWith => operand.starts_with(&text),
                        StringMatchOp::EndsWith => operand.ends_with(&text),
                        StringMatchOp::Contains => operand.contains(&text),
                    }),
                    _ => return Err(Failure::Undefined),
                }
            }
            Expr::IsNan(operand) => match self.value(operand)? {
                Scalar::Null => Scalar::Null,
                Scalar::Float(value, _) => Scalar::Bool(value.is_nan()),
                _ => return Err(Failure::Undefined),
            },
            Expr::Cast { operand, data_type } => cast(self.value(operand)?, data_type)?,
            Expr::Arithmetic { op, left, right } => {
                arithmetic(*op, self.value(left)?, self.value(right)?, self.rule)?
            }
            Expr::Unknown => return Err(Failure::Undefined),
        })
    }

    fn column(&self, path: &[String]) -> Result<Scalar, Failure> {
        let (name, rest) = path.split_first().ok_or(Failure::Undefined)?;
        let mut array = self
            .batch
            .column_by_name(name)
            .ok_or(Failure::Undefined)?
            .clone();
        for name in rest {
            if array.is_null(self.row) {
                return Ok(Scalar::Null);
            }
            let child = array
                .as_struct_opt()
                .and_then(|fields| fields.column_by_name(name).cloned());
            array = child.ok_or(Failure::Undefined)?;
        }
        Ok(scalar(array.as_ref(), self.row))
    }

    /// OR where any `decisive` true decides, AND where any false does.
    fn all(&self, operands: &[Expr], decisive: bool) -> Result<Scalar, Failure> {
        let mut answer = Scalar::Bool(!decisive);
        for operand in operands {
            match self.value(operand)? {
                Scalar::Bool(value) if value == decisive => answer = Scalar::Bool(decisive),
                Scalar::Null if answer != Scalar::Bool(decisive) => answer = Scalar::Null,
                _ => {}
            }
        }
        Ok(answer)
    }

    fn compare(&self, op: CompareOp, left: &Scalar, right: &Scalar) -> Result<Scalar, Failure> {
        let distinct = match op {
            CompareOp::IsDistinctFrom => Some(true),
            CompareOp::IsNotDistinctFrom => Some(false),
            _ => None,
        };
        let ordering = match (left, right) {
            (Scalar::Null, Scalar::Null) => {
                return Ok(distinct.map_or(Scalar::Null, |wanted| Scalar::Bool(!wanted)));
            }
            (Scalar::Null, _) | (_, Scalar::Null) => {
                return Ok(distinct.map_or(Scalar::Null, Scalar::Bool));
            }
            (Scalar::Bool(a), Scalar::Bool(b)) => Some(a.cmp(b)),
            (Scalar::Text(a), Scalar::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => Some(a.cmp(b)),
            (Scalar::Nanoseconds(a, x), Scalar::Nanoseconds(b, y)) if x == y => Some(a.cmp(b)),
            (Scalar::Float(a, _), Scalar::Float(b, _)) => compare_floats(*a, *b, self.rule),
            (Scalar::Float(a, _), Scalar::Integer(b, _)) => {
                compare_floats(*a, *b as f64, self.rule)
            }
            (Scalar::Integer(a, _), Scalar::Float(b, _)) => {
                compare_floats(*a as f64, *b, self.rule)
            }
            (Scalar::Integer(a, _), Scalar::Integer(b, _)) => Some(a.cmp(b)),
            (
                Scalar::Integer(..) | Scalar::Decimal(..),
                Scalar::Integer(..) | Scalar::Decimal(..),
            ) => {
                let ((a, x), (b, y)) = (digits(left), digits(right));
                let scale = x.max(y);
                Some(shift(a, scale - x).cmp(&shift(b, scale - y)))
            }
            _ => return Err(Failure::Undefined),
        };
        // Only IEEE has values that do not order: they are unequal.
        Ok(Scalar::Bool(match op {
            CompareOp::Eq | CompareOp::IsNotDistinctFrom => ordering == Some(Ordering::Equal),
            CompareOp::NotEq | CompareOp::IsDistinctFrom => ordering != Some(Ordering::Equal),
            CompareOp::Lt => ordering == Some(Ordering::Less),
            CompareOp::LtEq => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            CompareOp::Gt => ordering == Some(Ordering::Greater),
            CompareOp::GtEq => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        }))
    }
}

/// The order of two floats under a rule; None where there is none.
pub fn compare_floats(a: f64, b: f64, rule: FloatRule) -> Option<Ordering> {
    match rule {
        FloatRule::TotalOrder => Some(a.total_cmp(&b)),
        FloatRule::TotalOrderZeroEqual if a == 0.0 && b == 0.0 => Some(Ordering::Equal),
        FloatRule::TotalOrderZeroEqual => Some(a.total_cmp(&b)),
        FloatRule::NanLargest => Some(match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a.partial_cmp(&b)?,
        }),
        FloatRule::Ieee => a.partial_cmp(&b),
    }
}

fn negate(value: Scalar, negated: bool) -> Scalar {
    match value {
        Scalar::Bool(value) => Scalar::Bool(value != negated),
        other => other,
    }
}

fn digits(value: &Scalar) -> (i256, i8) {
    match value {
        Scalar::Integer(value, _) => (i256::from_i128(*value), 0),
        Scalar::Decimal(value, scale) => (*value, *scale),
        other => panic!("{other:?} has no digits"),
    }
}

fn shift(value: i256, places: i8) -> i256 {
    (0..places).fold(value, |value, _| {
        value
            .checked_mul(i256::from_i128(10))
            .expect("fits 256 bits")
    })
}

/// LIKE, by trying every way to match.
fn is_like(text: &[char], pattern: &[char], case_insensitive: bool) -> bool {
    let same = |a: char, b: char| {
        a == b
            || case_insensitive
                && (a.to_lowercase().eq(b.to_lowercase()) || a.to_uppercase().eq(b.to_uppercase()))
    };
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => {
            (0..=text.len()).any(|skipped| is_like(&text[skipped..], rest, case_insensitive))
        }
        ['_', rest @ ..] => !text.is_empty() && is_like(&text[1..], rest, case_insensitive),
        ['\\', escaped, rest @ ..] | [escaped, rest @ ..] => {
            text.first().is_some_and(|c| same(*c, *escaped))
                && is_like(&text[1..], rest, case_insensitive)
        }
    }
}

fn cast(value: Scalar, to: &DataType) -> Result<Scalar, Failure> {
    let to = match to {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    Ok(match (value, to) {
        (Scalar::Null, _) => Scalar::Null,
        (Scalar::Integer(value, _), to) if to.is_integer() => Scalar::Integer(value, to.clone()),
        (Scalar::Integer(value, _), to) if to.is_floating() => {
            Scalar::Float(value as f64, float_bits(to))
        }
        (Scalar::Float(value, _), to) if to.is_floating() => Scalar::Float(value, float_bits(to)),
        (value @ (Scalar::Integer(..) | Scalar::Decimal(..)), DataType::Decimal32(_, s))
        | (value @ (Scalar::Integer(..) | Scalar::Decimal(..)), DataType::Decimal64(_, s))
        | (value @ (Scalar::Integer(..) | Scalar::Decimal(..)), DataType::Decimal128(_, s))
        | (value @ (Scalar::Integer(..) | Scalar::Decimal(..)), DataType::Decimal256(_, s)) => {
            let (digits, scale) = digits(&value);
            Scalar::Decimal(shift(digits, s - scale), *s)
        }
        (Scalar::Text(text), DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => {
            Scalar::Bytes(text.into_bytes())
        }
        (Scalar::Nanoseconds(value, "date"), DataType::Timestamp(_, None)) => {
            Scalar::Nanoseconds(value, "timestamp")
        }
        (value, _) => value,
    })
}

fn float_bits(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Float16 => 16,
        DataType::Float32 => 32,
        _ => 64,
    }
}

fn arithmetic(
    op: ArithmeticOp,
    left: Scalar,
    right: Scalar,
    rule: FloatRule,
) -> Result<Scalar, Failure> {
    use ArithmeticOp::*;
    match (left, right) {
        (Scalar::Null, _) | (_, Scalar::Null) => Ok(Scalar::Null),
        (Scalar::Integer(a, left), Scalar::Integer(b, right)) => {
            let common = common_integer(&left, &right);
            let answer = match op {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                Divide => a.checked_div(b),
                Modulo => a.checked_rem(b),
            };
            let (least, greatest) = bounds(&common);
            match answer.filter(|answer| (least..=greatest).contains(answer)) {
                Some(answer) => Ok(Scalar::Integer(answer, common)),
                None => Err(Failure::Arithmetic),
            }
        }
        (Scalar::Float(a, left), Scalar::Float(b, right)) => {
            let bits = left.max(right);
            let answer = float_arithmetic(op, a, b);
            // Within f64, one operation on narrower floats and one rounding give what those floats give.
            let answer = match bits {
                16 => <Float16Type as ArrowPrimitiveType>::Native::from_f64(answer).to_f64(),
                32 => f64::from(answer as f32),
                _ => answer,
            };
            // The sign of a NaN that arithmetic makes is up to the processor, and total order tells signs apart.
            if answer.is_nan()
                && matches!(rule, FloatRule::TotalOrder | FloatRule::TotalOrderZeroEqual)
            {
                return Err(Failure::Undefined);
            }
            Ok(Scalar::Float(answer, bits))
        }
        _ => Err(Failure::Undefined),
    }
}

fn float_arithmetic(op: ArithmeticOp, a: f64, b: f64) -> f64 {
    match op {
        ArithmeticOp::Add => a + b,
        ArithmeticOp::Subtract => a - b,
        ArithmeticOp::Multiply => a * b,
        ArithmeticOp::Divide => a / b,
        ArithmeticOp::Modulo => a % b,
    }
}

fn bounds(data_type: &DataType) -> (i128, i128) {
    match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        other => panic!("{other} is no integer type"),
    }
}

fn common_integer(left: &DataType, right: &DataType) -> DataType {
    let ((a, b), (c, d)) = (bounds(left), bounds(right));
    use DataType::*;
    [UInt8, Int8, UInt16, Int16, UInt32, Int32, UInt64, Int64]
        .into_iter()
        .find(|common| bounds(common).0 <= a.min(c) && b.max(d) <= bounds(common).1)
        .expect("a common type")
}

/// Reads one value of any array.
pub fn scalar(array: &dyn Array, i: usize) -> Scalar {
    use DataType::*;
    if array.is_null(i) || *array.data_type() == Null {
        return Scalar::Null;
    }
    macro_rules! value {
        ($type:ty) => {
            array.as_primitive::<$type>().value(i)
        };
    }
    let integer = |value: i128| Scalar::Integer(value, array.data_type().clone());
    match array.data_type() {
        Boolean => Scalar::Bool(array.as_boolean().value(i)),
        Int8 => integer(value!(Int8Type).into()),
        Int16 => integer(value!(Int16Type).into()),
        Int32 => integer(value!(Int32Type).into()),
        Int64 => integer(value!(Int64Type).into()),
        UInt8 => integer(value!(UInt8Type).into()),
        UInt16 => integer(value!(UInt16Type).into()),
        UInt32 => integer(value!(UInt32Type).into()),
        UInt64 => integer(value!(UInt64Type).into()),
        Float16 => Scalar::Float(value!(Float16Type).to_f64(), 16),
        Float32 => Scalar::Float(value!(Float32Type).into(), 32),
        Float64 => Scalar::Float(value!(Float64Type), 64),
        Decimal32(_, scale) => {
            Scalar::Decimal(i256::from_i128(value!(Decimal32Type).into()), *scale)
        }
        Decimal64(_, scale) => {
            Scalar::Decimal(i256::from_i128(value!(Decimal64Type).into()), *scale)
        }
        Decimal128(_, scale) => Scalar::Decimal(i256::from_i128(value!(Decimal128Type)), *scale),
        Decimal256(_, scale) => Scalar::Decimal(value!(Decimal256Type), *scale),
        Utf8 => Scalar::Text(array.as_string::<i32>().value(i).into()),
        LargeUtf8 => Scalar::Text(array.as_string::<i64>().value(i).into()),
        Utf8View => Scalar::Text(array.as_string_view().value(i).into()),
        Binary => Scalar::Bytes(array.as_binary::<i32>().value(i).into()),
        LargeBinary => Scalar::Bytes(array.as_binary::<i64>().value(i).into()),
        BinaryView => Scalar::Bytes(array.as_binary_view().value(i).into()),
        FixedSizeBinary(_) => Scalar::Bytes(array.as_fixed_size_binary().value(i).into()),
        Date32 => Scalar::Nanoseconds(i128::from(value!(Date32Type)) * 86_400_000_000_000, "date"),
        Date64 => Scalar::Nanoseconds(i128::from(value!(Date64Type)) * 1_000_000, "date"),
        Time32(TimeUnit::Second) => {
            Scalar::Nanoseconds(i128::from(value!(Time32SecondType)) * 1_000_000_000, "time")
        }
        Time32(_) => Scalar::Nanoseconds(
            i128::from(value!(Time32MillisecondType)) * 1_000_000,
            "time",
        ),
        Time64(TimeUnit::Microsecond) => {
            Scalar::Nanoseconds(i128::from(value!(Time64MicrosecondType)) * 1_000, "time")
        }
        Time64(_) => Scalar::Nanoseconds(value!(Time64NanosecondType).into(), "time"),
        Timestamp(unit, _) => {
            let (value, factor) = match unit {
                TimeUnit::Second => (value!(TimestampSecondType), 1_000_000_000),
                TimeUnit::Millisecond => (value!(TimestampMillisecondType), 1_000_000),
                TimeUnit::Microsecond => (value!(TimestampMicrosecondType), 1_000),
                TimeUnit::Nanosecond => (value!(TimestampNanosecondType), 1),
            };
            Scalar::Nanoseconds(i128::from(value) * factor, "timestamp")
        }
        Duration(unit) => {
            let (value, factor) = match unit {
                TimeUnit::Second => (value!(DurationSecondType), 1_000_000_000),
                TimeUnit::Millisecond => (value!(DurationMillisecondType), 1_000_000),
                TimeUnit::Microsecond => (value!(DurationMicrosecondType), 1_000),
                TimeUnit::Nanosecond => (value!(DurationNanosecondType), 1),
            };
            Scalar::Nanoseconds(i128::from(value) * factor, "duration")
        }
        Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            scalar(
                dictionary.values().as_ref(),
                dictionary.normalized_keys()[i],
            )
        }
        _ => Scalar::Opaque,
    }
}
