//! Cuts batches by rows so that each part encodes to about a given size.
//!
//! Measures what a slice really takes, not what its buffers hold. Dictionaries do not count, only their keys.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{
    Array, ArrayRef, GenericListViewArray, OffsetSizeTrait, RecordBatch, RunArray, UnionArray,
};
use arrow_buffer::{ArrowNativeType, OffsetBuffer};
use arrow_schema::{DataType, UnionFields, UnionMode};

/// Cuts a batch into slices that encode to about `max_bytes` each, of at least one row.
///
/// The slices share the buffers of the batch. A batch that fits, or has no rows, comes back as it is, and so does one
/// that more cuts would not make smaller. The padding of buffers and the metadata (a few hundred bytes for each column)
/// come on top of the size.
pub fn cut_rows(batch: &RecordBatch, max_bytes: usize) -> Vec<RecordBatch> {
    let mut parts = Vec::new();
    cut(batch, max_bytes.max(1), &mut parts);
    parts
}

fn cut(batch: &RecordBatch, max_bytes: usize, parts: &mut Vec<RecordBatch>) {
    let rows = batch.num_rows();
    let whole = batch_bytes(batch);
    // What little is over the size is not worth another frame.
    let tolerance = max_bytes / 16;
    if rows <= 1 || whole <= max_bytes.saturating_add(tolerance) {
        parts.push(batch.clone());
        return;
    }
    let most = (whole - tolerance).div_ceil(max_bytes).min(rows);
    // Slices may share what each has to send again (one long run, one long string behind many views). They are only
    // worth while as long as that does not outweigh the rest.
    for (count, tolerated) in [(most, whole / 4), (2, whole / 2)] {
        let slices = slices(batch, count);
        let sum = slices
            .iter()
            .map(batch_bytes)
            .fold(0, usize::saturating_add);
        if sum <= whole.saturating_add(tolerated) {
            slices.iter().for_each(|slice| cut(slice, max_bytes, parts));
            return;
        }
    }
    parts.push(batch.clone());
}

fn slices(batch: &RecordBatch, count: usize) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    let step = rows.div_ceil(count.max(1)).max(1);
    (0..rows)
        .step_by(step)
        .map(|start| batch.slice(start, step.min(rows - start)))
        .collect()
}

fn batch_bytes(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(bytes)
        .fold(0, usize::saturating_add)
}

/// The bytes of an array, sliced as it is, without padding.
fn bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    let validity = if array.null_count() > 0 {
        rows.div_ceil(8)
    } else {
        0
    };
    let values = match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8 => spanned(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => spanned(array.as_string::<i64>().offsets()),
        DataType::Binary => spanned(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => spanned(array.as_binary::<i64>().offsets()),
        DataType::Utf8View => {
            let views = array.as_string_view();
            viewed(rows, views.data_buffers(), || {
                views.total_buffer_bytes_used()
            })
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            viewed(rows, views.data_buffers(), || {
                views.total_buffer_bytes_used()
            })
        }
        DataType::FixedSizeBinary(width) => rows.saturating_mul(width.as_usize()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            children(list.offsets(), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            children(list.offsets(), list.values())
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            children(map.offsets(), &entries)
        }
        DataType::ListView(_) => viewed_children(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => viewed_children(array.as_list_view::<i64>()),
        DataType::FixedSizeList(_, _) => bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array
            .as_struct()
            .columns()
            .iter()
            .map(bytes)
            .fold(0, usize::saturating_add),
        DataType::Union(fields, mode) => union(array.as_union(), fields, *mode),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs(array.as_run::<Int16Type>()),
            DataType::Int32 => runs(array.as_run::<Int32Type>()),
            _ => runs(array.as_run::<Int64Type>()),
        },
        DataType::Dictionary(keys, _) => {
            rows.saturating_mul(keys.primitive_width().unwrap_or(size_of::<i64>()))
        }
        primitive => rows.saturating_mul(primitive.primitive_width().unwrap_or(0)),
    };
    validity.saturating_add(values)
}

fn span<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (usize, usize) {
    let first = offsets.first().map_or(0, |offset| offset.as_usize());
    let last = offsets.last().map_or(0, |offset| offset.as_usize());
    (first, last - first)
}

/// Offsets and what they span, for strings and the like.
fn spanned<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> usize {
    size_of_val::<[O]>(offsets) + span(offsets).1
}

fn children<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &ArrayRef) -> usize {
    let (start, length) = span(offsets);
    size_of_val::<[O]>(offsets) + bytes(&values.slice(start, length))
}

/// Views and their bytes: all that are held, or those shown when they are less than half, as the encoder has it.
fn viewed(rows: usize, held: &[arrow_buffer::Buffer], shown: impl Fn() -> usize) -> usize {
    let held: usize = held.iter().map(arrow_buffer::Buffer::len).sum();
    let data = if held == 0 {
        0
    } else {
        Some(shown())
            .filter(|shown| *shown < held / 2)
            .unwrap_or(held)
    };
    rows.saturating_mul(size_of::<u128>()).saturating_add(data)
}

/// The share of the bytes of a child that `shown` of its elements take.
fn share(child: &ArrayRef, shown: usize) -> usize {
    let (all, held) = (bytes(child), child.len());
    if shown >= held {
        return all;
    }
    let share = all as u128 * shown as u128 / held as u128;
    usize::try_from(share).unwrap_or(all)
}

fn viewed_children<O: OffsetSizeTrait>(list: &GenericListViewArray<O>) -> usize {
    let shown: usize = list.sizes().iter().map(|size| size.as_usize()).sum();
    let headers = list.len().saturating_mul(2 * size_of::<O>());
    headers.saturating_add(share(list.values(), shown))
}

fn union(union: &UnionArray, fields: &UnionFields, mode: UnionMode) -> usize {
    if mode == UnionMode::Sparse {
        let children = fields.iter().map(|(id, _)| bytes(union.child(id)));
        return children.fold(union.len(), usize::saturating_add);
    }
    let mut shown = [0_usize; 128];
    for id in union.type_ids() {
        if let Some(shown) = shown.get_mut(id.as_usize()) {
            *shown += 1;
        }
    }
    let headers = union.len().saturating_mul(1 + size_of::<i32>());
    let children = fields.iter().map(|(id, _)| {
        share(
            union.child(id),
            shown.get(id.as_usize()).copied().unwrap_or(0),
        )
    });
    children.fold(headers, usize::saturating_add)
}

fn runs<R: RunEndIndexType>(runs: &RunArray<R>) -> usize {
    let ends = runs.run_ends();
    if ends.is_empty() {
        return 0;
    }
    let first = ends.get_start_physical_index();
    let count = ends.get_end_physical_index() - first + 1;
    count * size_of::<R::Native>() + bytes(&runs.values().slice(first, count))
}
