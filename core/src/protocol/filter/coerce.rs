//! Which types meet in a comparison, which casts keep every value, and how values are brought to one type.
//!
//! Nothing here rounds, truncates or turns a value that does not fit into null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, Decimal128Array, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, TimeUnit};

use super::exactness::Support;
use super::tree::ArithmeticOp;
use crate::{Error, Result};

/// Where two types meet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meeting {
    /// Both are brought to this type, dictionaries through their values.
    At(DataType),
    /// Timestamps of different units: both become counts of the finer unit, wide enough never to overflow.
    Ticks(TimeUnit),
}

/// The type of a dictionary's values, or the type itself.
pub(super) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Where two types meet in a comparison, and how far engines agree with the outcome. None where they do not meet.
pub(super) fn meeting(left: &DataType, right: &DataType) -> Option<(Meeting, Support)> {
    use DataType::*;
    let (left, right) = (value_type(left), value_type(right));
    let at = |data_type: DataType| Some((Meeting::At(data_type), Support::Exact));
    match (left, right) {
        (Null, Null) => None,
        (Null, other) | (other, Null) => {
            is_comparable(other).then(|| (Meeting::At(other.clone()), Support::Exact))
        }
        _ if left == right => {
            is_comparable(left).then(|| (Meeting::At(left.clone()), Support::Exact))
        }
        _ if is_text(left) && is_text(right) => at(Utf8View),
        (FixedSizeBinary(_), FixedSizeBinary(_)) => None,
        // DataFusion does not compare these.
        (FixedSizeBinary(_), LargeBinary) | (LargeBinary, FixedSizeBinary(_)) => {
            Some((Meeting::At(BinaryView), Support::Unsupported))
        }
        _ if is_bytes(left) && is_bytes(right) => at(BinaryView),
        (Date32, Date64) | (Date64, Date32) => at(Date64),
        (Timestamp(a, zone), Timestamp(b, other)) if zone == other => {
            // DataFusion cuts a finer constant to the column's unit, which finds other rows.
            Some((Meeting::Ticks(finer(*a, *b)), Support::Unsupported))
        }
        _ => number_meeting(left, right),
    }
}

fn number_meeting(left: &DataType, right: &DataType) -> Option<(Meeting, Support)> {
    use DataType::*;
    let at = |data_type, support| Some((Meeting::At(data_type), support));
    if let Some(integer) = common_integer(left, right) {
        return at(integer, Support::Exact);
    }
    if left.is_floating() || right.is_floating() {
        let common = [Float16, Float32, Float64]
            .into_iter()
            .find(|float| is_lossless(left, float) && is_lossless(right, float))?;
        // An engine may choose the narrower float and round the integer: then it answers otherwise.
        let support = if common == *left || common == *right {
            Support::Exact
        } else {
            Support::Unsupported
        };
        return at(common, support);
    }
    let ((p1, s1), (p2, s2)) = (as_decimal(left)?, as_decimal(right)?);
    let scale = s1.max(s2);
    let whole = (i32::from(p1) - i32::from(s1)).max(i32::from(p2) - i32::from(s2));
    let precision = u8::try_from(whole + i32::from(scale)).ok()?.max(1);
    let support = if meets_alike(left, right, precision) {
        Support::Exact
    } else {
        Support::Unsupported
    };
    let wide = matches!(left, Decimal256(_, _)) || matches!(right, Decimal256(_, _));
    match precision {
        ..=DECIMAL128_MAX_PRECISION if !wide => at(Decimal128(precision, scale), support),
        ..=DECIMAL256_MAX_PRECISION => at(Decimal256(precision, scale), support),
        _ => None,
    }
}

/// Whether engines bring two types of decimals, or integers and decimals, to a type that holds both. DataFusion casts
/// decimals of up to 64 bits to the integer's type instead, drops digits that 38 do not hold, and fails on negative
/// scales.
fn meets_alike(left: &DataType, right: &DataType, precision: u8) -> bool {
    use DataType::*;
    let either = |is: fn(&DataType) -> bool| is(left) || is(right);
    let integer = either(DataType::is_integer);
    let narrow = either(|data_type| matches!(data_type, Decimal32(_, _) | Decimal64(_, _)));
    let wide = either(|data_type| matches!(data_type, Decimal256(_, _)));
    let fits = wide || precision <= DECIMAL128_MAX_PRECISION;
    fits && !either(has_negative_scale) && !(integer && narrow)
}

pub(super) fn has_negative_scale(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            *scale < 0
        }
        _ => false,
    }
}

/// The type in which arithmetic on two types is done. None where it is not defined.
pub(super) fn arithmetic_meeting(
    op: ArithmeticOp,
    left: &DataType,
    right: &DataType,
) -> Option<(DataType, DataType)> {
    if matches!(left, DataType::Dictionary(_, _)) || matches!(right, DataType::Dictionary(_, _)) {
        return None;
    }
    if let Some(integer) = common_integer(left, right) {
        return Some((integer.clone(), integer));
    }
    if left.is_floating() || right.is_floating() {
        let Some((Meeting::At(float), Support::Exact)) = number_meeting_or_same(left, right) else {
            return None;
        };
        return Some((float.clone(), float));
    }
    // Decimals keep their scales: the kernel derives the precision and scale of the result from both.
    let decimal = |data_type: &DataType| match data_type {
        DataType::Decimal128(p, s) => Some(DataType::Decimal128(*p, *s)),
        integer => as_decimal(integer)
            .filter(|_| integer.is_integer())
            .map(|(p, s)| DataType::Decimal128(p, s)),
    };
    if left.is_integer() && right.is_integer() && op == ArithmeticOp::Divide {
        return None;
    }
    Some((decimal(left)?, decimal(right)?))
}

fn number_meeting_or_same(left: &DataType, right: &DataType) -> Option<(Meeting, Support)> {
    if left == right {
        Some((Meeting::At(left.clone()), Support::Exact))
    } else {
        number_meeting(left, right)
    }
}

/// Types that compare with themselves, the same in every engine.
fn is_comparable(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_numeric()
        || is_text(data_type)
        || is_bytes(data_type)
        || matches!(
            data_type,
            Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(_, _) | Duration(_)
        )
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

pub(super) fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}

/// Bits of an integer type and whether it is signed.
fn integer_width(data_type: &DataType) -> Option<(u32, bool)> {
    use DataType::*;
    Some(match data_type {
        Int8 => (8, true),
        Int16 => (16, true),
        Int32 => (32, true),
        Int64 => (64, true),
        UInt8 => (8, false),
        UInt16 => (16, false),
        UInt32 => (32, false),
        UInt64 => (64, false),
        _ => return None,
    })
}

/// The least and greatest value of an integer type.
pub(super) fn integer_range(data_type: &DataType) -> Option<(i128, i128)> {
    let (bits, signed) = integer_width(data_type)?;
    Some(if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    })
}

/// The narrowest integer type that holds every value of both.
fn common_integer(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::*;
    integer_width(left)?;
    [UInt8, Int8, UInt16, Int16, UInt32, Int32, UInt64, Int64]
        .into_iter()
        .find(|common| is_lossless(left, common) && is_lossless(right, common))
}

/// The decimal that holds every value of a decimal or integer type.
fn as_decimal(data_type: &DataType) -> Option<(u8, i8)> {
    use DataType::*;
    Some(match data_type {
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => (*p, *s),
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        Int64 => (19, 0),
        UInt64 => (20, 0),
        _ => return None,
    })
}

/// Whether every value of `from` is a value of `to`, so that a cast cannot fail, round or collide.
///
/// These are: integers to wider ones; integers to floats whose mantissa holds them; floats to wider floats; integers
/// and decimals to decimals with room on both sides of the point; text and bytes in any representation, and text to
/// bytes; dates to finer dates and to zoneless timestamps of seconds or milliseconds; `Time32` to `Time64`;
/// dictionaries as their values; null to anything.
pub fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if from == to {
        return true;
    }
    match (from, to) {
        (Null, _) => true,
        (Dictionary(_, values), _) => {
            !is_coded(values) && is_lossless(values, value_type(to)) && has_wide_keys(to)
        }
        (_, Dictionary(_, values)) => {
            !is_coded(values) && is_lossless(from, values) && has_wide_keys(to)
        }
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Date32, Date64) => true,
        (Date32, Timestamp(TimeUnit::Second | TimeUnit::Millisecond, None)) => true,
        (Date64, Timestamp(TimeUnit::Millisecond, None)) => true,
        (Time32(_), Time64(_)) => true,
        (_, FixedSizeBinary(_)) => false,
        _ if is_text(from) => is_text(to) || is_bytes(to),
        _ if is_bytes(from) => is_bytes(to),
        _ => is_lossless_number(from, to),
    }
}

fn is_lossless_number(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if let (Some((from_bits, from_signed)), Some((to_bits, to_signed))) =
        (integer_width(from), integer_width(to))
    {
        return match (from_signed, to_signed) {
            (false, true) => from_bits < to_bits,
            (true, false) => false,
            _ => from_bits <= to_bits,
        };
    }
    match to {
        Float16 => integer_width(from).is_some_and(|(bits, _)| bits <= 11),
        Float32 => integer_width(from).is_some_and(|(bits, _)| bits <= 24),
        Float64 => integer_width(from).is_some_and(|(bits, _)| bits <= 53),
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => as_decimal(from)
            .is_some_and(|(from_p, from_s)| {
                *s >= from_s
                    && i32::from(*p) - i32::from(*s) >= i32::from(from_p) - i32::from(from_s)
            }),
        _ => false,
    }
}

/// A dictionary of dictionaries, or of runs.
fn is_coded(values: &DataType) -> bool {
    matches!(
        values,
        DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _)
    )
}

/// Whether any number of distinct values fits the keys of a dictionary type.
fn has_wide_keys(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(keys, _) => matches!(**keys, Int32 | UInt32 | Int64 | UInt64),
        _ => true,
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if ticks_per_second(a) > ticks_per_second(b) {
        a
    } else {
        b
    }
}

pub(super) fn ticks_per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Brings an array to a type that it casts to without loss; a dictionary stays one, of cast values.
/// Text and bytes are only brought to another representation, so that no offset can overflow, where `to` is a view.
pub(super) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    if value_type(from) == value_type(to) {
        return Ok(Arc::clone(array));
    }
    if *from == DataType::Null {
        return Ok(new_null_array(value_type(to), array.len()));
    }
    if let DataType::Dictionary(_, _) = from {
        let dictionary = array.as_any_dictionary();
        return Ok(dictionary.with_values(convert(dictionary.values(), value_type(to))?));
    }
    cast(array, value_type(to))
}

/// Casts, failing where a value does not fit.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options).map_err(super::arrow_error)
}

/// Casts one value to another type of its family if it is a value of that type too.
pub(super) fn narrow(scalar: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    let (from, to) = (value_type(scalar.data_type()), value_type(to));
    let integers = from.is_integer() && to.is_integer();
    let texts = is_text(from) && is_text(to);
    let bytes = is_bytes(from) && is_bytes(to) && !matches!(to, DataType::FixedSizeBinary(_));
    if !(integers || texts || bytes) {
        return None;
    }
    cast(&plain(scalar).ok()?, to).ok()
}

/// The array without dictionary encoding.
pub(super) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values),
        _ => Ok(Arc::clone(array)),
    }
}

/// Timestamps of any unit as counts of `unit`, which must be as fine or finer.
pub(super) fn ticks(array: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let array = plain(array)?;
    let DataType::Timestamp(from, _) = array.data_type() else {
        return Err(Error::internal(format!(
            "{} has no ticks",
            array.data_type()
        )));
    };
    let factor = ticks_per_second(unit) / ticks_per_second(*from);
    let wide = |v: i64| i128::from(v) * factor;
    let counts: Decimal128Array = match from {
        TimeUnit::Second => array
            .as_primitive::<TimestampSecondType>()
            .unary::<_, Decimal128Type>(wide),
        TimeUnit::Millisecond => array
            .as_primitive::<TimestampMillisecondType>()
            .unary::<_, Decimal128Type>(wide),
        TimeUnit::Microsecond => array
            .as_primitive::<TimestampMicrosecondType>()
            .unary::<_, Decimal128Type>(wide),
        TimeUnit::Nanosecond => array
            .as_primitive::<TimestampNanosecondType>()
            .unary::<_, Decimal128Type>(wide),
    };
    Ok(Arc::new(counts))
}

/// The same instants under another name of their zone, or none. Needs no database of zones.
pub(super) fn with_zone(array: &ArrayRef, zone: Option<&Arc<str>>) -> ArrayRef {
    macro_rules! with_zone {
        ($type:ty) => {{
            let stamps = array.as_primitive::<$type>().clone();
            Arc::new(stamps.with_timezone_opt(zone.cloned()))
        }};
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => with_zone!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => with_zone!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => with_zone!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => with_zone!(TimestampNanosecondType),
        _ => Arc::clone(array),
    }
}
