//! Arrow's C data interface through Python capsules, both ways, without copying.
//!
//! What comes in was made by code in this process. What can be checked of it is, before it is used; that buffers are as
//! long as they must be is believed, as the interface does not tell.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray, make_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use lightstream_core::Error;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors::to_python;
use crate::shape;
use crate::stream::ArrayStream;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

fn broken(py: Python<'_>, error: ArrowError) -> PyErr {
    to_python(
        py,
        &Error::invalid_argument(format!("Arrow data that cannot be taken over: {error}"))
            .with_source(error),
    )
}

/// The struct within a capsule of this name.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<T>> {
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err("an Arrow export gave something else than a capsule"))?;
    Ok(capsule.pointer_checked(Some(name))?.cast())
}

/// Takes the stream out of a capsule.
fn take_stream(capsule: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowArrayStream> {
    let stream = pointer::<FFI_ArrowArrayStream>(capsule, STREAM)?;
    // SAFETY: a capsule of this name holds a valid stream, which is marked as taken.
    let taken = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    if taken.release.is_none() {
        return Err(PyValueError::new_err("the Arrow stream was taken before"));
    }
    Ok(taken)
}

/// Takes the array out of a pair of capsules.
fn take_array(exported: &Bound<'_, PyAny>) -> PyResult<(FFI_ArrowArray, FFI_ArrowSchema)> {
    let pair = exported.cast::<PyTuple>()?;
    let schema = pointer::<FFI_ArrowSchema>(&pair.get_item(0)?, SCHEMA)?;
    let array = pointer::<FFI_ArrowArray>(&pair.get_item(1)?, ARRAY)?;
    // SAFETY: capsules of these names hold valid structs, which are marked as taken.
    let (array, schema) = unsafe {
        (
            FFI_ArrowArray::from_raw(array.as_ptr()),
            FFI_ArrowSchema::from_raw(schema.as_ptr()),
        )
    };
    if array.is_released() {
        return Err(PyValueError::new_err("the Arrow array was taken before"));
    }
    Ok((array, schema))
}

fn export<'py>(
    value: &Bound<'py, PyAny>,
    method: &Bound<'py, pyo3::types::PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match value.getattr_opt(method)? {
        None => Ok(None),
        Some(export) => export.call0().map(Some),
    }
}

/// An array that was exported, under the type that was exported with it.
///
/// # Errors
/// `CDataInterface` and `InvalidArgumentError` where it does not match the type, or its values are not sound.
pub(crate) fn imported(
    array: FFI_ArrowArray,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    shape::check(&array, data_type)?;
    // SAFETY: the array has the buffers and children that the type wants; how long buffers are is believed.
    let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }?;
    data.validate_full()?;
    Ok(make_array(data))
}

/// The arrays of an object with `__arrow_c_stream__`, unread; `None` where it has none.
///
/// # Errors
/// What the object raises; `invalid_argument` where the stream cannot say its type.
pub(crate) fn stream_of(value: &Bound<'_, PyAny>) -> PyResult<Option<ArrayStream>> {
    let py = value.py();
    let Some(capsule) = export(value, intern!(py, "__arrow_c_stream__"))? else {
        return Ok(None);
    };
    let stream = take_stream(&capsule)?;
    ArrayStream::try_new(stream)
        .map(Some)
        .map_err(|error| broken(py, error))
}

/// The array of an object with `__arrow_c_array__`; `None` where it has none.
///
/// # Errors
/// What the object raises; `invalid_argument` where it is no array.
pub(crate) fn array_of(value: &Bound<'_, PyAny>) -> PyResult<Option<(Field, ArrayRef)>> {
    let py = value.py();
    let Some(exported) = export(value, intern!(py, "__arrow_c_array__"))? else {
        return Ok(None);
    };
    let (array, schema) = take_array(&exported)?;
    let field = Field::try_from(&schema).map_err(|error| broken(py, error))?;
    let array = imported(array, field.data_type()).map_err(|error| broken(py, error))?;
    Ok(Some((field, array)))
}

/// The rows of an object with `__arrow_c_array__` whose items are structs; `None` where it has no array.
///
/// # Errors
/// As [`array_of`], and `TypeError` for items of another type, or that may be null as a whole.
pub(crate) fn batch_of(value: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
    let Some((field, array)) = array_of(value)? else {
        return Ok(None);
    };
    let Some(rows) = array.as_any().downcast_ref::<StructArray>() else {
        return Err(PyTypeError::new_err(format!(
            "rows are an array of structs, not of {}",
            array.data_type()
        )));
    };
    if rows.null_count() > 0 {
        return Err(PyTypeError::new_err("a row cannot be null as a whole"));
    }
    let schema = Schema::new_with_metadata(rows.fields().clone(), field.metadata().clone());
    let rows = RecordBatch::from(rows.clone());
    rows.with_schema(Arc::new(schema))
        .map(Some)
        .map_err(|error| broken(value.py(), error))
}

/// The schema of an object with `__arrow_c_schema__`, as a field.
///
/// # Errors
/// `TypeError` where it has none, and what the object raises.
pub(crate) fn field_of(value: &Bound<'_, PyAny>) -> PyResult<Field> {
    let py = value.py();
    let Some(capsule) = export(value, intern!(py, "__arrow_c_schema__"))? else {
        return Err(PyTypeError::new_err(format!(
            "{} has no __arrow_c_schema__",
            value.get_type().name()?
        )));
    };
    let schema = pointer::<FFI_ArrowSchema>(&capsule, SCHEMA)?;
    // SAFETY: a capsule of this name holds a valid schema, which lives while the capsule does.
    let schema = unsafe { schema.as_ref() };
    Field::try_from(schema).map_err(|error| broken(py, error))
}

/// The schema of rows: that of an object with `__arrow_c_schema__` whose type is a struct.
///
/// # Errors
/// As [`field_of`], and `TypeError` for a single type.
pub(crate) fn schema_of(value: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    schema_of_rows(&field_of(value)?)
}

/// The schema of rows that are structs of this type.
///
/// # Errors
/// `TypeError` for another type.
pub(crate) fn schema_of_rows(field: &Field) -> PyResult<SchemaRef> {
    match field.data_type() {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new_with_metadata(
            fields.clone(),
            field.metadata().clone(),
        ))),
        other => Err(PyTypeError::new_err(format!(
            "a schema of columns is wanted, not the type {other}"
        ))),
    }
}

/// All values of an object with `__arrow_c_array__`, or of one with `__arrow_c_stream__` (whose items need be no rows).
///
/// # Errors
/// `TypeError` where it has neither, and what the object raises.
pub(crate) fn values_of(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let py = value.py();
    if let Some((_, array)) = array_of(value)? {
        return Ok(array);
    }
    let Some(mut stream) = stream_of(value)? else {
        return Err(PyTypeError::new_err(format!(
            "{} has neither __arrow_c_array__ nor __arrow_c_stream__",
            value.get_type().name()?
        )));
    };
    // An empty one first, so that there is one.
    let mut chunks = vec![arrow_array::new_empty_array(stream.field().data_type())];
    while let Some(chunk) = stream.next().map_err(|error| broken(py, error))? {
        chunks.push(chunk);
    }
    let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
    arrow_select::concat::concat(&chunks).map_err(|error| broken(py, error))
}

/// A schema as a capsule.
///
/// # Errors
/// `invalid_argument` for a type that the interface does not know.
pub(crate) fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| broken(py, error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// A field's type as a capsule.
///
/// # Errors
/// As [`schema_capsule`].
pub(crate) fn field_capsule<'py>(
    py: Python<'py>,
    field: &Field,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(field).map_err(|error| broken(py, error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Rows as a pair of capsules.
///
/// # Errors
/// As [`schema_capsule`].
pub(crate) fn batch_capsules<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> PyResult<Bound<'py, PyTuple>> {
    let rows = StructArray::from(batch.clone());
    let (array, _) = to_ffi(&rows.to_data()).map_err(|error| broken(py, error))?;
    let schema = schema_capsule(py, batch.schema_ref())?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    PyTuple::new(py, [schema, array])
}

/// Rows to come as a capsule.
///
/// # Errors
/// Only those of making a capsule.
pub(crate) fn stream_capsule(
    py: Python<'_>,
    rows: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(rows), STREAM)
}
