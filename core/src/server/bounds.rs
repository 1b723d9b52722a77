//! Exact statistics of rows in memory: counts, nulls, least and greatest values.

use std::sync::Arc;

use arrow_arith::aggregate;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, LargeStringArray, PrimitiveArray,
    RecordBatch, StringArray, StringViewArray, downcast_primitive_array,
};
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat;

use crate::protocol::statistics::{ColumnStatistics, Precision, Statistics};

/// What is known of these rows. Bounds are left out for types without a plain order, and for floats.
pub(super) fn statistics_of(schema: &Schema, batches: &[RecordBatch]) -> Statistics {
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let bytes = batches
        .iter()
        .map(|batch| batch.get_array_memory_size() as u64)
        .sum();
    let columns = (0..schema.fields().len())
        .map(|index| {
            let arrays: Vec<&ArrayRef> = batches
                .iter()
                .filter_map(|batch| batch.columns().get(index))
                .collect();
            column_statistics(&arrays)
        })
        .collect();
    Statistics {
        rows: Precision::Exact(rows),
        bytes: Precision::Inexact(bytes),
        columns,
    }
}

fn column_statistics(arrays: &[&ArrayRef]) -> ColumnStatistics {
    let nulls = arrays
        .iter()
        .map(|array| array.logical_null_count() as u64)
        .sum();
    let (mins, maxs): (Vec<ArrayRef>, Vec<ArrayRef>) =
        arrays.iter().filter_map(|array| bounds(array)).unzip();
    let over_all = |parts: Vec<ArrayRef>| {
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).ok().and_then(|all| bounds(&all))
    };
    let min = over_all(mins).map(|(min, _)| min);
    let max = over_all(maxs).map(|(_, max)| max);
    ColumnStatistics {
        nulls: Precision::Exact(nulls),
        bounds_exact: min.is_some() && max.is_some(),
        min,
        max,
    }
}

/// Least and greatest value, each as an array of one; `None` where there are none or the type has no plain order.
fn bounds(array: &dyn Array) -> Option<(ArrayRef, ArrayRef)> {
    if array.data_type().is_floating() {
        // Engines differ on where NaN and -0.0 stand.
        return None;
    }
    downcast_primitive_array!(
        array => primitive_bounds(array),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            let (min, max) = (aggregate::min_string(array)?, aggregate::max_string(array)?);
            Some((Arc::new(StringArray::from(vec![min])), Arc::new(StringArray::from(vec![max]))))
        },
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            let (min, max) = (aggregate::min_string(array)?, aggregate::max_string(array)?);
            Some((Arc::new(LargeStringArray::from(vec![min])), Arc::new(LargeStringArray::from(vec![max]))))
        },
        DataType::Utf8View => {
            let array = array.as_string_view();
            let (min, max) = (aggregate::min_string_view(array)?, aggregate::max_string_view(array)?);
            Some((Arc::new(StringViewArray::from(vec![min])), Arc::new(StringViewArray::from(vec![max]))))
        },
        _ => None
    )
}

fn primitive_bounds<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
) -> Option<(ArrayRef, ArrayRef)>
where
    T::Native: ArrowNativeTypeOp,
{
    if matches!(array.data_type(), DataType::Interval(_)) {
        // Months, days and nanoseconds cannot be compared.
        return None;
    }
    let one = |value| -> ArrayRef {
        Arc::new(
            PrimitiveArray::<T>::from_value(value, 1).with_data_type(array.data_type().clone()),
        )
    };
    Some((one(aggregate::min(array)?), one(aggregate::max(array)?)))
}
