//! Schemas of tables and scans.

use arrow_schema::{Field, SchemaRef};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule;

/// A column: its name, its Arrow type as text, and whether it may hold nulls.
#[pyclass(
    name = "Field",
    module = "lightstream_core",
    frozen,
    eq,
    from_py_object
)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyField(Field);

#[pymethods]
impl PyField {
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn r#type(&self) -> String {
        self.0.data_type().to_string()
    }

    #[getter]
    fn nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::field_capsule(py, &self.0)
    }

    fn __repr__(&self) -> String {
        let nullable = if self.0.is_nullable() {
            ""
        } else {
            " not null"
        };
        format!("{}: {}{nullable}", self.0.name(), self.0.data_type())
    }
}

/// The columns of a table or scan.
#[pyclass(
    name = "Schema",
    module = "lightstream_core",
    frozen,
    eq,
    from_py_object
)]
#[derive(Clone, PartialEq)]
pub(crate) struct PySchema(pub(crate) SchemaRef);

impl PySchema {
    fn fields(&self) -> Vec<PyField> {
        let fields = self.0.fields().iter();
        fields
            .map(|field| PyField(field.as_ref().clone()))
            .collect()
    }
}

#[pymethods]
impl PySchema {
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, &self.0)
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.fields().into_pyobject(py)?.try_iter()?.into_any())
    }

    /// A column by name or position.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<PyField> {
        if let Ok(name) = key.extract::<String>() {
            let found = self.0.fields().iter().find(|field| *field.name() == name);
            return found
                .map(|field| PyField(field.as_ref().clone()))
                .ok_or_else(|| PyKeyError::new_err(name));
        }
        let at: isize = key.extract()?;
        let fields = self.fields();
        let at = if at < 0 {
            at + fields.len() as isize
        } else {
            at
        };
        usize::try_from(at)
            .ok()
            .and_then(|at| fields.get(at).cloned())
            .ok_or_else(|| PyIndexError::new_err("no such column"))
    }

    fn __repr__(&self) -> String {
        let fields: Vec<String> = self.fields().iter().map(PyField::__repr__).collect();
        format!("Schema({})", fields.join(", "))
    }
}
