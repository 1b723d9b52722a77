//! Whether an array of Arrow's C interface has the buffers and children that its schema speaks of.
//!
//! Looked at before anything is taken over: what is built on a wrong shape reads memory that is not there. Buffers do not
//! say how long they are, so a type of the same shape (such as a wider number) cannot be told from the right one.

use arrow_array::ffi::FFI_ArrowArray;
use arrow_data::layout;
use arrow_schema::{ArrowError, DataType, UnionMode};

type Result<T> = std::result::Result<T, ArrowError>;

/// Checks an array, and all arrays within it.
///
/// # Errors
/// `CDataInterface` that names the place within the array and what is wrong there.
pub(crate) fn check(array: &FFI_ArrowArray, data_type: &DataType) -> Result<()> {
    check_at(array, data_type, "")
}

fn check_at(array: &FFI_ArrowArray, data_type: &DataType, at: &str) -> Result<()> {
    let place = if at.is_empty() {
        "the array".to_owned()
    } else {
        format!("column {at:?}")
    };
    let refused = |why: String| {
        Err(ArrowError::CDataInterface(format!(
            "the array does not match its schema: {place} of the type {data_type} {why}"
        )))
    };
    let end = isize::try_from(array.len())
        .ok()
        .zip(isize::try_from(array.offset()).ok())
        .and_then(|(rows, offset)| rows.checked_add(offset));
    let Some(end) = end.and_then(|end| usize::try_from(end).ok()) else {
        return refused("has a negative length or offset".to_owned());
    };
    if let DataType::FixedSizeBinary(size) | DataType::FixedSizeList(_, size) = data_type
        && *size < 0
    {
        return refused("has a negative size".to_owned());
    }
    let layout = layout(data_type);
    let least = layout.buffers.len()
        + usize::from(layout.can_contain_null_mask)
        + usize::from(layout.variadic);
    let buffers = array.num_buffers();
    let has_all = if layout.variadic {
        // The number as it came may be negative.
        buffers >= least && isize::try_from(buffers).is_ok()
    } else {
        buffers == least
    };
    if !has_all {
        return refused(format!("has {buffers} buffers where {least} are needed"));
    }
    if layout.variadic && buffers > least && array.buffer(buffers - 1).is_null() {
        return refused("does not say how long its buffers are".to_owned());
    }
    let children = children(data_type);
    if array.num_children() != children.len() {
        return refused(format!(
            "has {} children where {} are needed",
            array.num_children(),
            children.len()
        ));
    }
    for (index, (name, child_type, rows)) in children.into_iter().enumerate() {
        let child = array.child(index);
        let inner = match at {
            "" => name.to_owned(),
            _ => format!("{at}.{name}"),
        };
        check_at(child, child_type, &inner)?;
        let least = rows.and_then(|rows| end.checked_mul(rows));
        if rows.is_some() && least.is_none_or(|least| child.len() < least) {
            return refused(format!(
                "is {end} rows long, and {inner:?} within it has only {} values",
                child.len()
            ));
        }
    }
    match (array.dictionary(), data_type) {
        (Some(values), DataType::Dictionary(_, value_type)) => check_at(values, value_type, at),
        (None, DataType::Dictionary(_, _)) => refused("has no dictionary".to_owned()),
        (Some(_), _) => refused("has a dictionary".to_owned()),
        (None, _) => Ok(()),
    }
}

/// The arrays within one of this type: name, type, and how many values there are at least for each row, where the type
/// alone says so.
fn children(data_type: &DataType) -> Vec<(&str, &DataType, Option<usize>)> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => vec![(field.name(), field.data_type(), None)],
        DataType::FixedSizeList(field, size) => {
            let size = usize::try_from(*size).ok();
            vec![(field.name(), field.data_type(), size)]
        }
        DataType::Struct(fields) => fields
            .iter()
            .map(|field| (field.name().as_str(), field.data_type(), Some(1)))
            .collect(),
        DataType::Union(fields, mode) => {
            let rows = (*mode == UnionMode::Sparse).then_some(1);
            fields
                .iter()
                .map(|(_, field)| (field.name().as_str(), field.data_type(), rows))
                .collect()
        }
        DataType::RunEndEncoded(ends, values) => vec![
            (ends.name(), ends.data_type(), None),
            (values.name(), values.data_type(), None),
        ],
        _ => Vec::new(),
    }
}
