//! Membership in IN lists: values are hashed once, so a list of a hundred thousand costs each row one look-up.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use arrow_select::take::take;

use super::coerce::{Meeting, cast, convert, meeting, plain, ticks, value_type};
use super::floats;
use super::tree::{FloatRule, ValueList};
use crate::{Error, Result};

/// The values of a list, ready for one type of operand under one float rule.
pub(super) struct Members {
    /// The operand's type, without dictionaries.
    operand: DataType,
    rule: FloatRule,
    /// How the operand is brought to the type of the set.
    meeting: Meeting,
    has_null: bool,
    set: Set,
}

enum Set {
    Bool([bool; 2]),
    /// Values of up to eight bytes, as their bits.
    Narrow(HashSet<u64>),
    /// Values of up to 32 bytes, as their bits.
    Wide(HashSet<[u8; 32]>),
    Bytes(HashSet<Box<[u8]>>),
}

/// Whether each value of `operand` is in `list`.
pub(super) fn contains(
    operand: &ArrayRef,
    list: &ValueList,
    negated: bool,
    rule: FloatRule,
) -> Result<BooleanArray> {
    if list.values().is_empty() {
        return Ok(BooleanArray::from(vec![negated; operand.len()]));
    }
    let operand_type = value_type(operand.data_type());
    let kept = list
        .members
        .get()
        .filter(|kept| kept.operand == *operand_type && kept.rule == rule);
    if let Some(members) = kept {
        return members.look_up(operand, negated);
    }
    let members = Members::new(list.values(), operand_type, rule)?;
    let answer = members.look_up(operand, negated)?;
    // Lost only if the list met another type or rule first: then each call prepares it anew.
    let _ = list.members.set(members);
    Ok(answer)
}

impl Members {
    fn new(values: &ArrayRef, operand: &DataType, rule: FloatRule) -> Result<Self> {
        let (meeting, _) = meeting(operand, values.data_type()).ok_or_else(|| {
            Error::invalid_argument(format!(
                "{operand} cannot be compared with a list of {}",
                values.data_type()
            ))
        })?;
        let has_null = values
            .logical_nulls()
            .is_some_and(|nulls| nulls.null_count() > 0);
        let values = floats::normalize(&bring(&plain(values)?, &meeting)?, rule);
        let set = Set::new(&values, rule)?;
        Ok(Self {
            operand: operand.clone(),
            rule,
            meeting,
            has_null,
            set,
        })
    }

    fn look_up(&self, operand: &ArrayRef, negated: bool) -> Result<BooleanArray> {
        if let DataType::Dictionary(_, _) = operand.data_type() {
            let dictionary = operand.as_any_dictionary();
            let answers = self.look_up(dictionary.values(), negated)?;
            return Ok(take(&answers, dictionary.keys(), None)
                .map_err(super::arrow_error)?
                .as_boolean()
                .clone());
        }
        let operand = floats::normalize(&bring(operand, &self.meeting)?, self.rule);
        let found = self.set.contains(&operand)?;
        // A value that is not found may equal the null.
        let undecided = self.has_null.then(|| NullBuffer::new(found.clone()));
        let nulls = NullBuffer::union(operand.logical_nulls().as_ref(), undecided.as_ref());
        let values = if negated { !&found } else { found };
        Ok(BooleanArray::new(values, nulls))
    }
}

fn bring(array: &ArrayRef, meeting: &Meeting) -> Result<ArrayRef> {
    match meeting {
        Meeting::Ticks(_) if *array.data_type() == DataType::Null => {
            Ok(new_null_array(&DataType::Decimal128(38, 10), array.len()))
        }
        Meeting::Ticks(unit) => ticks(array, *unit),
        // The bytes of text are the same in every representation.
        Meeting::At(to) if set_of_bytes(to) && set_of_bytes(array.data_type()) => {
            Ok(Arc::clone(array))
        }
        Meeting::At(to) if matches!(array.data_type(), DataType::Dictionary(_, _)) => {
            cast(array, to)
        }
        Meeting::At(to) => convert(array, to),
    }
}

fn set_of_bytes(data_type: &DataType) -> bool {
    super::coerce::is_text(data_type) || super::coerce::is_bytes(data_type)
}

impl Set {
    fn new(values: &ArrayRef, rule: FloatRule) -> Result<Self> {
        // Under IEEE a NaN in the list equals nothing.
        let nans = match rule {
            FloatRule::Ieee if values.data_type().is_floating() => Some(floats::is_nan(values)?),
            _ => None,
        };
        let counts =
            |i: usize| values.is_valid(i) && !nans.as_ref().is_some_and(|nans| nans.value(i));
        let valid = (0..values.len()).filter(|i| counts(*i));
        Ok(match values.data_type() {
            DataType::Boolean => {
                let booleans = values.as_boolean();
                let mut seen = [false; 2];
                valid.for_each(|i| seen[usize::from(booleans.value(i))] = true);
                Set::Bool(seen)
            }
            DataType::Null => Set::Bool([false; 2]),
            other if set_of_bytes(other) => {
                let mut set = HashSet::new();
                each_bytes(values, |i, bytes| {
                    if values.is_valid(i) {
                        set.insert(Box::from(bytes));
                    }
                })?;
                Set::Bytes(set)
            }
            other => {
                let width = width_of(other)?;
                let data = values.to_data();
                let bytes = bytes_of(&data, width)?;
                let at = |i: usize| bytes.get(i * width..(i + 1) * width).unwrap_or_default();
                match width {
                    ..=8 => Set::Narrow(valid.map(|i| narrow_bits(at(i))).collect()),
                    _ => Set::Wide(valid.map(|i| wide_bits(at(i))).collect()),
                }
            }
        })
    }

    /// Which values are in the set; what stands for nulls is unspecified.
    fn contains(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        match self {
            Set::Bool(seen) => match array.as_boolean_opt() {
                Some(booleans) => Ok(BooleanBuffer::collect_bool(array.len(), |i| {
                    seen[usize::from(booleans.value(i))]
                })),
                None => Ok(BooleanBuffer::new_unset(array.len())),
            },
            Set::Bytes(set) => {
                let mut found = arrow_buffer::BooleanBufferBuilder::new(array.len());
                each_bytes(array, |_, bytes| found.append(set.contains(bytes)))?;
                Ok(found.finish())
            }
            Set::Narrow(set) => {
                let width = width_of(array.data_type())?;
                let data = array.to_data();
                let bytes = bytes_of(&data, width)?;
                Ok(match width {
                    1 => look_up::<1>(bytes, set),
                    2 => look_up::<2>(bytes, set),
                    4 => look_up::<4>(bytes, set),
                    _ => look_up::<8>(bytes, set),
                })
            }
            Set::Wide(set) => {
                let width = width_of(array.data_type())?;
                let data = array.to_data();
                Ok(bytes_of(&data, width)?
                    .chunks_exact(width)
                    .map(|value| set.contains(&wide_bits(value)))
                    .collect())
            }
        }
    }
}

fn look_up<const WIDTH: usize>(bytes: &[u8], set: &HashSet<u64>) -> BooleanBuffer {
    let (values, _) = bytes.as_chunks::<WIDTH>();
    BooleanBuffer::collect_bool(values.len(), |i| set.contains(&narrow_bits(&values[i])))
}

fn narrow_bits(value: &[u8]) -> u64 {
    let mut bits = [0; 8];
    bits.iter_mut()
        .zip(value)
        .for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(bits)
}

fn wide_bits(value: &[u8]) -> [u8; 32] {
    let mut bits = [0; 32];
    bits.iter_mut()
        .zip(value)
        .for_each(|(to, from)| *to = *from);
    bits
}

fn width_of(data_type: &DataType) -> Result<usize> {
    data_type
        .primitive_width()
        .ok_or_else(|| Error::invalid_argument(format!("no IN list of {data_type}")))
}

fn bytes_of(data: &arrow_data::ArrayData, width: usize) -> Result<&[u8]> {
    let from = data.offset() * width;
    data.buffers()
        .first()
        .and_then(|buffer| buffer.as_slice().get(from..from + data.len() * width))
        .ok_or_else(|| Error::internal("a primitive array is shorter than it says"))
}

/// Calls `each` with every value of a text or binary array; what stands for nulls is unspecified.
fn each_bytes(array: &ArrayRef, mut each: impl FnMut(usize, &[u8])) -> Result<()> {
    macro_rules! each {
        ($array:expr) => {{
            let array = $array;
            (0..array.len()).for_each(|i| each(i, array.value(i).as_ref()))
        }};
    }
    match array.data_type() {
        DataType::Utf8 => each!(array.as_string::<i32>()),
        DataType::LargeUtf8 => each!(array.as_string::<i64>()),
        DataType::Utf8View => each!(array.as_string_view()),
        DataType::Binary => each!(array.as_binary::<i32>()),
        DataType::LargeBinary => each!(array.as_binary::<i64>()),
        DataType::BinaryView => each!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => each!(array.as_fixed_size_binary()),
        DataType::Null => (0..array.len()).for_each(|i| each(i, &[])),
        other => {
            return Err(Error::internal(format!(
                "{other} is neither text nor bytes"
            )));
        }
    }
    Ok(())
}
