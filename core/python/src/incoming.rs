//! Rows that Python gives: as an Arrow array, as an Arrow stream, or batch by batch.
//!
//! A stream of Arrow's C interface says its schema once, and its batches say none. So an object that can be iterated is
//! iterated: then each batch has a schema of its own, and one that differs is an error before its memory is looked at.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::SchemaRef;
use lightstream_core::Error;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::capsule;
use crate::reader::PyReader;
use crate::stream::ArrayStream;

/// Why there are no more rows.
pub(crate) enum Fault {
    /// Python code raised this.
    Raised(PyErr),
    /// The rows are not what was said of them.
    Broken(Error),
}

impl From<PyErr> for Fault {
    fn from(raised: PyErr) -> Self {
        Fault::Raised(raised)
    }
}

enum Source {
    One(Option<RecordBatch>),
    Stream(ArrayStream),
    Iterator(Iterated),
}

/// Rows that are pulled out of Python objects. Pulling and dropping may enter Python.
pub(crate) struct Incoming {
    schema: SchemaRef,
    source: Source,
}

impl Incoming {
    /// The rows of anything that exports an Arrow stream or array; `None` where it does neither.
    ///
    /// # Errors
    /// What the object raises; `TypeError` and `ValueError` for what exports no rows, or has given them before.
    pub(crate) fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if value.hasattr(intern!(value.py(), "__next__"))? {
            refuse_second_read(value)?;
            if let Some(iterated) = Self::iterated(value)? {
                return Ok(Some(iterated));
            }
        }
        if let Some(stream) = capsule::stream_of(value)? {
            let schema = capsule::schema_of_rows(stream.field())?;
            return Ok(Some(Self {
                schema,
                source: Source::Stream(stream),
            }));
        }
        Ok(capsule::batch_of(value)?.map(|batch| Self {
            schema: batch.schema(),
            source: Source::One(Some(batch)),
        }))
    }

    /// The rows of an iterator of batches that has a schema, such as a reader of pyarrow's. What this package itself
    /// reads has the schema that it says, and need not be asked for it again.
    fn iterated(value: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = value.py();
        if value.is_instance_of::<PyReader>()
            || !value.hasattr(intern!(py, "__arrow_c_stream__"))?
        {
            return Ok(None);
        }
        let Some(schema) = value.getattr_opt(intern!(py, "schema"))? else {
            return Ok(None);
        };
        if !schema.hasattr(intern!(py, "__arrow_c_schema__"))? {
            return Ok(None);
        }
        Ok(Some(Self {
            schema: capsule::schema_of(&schema)?,
            source: Source::Iterator(Iterated(Some(value.clone().unbind()))),
        }))
    }

    /// The schema of every batch.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` after the last. Nothing is to be asked for after a fault.
    ///
    /// To be called without Python's lock.
    ///
    /// # Errors
    /// What the maker of the rows raises, and rows that are not as the schema says.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, Fault> {
        match &mut self.source {
            Source::One(batch) => Ok(batch.take()),
            Source::Stream(stream) => {
                // The words are the maker's own.
                let said = |error: arrow_schema::ArrowError| {
                    let words = match &error {
                        arrow_schema::ArrowError::CDataInterface(words) => words.clone(),
                        other => other.to_string(),
                    };
                    Fault::Broken(Error::internal(words))
                };
                let array = stream.next().map_err(said)?;
                let rows = array.map(|array| rows_of(&array, &self.schema));
                rows.transpose().map_err(Fault::Broken)
            }
            Source::Iterator(iterated) => iterated.next(&self.schema),
        }
    }
}

/// An iterator of batches; none once it was given up.
struct Iterated(Option<Py<PyAny>>);

impl Iterated {
    fn next(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>, Fault> {
        let ending = || Error::cancelled("the interpreter that makes the rows is ending");
        let next = Python::try_attach(|py| {
            let Some(iterator) = &self.0 else {
                return Ok(None);
            };
            let Some(item) = iterator.bind(py).try_iter()?.next().transpose()? else {
                return Ok(None);
            };
            capsule::batch_of(&item)?.map(Some).ok_or_else(|| {
                PyTypeError::new_err("a batch has no __arrow_c_array__ to take its rows from")
            })
        });
        let batch = next.ok_or_else(|| Fault::Broken(ending()))??;
        let same = batch.map(|batch| as_declared(&batch, schema));
        same.transpose().map_err(Fault::Broken)
    }
}

impl Drop for Iterated {
    fn drop(&mut self) {
        // Now, and not when Python's lock happens to be had again: what it holds may be large.
        let mut iterator = self.0.take();
        Python::try_attach(|_| drop(iterator.take()));
        // The interpreter is gone, and with it all that was held.
        std::mem::forget(iterator);
    }
}

/// The batches of a stream are arrays of structs.
fn rows_of(array: &dyn Array, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let Some(rows) = array.as_any().downcast_ref::<StructArray>() else {
        return Err(Error::internal("the items of the stream are no rows"));
    };
    if rows.null_count() > 0 {
        return Err(Error::internal("a row cannot be null as a whole"));
    }
    batch(rows.columns().to_vec(), rows.len(), schema)
}

/// Columns that have the types of the schema.
fn batch(
    columns: Vec<arrow_array::ArrayRef>,
    rows: usize,
    schema: &SchemaRef,
) -> Result<RecordBatch, Error> {
    for (column, field) in columns.iter().zip(schema.fields()) {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(Error::internal(format!(
                "column {:?} has nulls, which its schema says it has not",
                field.name()
            )));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| {
        Error::internal(format!("the rows are not as their schema says: {error}"))
            .with_source(error)
    })
}

/// A batch that was made with a schema of its own, under the one that was declared.
fn as_declared(made: &RecordBatch, declared: &SchemaRef) -> Result<RecordBatch, Error> {
    let own = made.schema_ref();
    if own.fields().len() != declared.fields().len() {
        return Err(Error::internal(format!(
            "a batch has {} columns where the schema has {}",
            own.fields().len(),
            declared.fields().len()
        )));
    }
    for (index, (is, said)) in own.fields().iter().zip(declared.fields()).enumerate() {
        if is.name() != said.name() {
            return Err(Error::internal(format!(
                "column {index} of a batch is called {:?}, and {:?} in the schema",
                is.name(),
                said.name()
            )));
        }
        if is.data_type() != said.data_type() {
            return Err(Error::internal(format!(
                "column {:?} of a batch has the type {}, and {} in the schema",
                said.name(),
                is.data_type(),
                said.data_type()
            )));
        }
    }
    batch(made.columns().to_vec(), made.num_rows(), declared)
}

/// Refuses an iterator that was read, or taken to be read, before: it would seem to have no rows, or not all.
fn refuse_second_read(value: &Bound<'_, PyAny>) -> PyResult<()> {
    static TAKEN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let taken = TAKEN.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("weakref")?.getattr("WeakSet")?.call0()?.unbind())
    })?;
    let taken = taken.bind(py);
    if let Ok(reader) = value.cast::<PyReader>() {
        reader.get().refuse_where_ended(py)?;
    }
    // What cannot be remembered cannot be found again.
    match taken.contains(value) {
        Ok(true) => Err(PyValueError::new_err(
            "this stream was given before: its rows can be read once, so each table, and each call of a callable, needs a \
             new one",
        )),
        Ok(false) => {
            let _ = taken.call_method1(intern!(py, "add"), (value,));
            Ok(())
        }
        Err(_) => Ok(()),
    }
}
