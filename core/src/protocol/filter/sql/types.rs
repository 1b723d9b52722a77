//! Names of types in SQL, as Arrow's types.

use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast::{self, ExactNumberInfo, TimezoneInfo};

use crate::{Error, Result};

/// The Arrow type that a CAST names.
pub(super) fn arrow_type(sql: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    Ok(match sql {
        Sql::TinyInt(_) => DataType::Int8,
        Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => DataType::Int16,
        Sql::Int(_) | Sql::Integer(_) | Sql::Int4(_) | Sql::Int32 => DataType::Int32,
        Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => DataType::Int64,
        Sql::TinyIntUnsigned(_) | Sql::UInt8 => DataType::UInt8,
        Sql::SmallIntUnsigned(_) | Sql::UInt16 => DataType::UInt16,
        Sql::IntUnsigned(_) | Sql::IntegerUnsigned(_) | Sql::UInt32 => DataType::UInt32,
        Sql::BigIntUnsigned(_) | Sql::UInt64 => DataType::UInt64,
        Sql::Real | Sql::Float4 | Sql::Float32 => DataType::Float32,
        Sql::Double(_) | Sql::DoublePrecision | Sql::Float8 | Sql::Float64 => DataType::Float64,
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::BigDecimal(info) => decimal(*info, sql)?,
        Sql::Bool | Sql::Boolean => DataType::Boolean,
        Sql::Text | Sql::Varchar(None) | Sql::String(None) => DataType::Utf8,
        Sql::Bytea | Sql::Varbinary(None) => DataType::Binary,
        Sql::Date => DataType::Date32,
        Sql::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp(unit(*digits, sql)?, None)
        }
        Sql::Timestamp(digits, _) => DataType::Timestamp(unit(*digits, sql)?, Some("UTC".into())),
        other => return Err(super::unsupported(&format!("the type {other}"))),
    })
}

fn decimal(info: ExactNumberInfo, sql: &ast::DataType) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (38, 10),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let refused = || Error::invalid_argument(format!("{sql} has more digits than any decimal"));
    let (precision, scale) = (
        u8::try_from(precision).map_err(|_| refused())?,
        i8::try_from(scale).map_err(|_| refused())?,
    );
    match precision {
        1..=38 if scale.unsigned_abs() <= precision => Ok(DataType::Decimal128(precision, scale)),
        39..=76 if scale.unsigned_abs() <= precision => Ok(DataType::Decimal256(precision, scale)),
        _ => Err(refused()),
    }
}

fn unit(digits: Option<u64>, sql: &ast::DataType) -> Result<TimeUnit> {
    match digits {
        Some(0) => Ok(TimeUnit::Second),
        Some(3) => Ok(TimeUnit::Millisecond),
        None | Some(6) => Ok(TimeUnit::Microsecond),
        Some(9) => Ok(TimeUnit::Nanosecond),
        Some(_) => Err(super::unsupported(&format!("the type {sql}"))),
    }
}
