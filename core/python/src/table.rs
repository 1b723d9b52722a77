//! What a table is, at a snapshot.

use std::sync::Arc;

use lightstream_core::protocol::statistics::Precision;
use lightstream_core::protocol::table::{SortColumn, TableInfo};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule;
use crate::schema::PySchema;

/// An order: for each column its path, whether it descends, and whether nulls come first.
pub(crate) type Ordering = Vec<(Vec<String>, bool, bool)>;

pub(crate) fn ordering(columns: &[SortColumn]) -> Ordering {
    columns
        .iter()
        .map(|column| (column.path.clone(), column.descending, column.nulls_first))
        .collect()
}

/// The number where it is certain.
pub(crate) fn exact(precision: Precision) -> Option<u64> {
    match precision {
        Precision::Exact(value) => Some(value),
        _ => None,
    }
}

/// A table as the server describes it, at one snapshot.
#[pyclass(name = "Table", module = "lightstream_core", frozen)]
pub(crate) struct PyTable(pub(crate) TableInfo);

#[pymethods]
impl PyTable {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(Arc::clone(&self.0.schema))
    }

    /// The state that is described; None where it does not outlive a scan.
    #[getter]
    fn snapshot(&self) -> Option<&str> {
        self.0.snapshot.as_deref()
    }

    /// How many rows there are, where that is known for certain.
    #[getter]
    fn num_rows(&self) -> Option<u64> {
        exact(self.0.statistics.rows)
    }

    /// How many rows there are, as far as is known.
    #[getter]
    fn estimated_rows(&self) -> Option<u64> {
        self.0.statistics.rows.value()
    }

    /// Bytes in memory, as far as is known.
    #[getter]
    fn nbytes(&self) -> Option<u64> {
        self.0.statistics.bytes.value()
    }

    /// The order of the rows: for each column its path, whether it descends, and whether nulls come first.
    #[getter]
    fn ordering(&self) -> Ordering {
        ordering(&self.0.ordering)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, &self.0.schema)
    }

    fn __repr__(&self) -> String {
        let rows = match self.0.statistics.rows {
            Precision::Exact(rows) => format!("{rows} rows"),
            Precision::Inexact(rows) => format!("about {rows} rows"),
            Precision::Absent => "rows not counted".to_owned(),
        };
        format!(
            "Table({:?}, {rows}, {} columns)",
            self.0.name,
            self.0.schema.fields().len()
        )
    }
}
