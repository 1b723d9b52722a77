//! The core's statistics as DataFusion's.
//!
//! Says exact only where DataFusion may answer a query from the number alone.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use lightstream_core::protocol::statistics as core;

use super::ordering::has_disputed_order;

/// Statistics of rows of the given schema.
pub(crate) fn statistics(known: &core::Statistics, schema: &Schema) -> Statistics {
    let mut made = Statistics::new_unknown(schema);
    made.num_rows = count(known.rows);
    // The server measures its own encoding of the rows, which need not be the one that arrives here.
    made.total_byte_size = count(known.bytes).to_inexact();
    if known.columns.len() == schema.fields().len() {
        made.column_statistics = known
            .columns
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| column_statistics(column, field.data_type()))
            .collect();
    }
    made
}

/// A count as DataFusion has it.
pub(crate) fn count(known: core::Precision) -> Precision<usize> {
    let value = |value: u64| usize::try_from(value).ok();
    match known {
        core::Precision::Exact(exact) => value(exact).map_or(Precision::Absent, Precision::Exact),
        core::Precision::Inexact(estimate) => {
            value(estimate).map_or(Precision::Absent, Precision::Inexact)
        }
        core::Precision::Absent => Precision::Absent,
    }
}

fn column_statistics(known: &core::ColumnStatistics, data_type: &DataType) -> ColumnStatistics {
    // Min and max of disputed types cannot be answered from here: a Parquet file leaves NaN out, DataFusion does not.
    let exact = known.bounds_exact && !has_disputed_order(data_type);
    let bound = |bound: &Option<ArrayRef>| {
        let value = bound
            .as_ref()
            .filter(|array| array.data_type() == data_type && array.len() == 1);
        match value.map(|array| ScalarValue::try_from_array(array, 0)) {
            Some(Ok(value)) if value.is_null() => Precision::Absent,
            Some(Ok(value)) if exact => Precision::Exact(value),
            Some(Ok(value)) => Precision::Inexact(value),
            Some(Err(_)) | None => Precision::Absent,
        }
    };
    ColumnStatistics {
        null_count: count(known.nulls),
        min_value: bound(&known.min),
        max_value: bound(&known.max),
        ..ColumnStatistics::new_unknown()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Array, Float64Array, Int64Array};
    use datafusion::arrow::datatypes::Field;

    use super::*;

    fn bounds(min: Arc<dyn Array>, max: Arc<dyn Array>) -> core::ColumnStatistics {
        core::ColumnStatistics {
            nulls: core::Precision::Exact(1),
            min: Some(min),
            max: Some(max),
            bounds_exact: true,
        }
    }

    #[test]
    fn bounds_are_exact_only_for_types_whose_order_is_agreed_on() {
        let schema = Schema::new(vec![
            Field::new("i", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
        ]);
        let known = core::Statistics {
            rows: core::Precision::Exact(3),
            bytes: core::Precision::Exact(48),
            columns: vec![
                bounds(
                    Arc::new(Int64Array::from(vec![1])),
                    Arc::new(Int64Array::from(vec![9])),
                ),
                bounds(
                    Arc::new(Float64Array::from(vec![1.0])),
                    Arc::new(Float64Array::from(vec![9.0])),
                ),
            ],
        };
        let made = statistics(&known, &schema);
        assert_eq!(made.num_rows, Precision::Exact(3));
        assert_eq!(made.total_byte_size, Precision::Inexact(48));
        assert_eq!(
            made.column_statistics[0].max_value,
            Precision::Exact(ScalarValue::from(9_i64))
        );
        assert_eq!(made.column_statistics[0].null_count, Precision::Exact(1));
        assert_eq!(
            made.column_statistics[1].max_value,
            Precision::Inexact(ScalarValue::from(9.0))
        );
    }

    #[test]
    fn bounds_of_another_type_are_left_out() {
        let schema = Schema::new(vec![Field::new("i", DataType::Int32, true)]);
        let known = core::Statistics {
            columns: vec![bounds(
                Arc::new(Int64Array::from(vec![1])),
                Arc::new(Int64Array::from(vec![9])),
            )],
            ..core::Statistics::default()
        };
        let made = statistics(&known, &schema);
        assert_eq!(made.column_statistics[0].min_value, Precision::Absent);
        assert_eq!(made.num_rows, Precision::Absent);
    }
}
