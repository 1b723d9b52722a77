//! Arrays in another type of the same values. Buffers are shared wherever the layout allows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, Int64Array,
    MapArray, OffsetSizeTrait, RunArray, StructArray, UInt64Array, UnionArray, make_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, FieldRef};
use arrow_select::take::take;

type Result<T> = std::result::Result<T, ArrowError>;

/// The values in the type that the rules made of theirs.
pub(super) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Dictionary(_, _), DataType::Dictionary(_, values)) => {
            let dictionary = array.as_any_dictionary();
            Ok(dictionary.with_values(convert(dictionary.values(), values)?))
        }
        (DataType::Dictionary(_, _), _) => {
            let dictionary = array.as_any_dictionary();
            take(&convert(dictionary.values(), to)?, dictionary.keys(), None)
        }
        (DataType::RunEndEncoded(ends, _), _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array, to),
            DataType::Int32 => runs::<Int32Type>(array, to),
            _ => runs::<Int64Type>(array, to),
        },
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let rows = array.as_struct();
            let children = rows
                .columns()
                .iter()
                .zip(fields)
                .map(|(child, field)| convert(child, field.data_type()))
                .collect::<Result<Vec<_>>>()?;
            let nulls = rows.nulls().cloned();
            let made =
                StructArray::try_new_with_length(fields.clone(), children, nulls, rows.len())?;
            Ok(Arc::new(made))
        }
        (DataType::Union(_, _), DataType::Union(_, _)) => union(array, to),
        (DataType::FixedSizeList(_, _), DataType::FixedSizeList(items, size)) => {
            let list = array.as_fixed_size_list();
            let values = convert(list.values(), items.data_type())?;
            let nulls = list.nulls().cloned();
            let made = FixedSizeListArray::try_new_with_length(
                Arc::clone(items),
                *size,
                values,
                nulls,
                list.len(),
            )?;
            Ok(Arc::new(made))
        }
        (DataType::Map(_, _), DataType::Map(entries, is_sorted)) => {
            let map = array.as_map();
            let rows: ArrayRef = Arc::new(map.entries().clone());
            let rows = convert(&rows, entries.data_type())?;
            let made = MapArray::try_new(
                Arc::clone(entries),
                map.offsets().clone(),
                rows.as_struct().clone(),
                map.nulls().cloned(),
                *is_sorted,
            )?;
            Ok(Arc::new(made))
        }
        (DataType::ListView(_), DataType::ListView(items)) => same_views::<i32>(array, items),
        (DataType::LargeListView(_), DataType::LargeListView(items)) => {
            same_views::<i64>(array, items)
        }
        (_, DataType::List(items)) => list::<i32>(array, items),
        (_, DataType::LargeList(items)) => list::<i64>(array, items),
        (DataType::FixedSizeBinary(_), DataType::BinaryView) => {
            plain(&plain(array, &DataType::Binary)?, to)
        }
        _ => plain(array, to),
    }
}

/// What arrow's own casts do without loss: text, bytes, numbers, decimals and times to wider ones. A value that does
/// not fit is an error, never null.
fn plain(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options)
}

fn runs<E: RunEndIndexType>(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let runs: &RunArray<E> = array.as_run();
    if let DataType::RunEndEncoded(ends, values) = to {
        let converted = convert(runs.values(), values.data_type())?;
        let data = runs.to_data().into_builder();
        let made = data
            .data_type(DataType::RunEndEncoded(
                Arc::clone(ends),
                Arc::clone(values),
            ))
            .child_data(vec![run_ends_data(runs), converted.to_data()]);
        return Ok(make_array(made.build()?));
    }
    let (start, end) = (runs.offset(), runs.offset() + runs.len());
    let mut at = Vec::with_capacity(runs.len());
    let mut run_start = 0;
    for (run, run_end) in runs.run_ends().values().iter().enumerate() {
        let run_end = run_end.as_usize();
        let rows = run_end.min(end).saturating_sub(run_start.max(start));
        at.extend(std::iter::repeat_n(run as u64, rows));
        run_start = run_end;
    }
    take(&convert(runs.values(), to)?, &UInt64Array::from(at), None)
}

/// The run ends of the whole array, of which a slice may be looked at.
fn run_ends_data<E: RunEndIndexType>(runs: &RunArray<E>) -> arrow_data::ArrayData {
    let ends = ScalarBuffer::from(runs.run_ends().values().to_vec());
    arrow_array::PrimitiveArray::<E>::new(ends, None).to_data()
}

fn union(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let DataType::Union(fields, _) = to else {
        return Err(ArrowError::CastError(format!("a union cannot become {to}")));
    };
    let union = array.as_union();
    let children = fields
        .iter()
        .map(|(id, field)| convert(union.child(id), field.data_type()))
        .collect::<Result<Vec<_>>>()?;
    let (ids, offsets) = (union.type_ids().clone(), union.offsets().cloned());
    Ok(Arc::new(UnionArray::try_new(
        fields.clone(),
        ids,
        offsets,
        children,
    )?))
}

/// Any kind of list with offsets of this width.
fn list<O: OffsetSizeTrait>(array: &ArrayRef, items: &FieldRef) -> Result<ArrayRef> {
    let (offsets, values) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (resized(list.offsets())?, Arc::clone(list.values()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (resized(list.offsets())?, Arc::clone(list.values()))
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            (resized(map.offsets())?, entries)
        }
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let lengths = std::iter::repeat_n(*size as usize, list.len());
            (offsets_of(lengths)?, Arc::clone(list.values()))
        }
        DataType::ListView(_) => gathered(array.as_list_view::<i32>())?,
        DataType::LargeListView(_) => gathered(array.as_list_view::<i64>())?,
        other => {
            return Err(ArrowError::CastError(format!(
                "{other} cannot become a list"
            )));
        }
    };
    let values = convert(&values, items.data_type())?;
    let nulls = array.nulls().cloned();
    Ok(Arc::new(GenericListArray::<O>::try_new(
        Arc::clone(items),
        offsets,
        values,
        nulls,
    )?))
}

fn too_long() -> ArrowError {
    ArrowError::CastError("the offsets of a list do not fit 32 bits".to_owned())
}

/// Offsets of another width.
fn resized<I: OffsetSizeTrait, O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<I>,
) -> Result<OffsetBuffer<O>> {
    // The greatest is the last.
    let last = offsets.last().map_or(0, |last| last.as_usize());
    O::from_usize(last).ok_or_else(too_long)?;
    let resized = offsets.iter().map(|offset| O::usize_as(offset.as_usize()));
    Ok(OffsetBuffer::new(resized.collect()))
}

fn offsets_of<O: OffsetSizeTrait>(lengths: impl Iterator<Item = usize>) -> Result<OffsetBuffer<O>> {
    let (mut end, mut offsets) = (0_usize, vec![O::usize_as(0)]);
    for length in lengths {
        end += length;
        offsets.push(O::from_usize(end).ok_or_else(too_long)?);
    }
    Ok(OffsetBuffer::new(offsets.into()))
}

/// The items of views one list after the other. Where they lie like that already they are not copied.
fn gathered<I: OffsetSizeTrait, O: OffsetSizeTrait>(
    views: &GenericListViewArray<I>,
) -> Result<(OffsetBuffer<O>, ArrayRef)> {
    // What lies beneath a null may be anything.
    let nulls: Option<&NullBuffer> = views.nulls();
    let size = |row: usize, size: &I| match nulls {
        Some(nulls) if nulls.is_null(row) => 0,
        _ => size.as_usize(),
    };
    let sizes: Vec<usize> = views
        .sizes()
        .iter()
        .enumerate()
        .map(|(row, s)| size(row, s))
        .collect();
    let offsets = offsets_of(sizes.iter().copied())?;
    let mut filled = views
        .offsets()
        .iter()
        .zip(&sizes)
        .filter(|(_, size)| **size > 0);
    let first = filled
        .clone()
        .next()
        .map_or(0, |(offset, _)| offset.as_usize());
    let mut expected = first;
    let is_sequential = filled.all(|(offset, size)| {
        let fits = offset.as_usize() == expected;
        expected += size;
        fits
    });
    if is_sequential {
        return Ok((offsets, views.values().slice(first, expected - first)));
    }
    let at = views
        .offsets()
        .iter()
        .zip(&sizes)
        .flat_map(|(offset, size)| {
            let start = offset.as_usize() as i64;
            start..start + *size as i64
        });
    let at = Int64Array::from_iter_values(at);
    Ok((offsets, take(views.values(), &at, None)?))
}

fn same_views<O: OffsetSizeTrait>(array: &ArrayRef, items: &FieldRef) -> Result<ArrayRef> {
    let views = array.as_list_view::<O>();
    let made = GenericListViewArray::<O>::try_new(
        Arc::clone(items),
        views.offsets().clone(),
        views.sizes().clone(),
        convert(views.values(), items.data_type())?,
        views.nulls().cloned(),
    )?;
    Ok(Arc::new(made))
}
