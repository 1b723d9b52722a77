//! Partitions of a scan: read here, or pickled and read in another process, on another machine.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow_schema::SchemaRef;
use lightstream_core::client::{Client, Residual};
use lightstream_core::protocol::messages::scan_request::Source;
use lightstream_core::protocol::plan::Partition;
use lightstream_core::protocol::statistics::Precision;
use lightstream_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arguments;
use crate::client::PyClient;
use crate::errors::IntoPython;
use crate::options::{self, OptionMap};
use crate::reader::PyReader;
use crate::rows::Rows;
use crate::runtime::Owned;
use crate::schema::PySchema;
use crate::types::{Conversion, Rules};

/// The form of what is pickled.
const FORM: u32 = 1;

/// What all partitions of a scan share.
pub(crate) struct Common {
    pub(crate) url: String,
    /// Without secrets.
    pub(crate) options: OptionMap,
    pub(crate) residual: Option<Arc<Residual>>,
    pub(crate) rules: Rules,
    pub(crate) conversion: Conversion,
}

impl Common {
    /// What partitions of rows of this schema share.
    ///
    /// # Errors
    /// `unimplemented` for types that the rules refuse.
    pub(crate) fn try_new(
        url: String,
        options: OptionMap,
        residual: Option<Arc<Residual>>,
        rules: Rules,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let left = match &residual {
            None => Arc::clone(schema),
            Some(residual) => residual.project(schema)?,
        };
        Ok(Self {
            conversion: Conversion::try_new(&rules, &left)?,
            url,
            options,
            residual,
            rules,
        })
    }
}

/// A part of a scan that is read on its own. No row is in two partitions, and together they are the whole.
///
/// It can be pickled: what is pickled holds the server's URL, the options without secrets and a ticket, which lets
/// whoever has it read these rows while it is good. Another process takes secrets from its own environment.
#[pyclass(name = "Partition", module = "lightstream_core", frozen)]
pub(crate) struct PyPartition {
    common: Arc<Common>,
    partition: Partition,
    client: OnceLock<Owned<Client>>,
}

impl PyPartition {
    pub(crate) fn new(common: Arc<Common>, partition: Partition, client: Client) -> Self {
        Self {
            common,
            partition,
            client: OnceLock::from(Owned::new(client)),
        }
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return client.get();
        }
        // A runtime that cannot be had is an error now, not within the read.
        crate::runtime::runtime()?;
        let made = Client::new(&self.common.url, options::parse(&self.common.options)?)?;
        self.client.get_or_init(|| Owned::new(made)).get()
    }

    /// Rows and bytes before filters, and what a limit leaves of the rows.
    fn count(&self) -> (Precision, bool) {
        let request = &self.partition.request;
        let rows = match (self.partition.rows, request.limit) {
            (Precision::Exact(rows), Some(limit)) => Precision::Exact(rows.min(limit)),
            (Precision::Inexact(rows), Some(limit)) => Precision::Inexact(rows.min(limit)),
            (rows, _) => rows,
        };
        let is_filtered = self.common.residual.is_some()
            || request
                .filter
                .as_ref()
                .is_some_and(|filter| !filter.conjuncts.is_empty());
        (rows, is_filtered)
    }
}

type State = (
    u32,
    String,
    OptionMap,
    Vec<u8>,
    Option<Vec<u8>>,
    BTreeMap<String, String>,
);

#[pymethods]
impl PyPartition {
    /// Its place among the partitions of the scan.
    #[getter]
    fn index(&self) -> usize {
        self.partition.index
    }

    /// How many rows there are at most, as far as is known; filters are not counted in.
    #[getter]
    fn estimated_rows(&self) -> Option<u64> {
        self.count().0.value()
    }

    /// How many rows a read gives, where that is known for certain.
    #[getter]
    fn rows(&self) -> Option<u64> {
        match self.count() {
            (Precision::Exact(rows), false) => Some(rows),
            _ => None,
        }
    }

    /// Bytes in memory before filters, as far as is known.
    #[getter]
    fn nbytes(&self) -> Option<u64> {
        self.partition.bytes.value()
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(Arc::clone(self.common.conversion.schema()))
    }

    /// The server that is read from.
    #[getter]
    fn url(&self) -> &str {
        &self.common.url
    }

    /// Reads the rows behind the first `offset`, at most `limit` of them. Nothing is sent before the first batch is wanted. May be called again:
    /// each reader gives all rows. With a client they come over its connections, and with its options and credentials.
    /// A `memory_limit`, in bytes, stands in place of that option.
    #[pyo3(signature = (*, offset=None, limit=None, client=None, memory_limit=None))]
    fn read(
        &self,
        py: Python<'_>,
        offset: Option<Bound<'_, PyAny>>,
        limit: Option<Bound<'_, PyAny>>,
        client: Option<PyRef<'_, PyClient>>,
        memory_limit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<PyReader> {
        let offset = arguments::number("offset", offset.as_ref(), 0)?.unwrap_or(0);
        let limit = arguments::number("limit", limit.as_ref(), 0)?;
        let client = match &client {
            Some(given) => &given.core(py)?,
            None => self.client().or_raise(py)?,
        };
        let memory_limit = arguments::number("memory_limit", memory_limit.as_ref(), 1)?;
        let bounded = memory_limit.map(|bytes| client.with_memory_limit(Some(bytes)));
        let client = bounded.as_ref().unwrap_or(client);
        let common = &self.common;
        let residual = common.residual.clone();
        let rows = Rows::of_partition(
            client,
            &self.partition,
            residual,
            offset,
            limit,
            &common.conversion,
        );
        Ok(PyReader::new(rows))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let common = &self.common;
        let residual = common.residual.as_ref().map(|residual| residual.to_bytes());
        let residual = residual.transpose().or_raise(py)?;
        let state = (
            FORM,
            &common.url,
            &common.options,
            PyBytes::new(py, &self.partition.to_bytes().or_raise(py)?),
            residual.map(|bytes| PyBytes::new(py, &bytes)),
            common.rules.as_map(),
        );
        let make = py
            .import("lightstream_core._native")?
            .getattr("_partition")?;
        Ok((make, PyTuple::new(py, [state.into_pyobject(py)?])?))
    }

    fn __repr__(&self) -> String {
        let source = match &self.partition.request.source {
            Some(Source::Table(name)) => format!("table {name:?}"),
            _ => "a query".to_owned(),
        };
        format!(
            "Partition({} of {source} at {})",
            self.partition.index, self.common.url
        )
    }
}

fn from_state(state: State) -> Result<PyPartition> {
    let (form, url, options, partition, residual, rules) = state;
    if form != FORM {
        return Err(Error::invalid_argument(format!(
            "the partition was pickled in the form {form}, which this version of lightstream_core does not read"
        )));
    }
    let partition = Partition::from_bytes(&partition)?;
    let residual = residual
        .map(|bytes| Residual::from_bytes(&bytes).map(Arc::new))
        .transpose()?;
    let common = Common::try_new(
        url,
        options,
        residual,
        Rules::try_new(rules)?,
        &partition.schema,
    )?;
    Ok(PyPartition {
        common: Arc::new(common),
        partition,
        client: OnceLock::new(),
    })
}

/// A partition from what was pickled of one.
#[pyfunction]
pub(crate) fn _partition(py: Python<'_>, state: State) -> PyResult<PyPartition> {
    from_state(state).or_raise(py)
}
