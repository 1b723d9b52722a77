//! Readers: the rows of a scan or partition, batch by batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::SchemaRef;
use lightstream_core::Error;
use lightstream_core::client::ReadMetrics;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::asyncio;
use crate::batch::PyBatch;
use crate::capsule;
use crate::errors::{IntoPython, to_python};
use crate::rows::{Exported, Rows};
use crate::runtime::{Owned, wait};
use crate::schema::PySchema;

/// The rows of a scan or partition, batch by batch, for loops and asynchronous loops.
///
/// It ends only once all rows have come and the server has said so; what is missing is an error. Nothing is sent before
/// the first batch is wanted, and no more is read than is wanted (but for what is on its way). Closing or dropping it
/// cancels the read at the server.
#[pyclass(name = "Reader", module = "lightstream_core", frozen)]
pub(crate) struct PyReader {
    rows: Owned<Arc<Rows>>,
    schema: SchemaRef,
    is_handed_over: AtomicBool,
}

impl PyReader {
    pub(crate) fn new(rows: Arc<Rows>) -> Self {
        Self {
            schema: Arc::clone(rows.schema()),
            rows: Owned::new(rows),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// The rows, for somebody who reads them through this.
    fn own_rows(&self, py: Python<'_>) -> PyResult<&Arc<Rows>> {
        if self.is_handed_over.load(Ordering::SeqCst) {
            let error = Error::invalid_argument(
                "the rows of this reader were handed over as an Arrow stream",
            );
            return Err(to_python(py, &error));
        }
        self.rows.get().or_raise(py)
    }

    /// For whoever takes it for rows that are yet to come.
    ///
    /// # Errors
    /// `invalid_argument` where it was read to its end, closed or handed over.
    pub(crate) fn refuse_where_ended(&self, py: Python<'_>) -> PyResult<()> {
        if self.own_rows(py)?.is_over() {
            let error = Error::invalid_argument("this reader was read to its end or closed before");
            return Err(to_python(py, &error));
        }
        Ok(())
    }

    fn sum(&self, py: Python<'_>, of: fn(&ReadMetrics) -> u64) -> PyResult<u64> {
        let rows = self.rows.get().or_raise(py)?;
        Ok(rows.metrics().iter().map(|metrics| of(metrics)).sum())
    }
}

#[pymethods]
impl PyReader {
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(Arc::clone(&self.schema))
    }

    /// Rows that this has given.
    #[getter]
    fn rows_read(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.rows.get().or_raise(py)?.rows())
    }

    /// Bytes of rows that have come in.
    #[getter]
    fn bytes_read(&self, py: Python<'_>) -> PyResult<u64> {
        self.sum(py, ReadMetrics::bytes)
    }

    /// What has come in so far: `rows`, `bytes` and `frames` as they came from the server, and `retries`, how often
    /// reading was taken up again after a connection was lost.
    #[getter]
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = PyDict::new(py);
        metrics.set_item("rows", self.sum(py, ReadMetrics::rows)?)?;
        metrics.set_item("bytes", self.sum(py, ReadMetrics::bytes)?)?;
        metrics.set_item("frames", self.sum(py, ReadMetrics::frames)?)?;
        metrics.set_item("retries", self.sum(py, ReadMetrics::retries)?)?;
        Ok(metrics)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyBatch>> {
        let rows = self.own_rows(py)?;
        Ok(wait(py, rows.next())?.map(PyBatch))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = Arc::clone(self.own_rows(py)?);
        let source = Arc::clone(&rows);
        asyncio::coroutine(
            py,
            async move { source.next_in_turn().await },
            |py, (batch, _turn)| match batch {
                Some(batch) => PyBatch(batch).into_py_any(py),
                None => Err(PyStopAsyncIteration::new_err(())),
            },
            move |(batch, _turn)| rows.give_back(batch),
        )
    }

    /// The rows that are left, in the types that they have: what is requested is not looked at. After this they come no
    /// other way. An error shows as the consumer's own, with the message of this one.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let rows = Arc::clone(self.own_rows(py)?);
        self.is_handed_over.store(true, Ordering::SeqCst);
        capsule::stream_capsule(py, Box::new(Exported::new(rows)))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, &self.schema)
    }

    /// Ends the read and tells the server. Whoever waits for rows of this gets a ``cancelled`` error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let rows = self.rows.get().or_raise(py)?;
        py.detach(|| rows.close());
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        match self.rows.get() {
            Ok(rows) => format!("Reader({} rows read)", rows.rows()),
            Err(_) => "Reader(of another process)".to_owned(),
        }
    }
}
