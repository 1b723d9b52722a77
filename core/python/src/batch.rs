//! Rows that have come.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::capsule;
use crate::schema::PySchema;

/// Rows that have come, as one Arrow array of structs. Their memory is freed with the last array that points into it.
#[pyclass(name = "Batch", module = "lightstream_core", frozen)]
pub(crate) struct PyBatch(pub(crate) RecordBatch);

#[pymethods]
impl PyBatch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[getter]
    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    /// Bytes of the buffers that the arrays point into, shared ones counted once for each array.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.get_array_memory_size()
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(self.0.schema())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, self.0.schema_ref())
    }

    /// The rows as they are: what is requested is not looked at.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        capsule::batch_capsules(py, &self.0)
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.0.num_rows(), self.0.num_columns());
        format!("Batch({rows} rows, {columns} columns)")
    }
}
