//! Constants as SQL writes them, before they have a type, and the types that hold their exact values.

use std::fmt;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Decimal256Array, Float64Array, Int64Array, LargeStringArray,
    StringArray, UInt64Array,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast;

use super::super::coerce::{self, value_type};
use crate::{Error, Result};

/// A constant without a type.
#[derive(Debug, Clone)]
pub(super) enum Constant {
    Number(Number),
    /// Text, or anything that can be written as text.
    Text(String),
    Bytes(Vec<u8>),
    /// `DATE '…'`
    Date(String),
    /// `TIMESTAMP '…'`
    Timestamp(String),
}

/// A number as it is written: `digits / 10^scale`, without trailing zeros.
#[derive(Debug, Clone)]
pub(super) struct Number {
    text: String,
    digits: i256,
    scale: i32,
}

/// Most digits of a number: as many as the widest decimal has.
const DIGITS: usize = 76;

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if exponent.abs() > 1_000 || whole.len() + fraction.len() > 1_000 {
            return None;
        }
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_end_matches('0');
        let dropped = all.len() - significant.len();
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self {
                text: text.into(),
                digits: i256::ZERO,
                scale: 0,
            });
        }
        if significant.len() > DIGITS {
            return None;
        }
        let scale = i32::try_from(fraction.len()).ok()? - i32::try_from(dropped).ok()? - exponent;
        Some(Self {
            text: text.into(),
            digits: i256::from_string(significant)?,
            scale,
        })
    }

    pub(super) fn negated(self) -> Self {
        let text = match self.text.strip_prefix('-') {
            Some(text) => text.into(),
            None => format!("-{}", self.text),
        };
        Self {
            text,
            digits: self.digits.wrapping_neg(),
            ..self
        }
    }

    /// `value * 10^scale` where that is a whole number.
    fn at_scale(&self, scale: i32) -> Option<i256> {
        let places = u32::try_from(scale.checked_sub(self.scale)?).ok()?;
        self.digits
            .checked_mul(i256::from_i128(10).checked_pow(places)?)
    }

    fn integer(&self) -> Option<ArrayRef> {
        let value = self.at_scale(0)?.to_i128()?;
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => Some(Arc::new(Int64Array::from(vec![value]))),
            (_, Ok(value)) => Some(Arc::new(UInt64Array::from(vec![value]))),
            _ => None,
        }
    }

    fn float(&self) -> Result<ArrayRef> {
        let value: f64 = self
            .text
            .parse()
            .map_err(|_| Error::invalid_argument(format!("{} is not a number", self.text)))?;
        Ok(Arc::new(Float64Array::from(vec![value])))
    }

    /// The narrowest decimal that holds the number.
    fn decimal(&self) -> Result<ArrayRef> {
        let scale = self.scale.max(0);
        let too_long =
            || Error::invalid_argument(format!("{} has more digits than any decimal", self.text));
        let digits = self.at_scale(scale).ok_or_else(too_long)?;
        let count = digits.to_string().trim_start_matches('-').len();
        let precision = u8::try_from(count.max(usize::try_from(scale).unwrap_or(0)).max(1))
            .map_err(|_| too_long())?;
        let scale = i8::try_from(scale).map_err(|_| too_long())?;
        let value = Decimal256Array::from(vec![digits])
            .with_precision_and_scale(DIGITS as u8, scale)
            .map_err(|_| too_long())?;
        let value: ArrayRef = Arc::new(value);
        match precision {
            ..=38 => coerce::cast(&value, &DataType::Decimal128(precision, scale)),
            _ => coerce::cast(&value, &DataType::Decimal256(precision, scale)),
        }
        .map_err(|_| too_long())
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::Number(number) => f.write_str(&number.text),
            Constant::Text(text) => write!(f, "'{text}'"),
            Constant::Bytes(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
            Constant::Date(text) => write!(f, "DATE '{text}'"),
            Constant::Timestamp(text) => write!(f, "TIMESTAMP '{text}'"),
        }
    }
}

impl Constant {
    pub(super) fn number(text: &str) -> Result<Self> {
        Number::parse(text).map(Constant::Number).ok_or_else(|| {
            Error::invalid_argument(format!("{text} has more digits than any decimal"))
        })
    }

    pub(super) fn hex(text: &str) -> Result<Self> {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let is_hex =
            text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bytes = is_hex
            .then(|| {
                text.as_bytes()
                    .chunks_exact(2)
                    .map(byte)
                    .collect::<Option<Vec<_>>>()
            })
            .flatten();
        bytes
            .map(Constant::Bytes)
            .ok_or_else(|| Error::invalid_argument(format!("X'{text}' is not hexadecimal")))
    }

    /// `TYPE '…'`
    pub(super) fn typed(data_type: &ast::DataType, text: &str) -> Result<Self> {
        match data_type {
            ast::DataType::Date => Ok(Constant::Date(text.into())),
            ast::DataType::Timestamp(..) => Ok(Constant::Timestamp(text.into())),
            other => Err(super::unsupported(&format!("a constant of type {other}"))),
        }
    }

    /// The constant as it compares with `other`: of that type where that has its exact value, else of one that meets it.
    pub(super) fn meet(&self, other: &DataType) -> Result<ArrayRef> {
        let other = value_type(other);
        if let Some(value) = self.fit(other)? {
            return Ok(value);
        }
        match self {
            Constant::Number(number) if other.is_floating() => number.float(),
            Constant::Number(number) => number.integer().map_or_else(|| number.decimal(), Ok),
            _ => self.alone(),
        }
    }

    /// The constant by itself.
    pub(super) fn alone(&self) -> Result<ArrayRef> {
        match self {
            Constant::Number(number) => match number.integer() {
                Some(integer) => Ok(integer),
                None => number.float(),
            },
            Constant::Text(text) => Ok(Arc::new(StringArray::from(vec![text.as_str()]))),
            Constant::Bytes(bytes) => Ok(Arc::new(BinaryArray::from_vec(vec![bytes]))),
            Constant::Date(text) => self.date(text, &DataType::Date32),
            Constant::Timestamp(text) => {
                let unit = finest(text, TimeUnit::Microsecond);
                self.timestamp(
                    text,
                    &DataType::Timestamp(unit, zone_of(text).then(|| "UTC".into())),
                )
            }
        }
    }

    /// The constant as a value of a type; None for a number that is not one of its values.
    pub(super) fn fit(&self, to: &DataType) -> Result<Option<ArrayRef>> {
        match self {
            Constant::Number(number) => self.fit_number(number, to),
            Constant::Text(text) if coerce::is_text(to) => {
                let text: ArrayRef = Arc::new(LargeStringArray::from(vec![text.as_str()]));
                coerce::cast(&text, to).map(Some)
            }
            Constant::Text(_) if *to == DataType::Null => self.alone().map(Some),
            Constant::Bytes(bytes) if coerce::is_bytes(to) => {
                let bytes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![bytes]));
                match to {
                    DataType::FixedSizeBinary(_) => Ok(Some(bytes)),
                    to => coerce::cast(&bytes, to).map(Some),
                }
            }
            Constant::Text(text) | Constant::Date(text)
                if matches!(to, DataType::Date32 | DataType::Date64) =>
            {
                self.date(text, to).map(Some)
            }
            Constant::Text(text) | Constant::Timestamp(text) | Constant::Date(text)
                if matches!(to, DataType::Timestamp(_, _)) =>
            {
                self.timestamp(text, to).map(Some)
            }
            Constant::Text(text) if matches!(to, DataType::Time32(_) | DataType::Time64(_)) => {
                self.time(text, to).map(Some)
            }
            Constant::Text(_) | Constant::Bytes(_) | Constant::Date(_) | Constant::Timestamp(_) => {
                Err(self.is_no(to))
            }
        }
    }

    fn fit_number(&self, number: &Number, to: &DataType) -> Result<Option<ArrayRef>> {
        match to {
            to if to.is_integer() => Ok(number
                .integer()
                .and_then(|value| coerce::cast(&value, to).ok())),
            DataType::Float64 => number.float().map(Some),
            to if to.is_floating() => {
                // Only if the narrower float is the same number as the double.
                let double = number.float()?;
                let narrow = coerce::cast(&double, to)?;
                let back = coerce::cast(&narrow, &DataType::Float64)?;
                Ok((*back == *double).then_some(narrow))
            }
            to if to.is_decimal() => {
                let (DataType::Decimal32(_, scale)
                | DataType::Decimal64(_, scale)
                | DataType::Decimal128(_, scale)
                | DataType::Decimal256(_, scale)) = to
                else {
                    return Ok(None);
                };
                let value = number.at_scale(i32::from(*scale));
                let value = value.and_then(|value| {
                    Decimal256Array::from(vec![value])
                        .with_precision_and_scale(DIGITS as u8, *scale)
                        .ok()
                });
                Ok(value.and_then(|value| coerce::cast(&(Arc::new(value) as ArrayRef), to).ok()))
            }
            DataType::Null => self.alone().map(Some),
            _ => Err(self.is_no(to)),
        }
    }

    fn date(&self, text: &str, to: &DataType) -> Result<ArrayRef> {
        // Arrow would read, and cut, a time behind the date.
        let is_date = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-');
        let date = is_date
            .then(|| coerce::cast(&written(text), &DataType::Date32).ok())
            .flatten();
        coerce::cast(&date.ok_or_else(|| self.is_no(to))?, to)
    }

    fn time(&self, text: &str, to: &DataType) -> Result<ArrayRef> {
        let (DataType::Time32(unit) | DataType::Time64(unit)) = to else {
            return Err(self.is_no(to));
        };
        if finest(text, *unit) != *unit {
            return Err(Error::invalid_argument(format!(
                "{self} is finer than {to}"
            )));
        }
        coerce::cast(&written(text), to).map_err(|_| self.is_no(to))
    }

    fn timestamp(&self, text: &str, to: &DataType) -> Result<ArrayRef> {
        let DataType::Timestamp(unit, zone) = to else {
            return Err(self.is_no(to));
        };
        if zone.is_none() && zone_of(text) {
            return Err(Error::invalid_argument(format!(
                "{self} has a time zone, and what it is compared with has none"
            )));
        }
        // A finer constant keeps its unit: timestamps of different units compare.
        let unit = finest(text, *unit);
        let parse = |zone: Option<&str>| {
            let to = DataType::Timestamp(unit, zone.map(Arc::from));
            coerce::cast(&written(text), &to).map_err(|_| self.is_no(&to))
        };
        let utc = ["UTC", "Z", "Etc/UTC", "GMT", "+00:00"];
        match zone {
            None => parse(None),
            Some(zone) if zone_of(text) || utc.contains(&&**zone) => {
                Ok(coerce::with_zone(&parse(Some("+00:00"))?, Some(zone)))
            }
            // Read as local time there, if the zone is an offset or Arrow knows its name.
            Some(zone) => parse(Some(zone)).map_err(|_| {
                Error::invalid_argument(format!(
                    "{self} does not say its offset from UTC, and it is compared with {to}"
                ))
            }),
        }
    }

    fn is_no(&self, data_type: &DataType) -> Error {
        Error::invalid_argument(format!("{self} is no value of {data_type}"))
    }
}

fn written(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

/// The coarsest unit, at least as fine as `unit`, that holds the fraction of a second in `text`.
fn finest(text: &str, unit: TimeUnit) -> TimeUnit {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let end = fraction
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(fraction.len());
    let digits = fraction[..end].trim_end_matches('0').len();
    let needed = match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    if coerce::ticks_per_second(needed) > coerce::ticks_per_second(unit) {
        needed
    } else {
        unit
    }
}

/// Whether the text says its zone: a letter, or an offset behind the time.
fn zone_of(text: &str) -> bool {
    let time = text
        .split_once([' ', 'T', 't'])
        .map_or("", |(_, time)| time);
    time.contains(|c: char| c.is_ascii_alphabetic() || c == '+' || c == '-')
}
