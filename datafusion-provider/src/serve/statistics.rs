//! DataFusion's statistics as the core's.
//!
//! What DataFusion says but cannot be held to, such as bounds of floats that leave out NaN, is left out.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision as DfPrecision;
use datafusion::common::{ColumnStatistics as DfColumnStatistics, Statistics as DfStatistics};
use datafusion::scalar::ScalarValue;
use lightstream_core::protocol::statistics::{ColumnStatistics, Precision, Statistics};

/// The statistics of rows of this schema.
pub(super) fn statistics(known: &DfStatistics, schema: &Schema) -> Statistics {
    let columns: Vec<_> = if known.column_statistics.len() == schema.fields().len() {
        let fields = schema.fields().iter().map(|field| field.data_type());
        fields
            .zip(&known.column_statistics)
            .map(|(data_type, known)| column(known, data_type))
            .collect()
    } else {
        Vec::new()
    };
    let says_nothing = columns.iter().all(|column: &ColumnStatistics| {
        column.nulls == Precision::Absent && column.min.is_none() && column.max.is_none()
    });
    Statistics {
        rows: precision(&known.num_rows),
        bytes: precision(&known.total_byte_size).to_inexact(),
        columns: if says_nothing { Vec::new() } else { columns },
    }
}

fn column(known: &DfColumnStatistics, data_type: &DataType) -> ColumnStatistics {
    let bound = |value: &DfPrecision<ScalarValue>| {
        let value = value
            .get_value()
            .filter(|value| is_bounded(data_type) && !value.is_null())?;
        let value = if value.data_type() == *data_type {
            value.clone()
        } else {
            value.cast_to(data_type).ok()?
        };
        value.to_array_of_size(1).ok()
    };
    let is_exact = |value: &DfPrecision<ScalarValue>| matches!(value, DfPrecision::Exact(_));
    let (min, max) = (bound(&known.min_value), bound(&known.max_value));
    ColumnStatistics {
        nulls: precision(&known.null_count),
        bounds_exact: min.is_some()
            && max.is_some()
            && is_exact(&known.min_value)
            && is_exact(&known.max_value),
        min,
        max,
    }
}

fn precision(known: &DfPrecision<usize>) -> Precision {
    match known {
        DfPrecision::Exact(value) => Precision::Exact(*value as u64),
        DfPrecision::Inexact(value) => Precision::Inexact(*value as u64),
        DfPrecision::Absent => Precision::Absent,
    }
}

/// Types whose bounds hold for every value. Those of floats do not count NaN.
fn is_bounded(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_bounded(values),
        Float16 | Float32 | Float64 | Null => false,
        other => !other.is_nested() && !matches!(other, Interval(_)),
    }
}
