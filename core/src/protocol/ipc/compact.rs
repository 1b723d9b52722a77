//! Rewrites arrays that Arrow's encoder would send in full, or wrongly, when they are slices.
//!
//! - Views ship all their data buffers; those that show less than half of them are rewritten.
//! - Unions that are children of lists are written without regard to their offset, dense ones with whole children.
//! - List views ship their whole child.
//! - Empty slices of run-end encoded arrays get a run that ends at zero.
//!
//! Arrays of other types are handed on untouched.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, PrimitiveArray, RunArray, StructArray, UInt64Array, UnionArray,
};
use arrow_buffer::{ArrowNativeType, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef, UnionFields, UnionMode};

use crate::{Error, Result};

/// The array itself where nothing is to be gained, else an equal one of the same type that is sound to encode.
pub(super) fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    if is_plain(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    rewrite(array).map_err(|error| Error::internal(error.to_string()).with_source(error))
}

/// Whether arrays of this type, sliced or not, are encoded well as they are.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View
        | DataType::BinaryView
        | DataType::Union(_, _)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::RunEndEncoded(_, _) => false,
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => is_plain(child.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_plain(field.data_type())),
        DataType::Dictionary(_, values) => is_plain(values),
        _ => true,
    }
}

/// Whether Arrow's `take` keeps the length of arrays of this type: it loses that of elements without any bytes.
fn can_be_taken(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => false,
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _)
        | DataType::RunEndEncoded(_, child) => can_be_taken(child.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| can_be_taken(field.data_type())),
        DataType::Union(fields, _) => fields
            .iter()
            .all(|(_, field)| can_be_taken(field.data_type())),
        _ => true,
    }
}

type Rewritten = Result<ArrayRef, ArrowError>;

fn rewrite(array: &ArrayRef) -> Rewritten {
    match array.data_type() {
        data_type if is_plain(data_type) => Ok(Arc::clone(array)),
        DataType::Utf8View => {
            let views = array.as_string_view();
            let sparse = is_sparse(views.total_buffer_bytes_used(), views.data_buffers());
            Ok(if sparse {
                Arc::new(views.gc())
            } else {
                Arc::clone(array)
            })
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            let sparse = is_sparse(views.total_buffer_bytes_used(), views.data_buffers());
            Ok(if sparse {
                Arc::new(views.gc())
            } else {
                Arc::clone(array)
            })
        }
        DataType::List(field) => list(array.as_list::<i32>(), field),
        DataType::LargeList(field) => list(array.as_list::<i64>(), field),
        DataType::ListView(field) => list_view(array.as_list_view::<i32>(), field),
        DataType::LargeListView(field) => list_view(array.as_list_view::<i64>(), field),
        DataType::Map(field, is_sorted) => map(array.as_map(), field, *is_sorted),
        DataType::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(
                Arc::clone(field),
                *size,
                rewrite(list.values())?,
                list.nulls().cloned(),
                list.len(),
            )?))
        }
        DataType::Struct(fields) => {
            let structs = array.as_struct();
            let columns = structs
                .columns()
                .iter()
                .map(rewrite)
                .collect::<Result<_, _>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                structs.nulls().cloned(),
                structs.len(),
            )?))
        }
        DataType::Union(fields, mode) => union(array.as_union(), fields, *mode),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs(array.as_run::<Int16Type>()),
            DataType::Int32 => runs(array.as_run::<Int32Type>()),
            _ => runs(array.as_run::<Int64Type>()),
        },
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            Ok(dictionary.with_values(rewrite(dictionary.values())?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn is_sparse(used_bytes: usize, buffers: &[arrow_buffer::Buffer]) -> bool {
    let held_bytes: usize = buffers.iter().map(arrow_buffer::Buffer::len).sum();
    used_bytes < held_bytes / 2
}

/// Offsets that start at zero, and the range of the child that they cover.
fn rebase<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let first = offsets.first().copied().unwrap_or_default();
    let last = offsets.last().copied().unwrap_or_default();
    let rebased = if first == O::zero() {
        offsets.clone()
    } else {
        OffsetBuffer::new(offsets.iter().map(|offset| *offset - first).collect())
    };
    (rebased, first.as_usize(), (last - first).as_usize())
}

fn list<O: OffsetSizeTrait>(list: &GenericListArray<O>, field: &FieldRef) -> Rewritten {
    let (offsets, start, length) = rebase(list.offsets());
    let values = rewrite(&list.values().slice(start, length))?;
    let nulls = list.nulls().cloned();
    Ok(Arc::new(GenericListArray::try_new(
        Arc::clone(field),
        offsets,
        values,
        nulls,
    )?))
}

fn map(map: &MapArray, field: &FieldRef, is_sorted: bool) -> Rewritten {
    let (offsets, start, length) = rebase(map.offsets());
    let entries: ArrayRef = Arc::new(map.entries().slice(start, length));
    let entries = rewrite(&entries)?.as_struct().clone();
    let nulls = map.nulls().cloned();
    Ok(Arc::new(MapArray::try_new(
        Arc::clone(field),
        offsets,
        entries,
        nulls,
        is_sorted,
    )?))
}

fn list_view<O: OffsetSizeTrait>(list: &GenericListViewArray<O>, field: &FieldRef) -> Rewritten {
    let shown: usize = list.sizes().iter().map(|size| size.as_usize()).sum();
    let held = list.values().len();
    let (offsets, values) = if shown < held / 2 && can_be_taken(field.data_type()) {
        let mut indices = Vec::with_capacity(shown);
        let mut offsets = Vec::with_capacity(list.len());
        for (offset, size) in list.offsets().iter().zip(list.sizes()) {
            offsets.push(O::usize_as(indices.len()));
            let start = offset.as_usize() as u64;
            indices.extend(start..start + size.as_usize() as u64);
        }
        let indices = UInt64Array::from(indices);
        let values = arrow_select::take::take(list.values(), &indices, None)?;
        (ScalarBuffer::from(offsets), values)
    } else {
        (list.offsets().clone(), Arc::clone(list.values()))
    };
    Ok(Arc::new(GenericListViewArray::try_new(
        Arc::clone(field),
        offsets,
        list.sizes().clone(),
        rewrite(&values)?,
        list.nulls().cloned(),
    )?))
}

fn union(union: &UnionArray, fields: &UnionFields, mode: UnionMode) -> Rewritten {
    let held: usize = fields.iter().map(|(id, _)| union.child(id).len()).sum();
    let type_ids = union.type_ids().clone();
    let mut offsets = union.offsets().cloned();
    let mut children = Vec::with_capacity(fields.len());
    let take_apart = mode == UnionMode::Dense
        && union.len() < held / 2
        && fields
            .iter()
            .all(|(_, field)| can_be_taken(field.data_type()));
    if take_apart && let Some(old) = &offsets {
        let mut indices: [Vec<u64>; 128] = std::array::from_fn(|_| Vec::new());
        let mut new = Vec::with_capacity(union.len());
        for (id, offset) in type_ids.iter().zip(old.iter()) {
            if let Some(indices) = indices.get_mut(id.as_usize()) {
                new.push(i32::usize_as(indices.len()));
                indices.push(offset.as_usize() as u64);
            }
        }
        for (id, _) in fields.iter() {
            let indices = indices
                .get_mut(id.as_usize())
                .map(std::mem::take)
                .unwrap_or_default();
            let indices = UInt64Array::from(indices);
            children.push(arrow_select::take::take(union.child(id), &indices, None)?);
        }
        offsets = Some(ScalarBuffer::from(new));
    } else {
        children.extend(fields.iter().map(|(id, _)| Arc::clone(union.child(id))));
    }
    let children = children.iter().map(rewrite).collect::<Result<_, _>>()?;
    Ok(Arc::new(UnionArray::try_new(
        fields.clone(),
        type_ids,
        offsets,
        children,
    )?))
}

fn runs<R: RunEndIndexType>(runs: &RunArray<R>) -> Rewritten {
    let ends = runs.run_ends();
    let (ends, values) = if ends.is_empty() {
        (Vec::new(), runs.values().slice(0, 0))
    } else {
        let first = ends.get_start_physical_index();
        let count = ends.get_end_physical_index() - first + 1;
        // The runs of a slice, counted from its start, the last cut at its end.
        let rebased = ends.values().iter().skip(first).take(count).map(|end| {
            let end = end.as_usize().saturating_sub(ends.offset());
            R::Native::usize_as(end.min(ends.len()))
        });
        (rebased.collect(), runs.values().slice(first, count))
    };
    let ends = PrimitiveArray::<R>::new(ScalarBuffer::from(ends), None);
    let data = ArrayData::builder(runs.data_type().clone())
        .len(runs.len())
        .add_child_data(ends.to_data())
        .add_child_data(rewrite(&values)?.to_data())
        .build()?;
    Ok(Arc::new(RunArray::<R>::from(data)))
}
