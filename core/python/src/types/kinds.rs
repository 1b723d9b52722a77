//! The kinds of types by name: what rules speak of.

use arrow_schema::DataType;

/// A decimal whose digits before the point are not all there: a kind of its own beside its width.
pub(super) const NEGATIVE_SCALE: &str = "decimal_negative_scale";

/// All names of kinds.
pub(super) const ALL: &[&str] = &[
    "null",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "timestamp",
    "date32",
    "date64",
    "time32",
    "time64",
    "duration",
    "interval",
    "binary",
    "fixed_size_binary",
    "large_binary",
    "binary_view",
    "utf8",
    "large_utf8",
    "utf8_view",
    "list",
    "list_view",
    "fixed_size_list",
    "large_list",
    "large_list_view",
    "struct",
    "union",
    "dictionary",
    "decimal32",
    "decimal64",
    "decimal128",
    "decimal256",
    NEGATIVE_SCALE,
    "map",
    "run_end_encoded",
];

/// The kind of a type.
pub(super) fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Null => "null",
        DataType::Boolean => "bool",
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float16 => "float16",
        DataType::Float32 => "float32",
        DataType::Float64 => "float64",
        DataType::Timestamp(_, _) => "timestamp",
        DataType::Date32 => "date32",
        DataType::Date64 => "date64",
        DataType::Time32(_) => "time32",
        DataType::Time64(_) => "time64",
        DataType::Duration(_) => "duration",
        DataType::Interval(_) => "interval",
        DataType::Binary => "binary",
        DataType::FixedSizeBinary(_) => "fixed_size_binary",
        DataType::LargeBinary => "large_binary",
        DataType::BinaryView => "binary_view",
        DataType::Utf8 => "utf8",
        DataType::LargeUtf8 => "large_utf8",
        DataType::Utf8View => "utf8_view",
        DataType::List(_) => "list",
        DataType::ListView(_) => "list_view",
        DataType::FixedSizeList(_, _) => "fixed_size_list",
        DataType::LargeList(_) => "large_list",
        DataType::LargeListView(_) => "large_list_view",
        DataType::Struct(_) => "struct",
        DataType::Union(_, _) => "union",
        DataType::Dictionary(_, _) => "dictionary",
        DataType::Decimal32(_, _) => "decimal32",
        DataType::Decimal64(_, _) => "decimal64",
        DataType::Decimal128(_, _) => "decimal128",
        DataType::Decimal256(_, _) => "decimal256",
        DataType::Map(_, _) => "map",
        DataType::RunEndEncoded(_, _) => "run_end_encoded",
    }
}

/// Precision and scale of a decimal.
pub(super) fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

/// The kinds that hold every value of another.
pub(super) fn targets(kind: &str) -> &'static [&'static str] {
    match kind {
        "utf8" | "large_utf8" | "utf8_view" => &["utf8", "large_utf8", "utf8_view"],
        "binary" | "large_binary" | "binary_view" => &["binary", "large_binary", "binary_view"],
        "fixed_size_binary" => &["binary", "large_binary", "binary_view"],
        "dictionary" | "run_end_encoded" => &["values"],
        "list" | "large_list" | "list_view" | "large_list_view" | "fixed_size_list" | "map" => {
            &["list", "large_list"]
        }
        "decimal32" => &["decimal64", "decimal128", "decimal256"],
        "decimal64" => &["decimal128", "decimal256"],
        "decimal128" => &["decimal256"],
        NEGATIVE_SCALE => &["decimal128", "decimal256"],
        "time32" => &["time64"],
        "date32" | "date64" => &["timestamp"],
        "float16" => &["float32", "float64"],
        "float32" => &["float64"],
        "duration" => &["int64"],
        "int8" => &["int16", "int32", "int64"],
        "int16" => &["int32", "int64"],
        "int32" => &["int64"],
        "uint8" => &["uint16", "uint32", "uint64", "int16", "int32", "int64"],
        "uint16" => &["uint32", "uint64", "int32", "int64"],
        "uint32" => &["uint64", "int64"],
        _ => &[],
    }
}
