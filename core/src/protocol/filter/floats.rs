//! What each [`FloatRule`] does to floating-point values before the total-order kernels compare them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use arrow_select::take::take;

use super::coerce::value_type;
use super::tree::FloatRule;
use crate::Result;

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// Rewrites values so that total order gives the rule's answer; NaNs under [`FloatRule::Ieee`] are left to the caller.
/// Arrays that hold none of the values concerned come back as they are.
pub(super) fn normalize(array: &ArrayRef, rule: FloatRule) -> ArrayRef {
    if rule == FloatRule::TotalOrder {
        return Arc::clone(array);
    }
    let nan_too = rule == FloatRule::NanLargest;
    macro_rules! normalize {
        ($type:ty, $native:ty) => {{
            let floats = array.as_primitive::<$type>();
            let negative_zero =
                <$native>::from_bits(1 << (<$native>::from_bits(0).to_bits().count_zeros() - 1));
            let changes =
                |v: $native| v.to_bits() == negative_zero.to_bits() || (nan_too && v.is_nan());
            if !floats.values().iter().any(|v| changes(*v)) {
                return Arc::clone(array);
            }
            let nan = <$native>::NAN.to_bits() & !negative_zero.to_bits();
            Arc::new(floats.unary::<_, $type>(|v| match changes(v) {
                true if v.is_nan() => <$native>::from_bits(nan),
                true => <$native>::from_bits(0),
                false => v,
            }))
        }};
    }
    match array.data_type() {
        DataType::Float16 => normalize!(Float16Type, F16),
        DataType::Float32 => normalize!(Float32Type, f32),
        DataType::Float64 => normalize!(Float64Type, f64),
        DataType::Dictionary(_, _) if value_type(array.data_type()).is_floating() => {
            let dictionary = array.as_any_dictionary();
            dictionary.with_values(normalize(dictionary.values(), rule))
        }
        _ => Arc::clone(array),
    }
}

/// Which values are NaN; null where the value is. Fails for types that are not floating-point.
pub(super) fn is_nan(array: &ArrayRef) -> Result<BooleanArray> {
    match array.data_type() {
        DataType::Float16 => Ok(BooleanArray::from_unary(
            array.as_primitive::<Float16Type>(),
            F16::is_nan,
        )),
        DataType::Float32 => Ok(BooleanArray::from_unary(
            array.as_primitive::<Float32Type>(),
            f32::is_nan,
        )),
        DataType::Float64 => Ok(BooleanArray::from_unary(
            array.as_primitive::<Float64Type>(),
            f64::is_nan,
        )),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let values = is_nan(dictionary.values())?;
            Ok(take(&values, dictionary.keys(), None)
                .map_err(super::arrow_error)?
                .as_boolean()
                .clone())
        }
        other => Err(crate::Error::invalid_argument(format!(
            "is_nan takes a floating-point value, not {other}"
        ))),
    }
}
