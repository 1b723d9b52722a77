//! Clients: what a server has, and scans of it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lightstream_core::client::Client;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::transport::Location;

use lightstream_core::{Error, Result, TlsMode};
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments;
use crate::asyncio;
use crate::credentials::Provider;
use crate::errors::IntoPython;
use crate::expr::{Where, float_rule};
use crate::options::{self, OptionMap};
use crate::runtime::{Owned, wait};
use crate::scan::{Ask, PyScan, ResidualBy, Wanted};
use crate::table::PyTable;
use crate::types::Rules;

/// A client of one server. It may be used from several threads at once.
///
/// Waiting gives up Python's lock, and ends with what a signal raises. The methods that end in ``_async`` return
/// coroutines; cancelling one ends its work. All raise `LightstreamError`.
#[pyclass(name = "Client", module = "lightstream_core", frozen)]
pub(crate) struct PyClient {
    client: Owned<Client>,
    url: String,
    table: Option<String>,
    /// What partitions carry.
    options: OptionMap,
}

impl PyClient {
    /// A client that has not connected yet.
    fn try_new(url: &str, options: &OptionMap, provider: Option<Arc<Provider>>) -> Result<Self> {
        crate::runtime::runtime()?;
        let parsed = options::parse(options)?;
        let client = match provider {
            None => Client::new(url, parsed)?,
            Some(provider) => Client::with_tokens(url, parsed, provider)?,
        };
        Ok(Self {
            url: client.location().to_string(),
            table: client.table_name().map(str::to_owned),
            options: options::portable(url, options)?,
            client: Owned::new(client),
        })
    }

    /// Says so where nobody checks whom this talks to.
    fn warned(self, py: Python<'_>) -> PyResult<Self> {
        if self.client.get().or_raise(py)?.options().tls == Some(TlsMode::SkipVerify) {
            let text = CString::new(format!(
                "{}: tls=skip-verify: whoever answers is believed to be the server, and can read and change everything",
                self.url
            ))?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
        }
        Ok(self)
    }

    async fn connected(self) -> Result<Self> {
        self.client.get()?.ping().await?;
        Ok(self)
    }

    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<Client> {
        Ok(self.client.get().or_raise(py)?.clone())
    }

    fn table_name(&self, py: Python<'_>, name: Option<String>) -> PyResult<String> {
        match name.or_else(|| self.table.clone()) {
            Some(name) if name.is_empty() => Err(arguments::refused(
                py,
                "the name of a table is not empty; None stands for the table of the URL",
            )),
            Some(name) => Ok(name),
            None => Err(arguments::refused(
                py,
                "no table is named, neither here nor in the URL that was connected to",
            )),
        }
    }

    fn describe(
        &self,
        py: Python<'_>,
        name: Option<String>,
        snapshot: Option<String>,
    ) -> PyResult<impl Future<Output = Result<PyTable>> + Send + use<>> {
        let (client, name) = (self.core(py)?, self.table_name(py, name)?);
        Ok(async move {
            client
                .describe(&name, snapshot.as_deref())
                .await
                .map(PyTable)
        })
    }

    fn ask(&self, request: ScanRequest, rules: Rules) -> Ask {
        Ask {
            request,
            columns: Wanted::All,
            condition: Where::All,
            float_rule: lightstream_core::protocol::filter::FloatRule::TotalOrder,
            residual: ResidualBy::Scan,
            rules,
            url: self.url.clone(),
            options: self.options.clone(),
        }
    }

    #[allow(clippy::too_many_arguments)] // The keywords of `scan`.
    fn scan_ask(
        &self,
        py: Python<'_>,
        table: Option<String>,
        columns: Option<Bound<'_, PyAny>>,
        r#where: Option<Bound<'_, PyAny>>,
        float_rule_name: Option<&str>,
        limit: Option<Bound<'_, PyAny>>,
        partitions: Option<Bound<'_, PyAny>>,
        ordered: Option<bool>,
        snapshot: Option<String>,
        types: Option<BTreeMap<String, String>>,
        residual: &str,
    ) -> PyResult<Ask> {
        let client = self.core(py)?;
        let request = ScanRequest {
            limit: arguments::number("limit", limit.as_ref(), 0)?,
            snapshot,
            max_partitions: arguments::narrow("partitions", partitions.as_ref(), 1)?,
            ordered: ordered.unwrap_or(client.options().ordered.unwrap_or(false)),
            ..ScanRequest::table(self.table_name(py, table)?)
        };
        let rules = Rules::try_new(types.unwrap_or_default()).or_raise(py)?;
        Ok(Ask {
            columns: wanted(columns.as_ref())?,
            condition: Where::from_python(r#where.as_ref())?,
            float_rule: float_rule(float_rule_name).or_raise(py)?,
            residual: residual_by(residual).or_raise(py)?,
            ..self.ask(request, rules)
        })
    }

    fn query_ask(
        &self,
        py: Python<'_>,
        sql: String,
        partitions: Option<Bound<'_, PyAny>>,
        types: Option<BTreeMap<String, String>>,
    ) -> PyResult<Ask> {
        let request = ScanRequest {
            max_partitions: arguments::narrow("partitions", partitions.as_ref(), 1)?,
            ..ScanRequest::sql(sql)
        };
        Ok(self.ask(
            request,
            Rules::try_new(types.unwrap_or_default()).or_raise(py)?,
        ))
    }
}

fn residual_by(name: &str) -> Result<ResidualBy> {
    match name {
        "scan" => Ok(ResidualBy::Scan),
        "caller" => Ok(ResidualBy::Caller),
        other => Err(Error::invalid_argument(format!(
            "residual is \"scan\" or \"caller\", not {other:?}"
        ))),
    }
}

/// Names or positions of columns.
fn wanted(columns: Option<&Bound<'_, PyAny>>) -> PyResult<Wanted> {
    let Some(columns) = columns else {
        return Ok(Wanted::All);
    };
    if columns.is_instance_of::<pyo3::types::PyString>() {
        return Err(PyTypeError::new_err(
            "columns is a sequence of names or positions, not one name",
        ));
    }
    let items = columns.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let positions = items
        .iter()
        .map(|item| item.extract::<usize>())
        .collect::<PyResult<Vec<_>>>();
    if let Ok(positions) = positions {
        return Ok(Wanted::At(positions));
    }
    let names = items
        .iter()
        .map(|item| item.extract::<String>())
        .collect::<PyResult<Vec<_>>>();
    names.map(Wanted::Named).map_err(|_| {
        PyTypeError::new_err("columns are all named, or all given by their positions from 0 on")
    })
}

async fn seconds(ping: impl Future<Output = Result<Duration>>) -> Result<f64> {
    Ok(ping.await?.as_secs_f64())
}

#[pymethods]
impl PyClient {
    /// The server's URL, without table and options.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// The table that the URL named.
    #[getter]
    fn default_table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Asks whether the server is there; returns how many seconds the answer took.
    fn ping(&self, py: Python<'_>) -> PyResult<f64> {
        let client = self.core(py)?;
        wait(py, seconds(client.ping()))
    }

    fn ping_async<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.core(py)?;
        asyncio::simple(py, async move { seconds(client.ping()).await })
    }

    /// The names of all tables, in order.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let client = self.core(py)?;
        wait(py, table_names(client))
    }

    fn tables_async<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.core(py)?;
        asyncio::simple(py, table_names(client))
    }

    /// What a table is, at a snapshot or the newest.
    #[pyo3(signature = (name=None, *, snapshot=None))]
    fn table(
        &self,
        py: Python<'_>,
        name: Option<String>,
        snapshot: Option<String>,
    ) -> PyResult<PyTable> {
        wait(py, self.describe(py, name, snapshot)?)
    }

    #[pyo3(signature = (name=None, *, snapshot=None))]
    fn table_async<'py>(
        &self,
        py: Python<'py>,
        name: Option<String>,
        snapshot: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        asyncio::simple(py, self.describe(py, name, snapshot)?)
    }

    /// Plans a scan of a table.
    #[pyo3(signature = (
        table=None, *, columns=None, r#where=None, float_rule=None, limit=None, partitions=None, ordered=None,
        snapshot=None, types=None, residual="scan",
    ))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn scan(
        &self,
        py: Python<'_>,
        table: Option<String>,
        columns: Option<Bound<'_, PyAny>>,
        r#where: Option<Bound<'_, PyAny>>,
        float_rule: Option<&str>,
        limit: Option<Bound<'_, PyAny>>,
        partitions: Option<Bound<'_, PyAny>>,
        ordered: Option<bool>,
        snapshot: Option<String>,
        types: Option<BTreeMap<String, String>>,
        residual: &str,
    ) -> PyResult<PyScan> {
        let ask = self.scan_ask(
            py, table, columns, r#where, float_rule, limit, partitions, ordered, snapshot, types,
            residual,
        )?;
        let client = self.core(py)?;
        wait(py, ask.plan(client))
    }

    #[pyo3(signature = (
        table=None, *, columns=None, r#where=None, float_rule=None, limit=None, partitions=None, ordered=None,
        snapshot=None, types=None, residual="scan",
    ))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn scan_async<'py>(
        &self,
        py: Python<'py>,
        table: Option<String>,
        columns: Option<Bound<'_, PyAny>>,
        r#where: Option<Bound<'_, PyAny>>,
        float_rule: Option<&str>,
        limit: Option<Bound<'_, PyAny>>,
        partitions: Option<Bound<'_, PyAny>>,
        ordered: Option<bool>,
        snapshot: Option<String>,
        types: Option<BTreeMap<String, String>>,
        residual: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ask = self.scan_ask(
            py, table, columns, r#where, float_rule, limit, partitions, ordered, snapshot, types,
            residual,
        )?;
        let client = self.core(py)?;
        asyncio::simple(py, ask.plan(client))
    }

    /// Plans a scan of the result of a query in the server's own SQL.
    #[pyo3(signature = (sql, *, partitions=None, types=None))]
    fn query(
        &self,
        py: Python<'_>,
        sql: String,
        partitions: Option<Bound<'_, PyAny>>,
        types: Option<BTreeMap<String, String>>,
    ) -> PyResult<PyScan> {
        let ask = self.query_ask(py, sql, partitions, types)?;
        let client = self.core(py)?;
        wait(py, ask.plan(client))
    }

    #[pyo3(signature = (sql, *, partitions=None, types=None))]
    fn query_async<'py>(
        &self,
        py: Python<'py>,
        sql: String,
        partitions: Option<Bound<'_, PyAny>>,
        types: Option<BTreeMap<String, String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ask = self.query_ask(py, sql, partitions, types)?;
        let client = self.core(py)?;
        asyncio::simple(py, ask.plan(client))
    }

    fn __repr__(&self) -> String {
        format!("Client({:?})", self.url)
    }
}

async fn table_names(client: Client) -> Result<Vec<String>> {
    Ok(client
        .tables("")
        .await?
        .into_iter()
        .map(|entry| entry.name)
        .collect())
}

/// Connects to the server that a URL names, and waits until it has answered.
#[pyfunction]
#[pyo3(signature = (url, *, storage_options=None, credential_provider=None, **options))]
pub(crate) fn connect(
    py: Python<'_>,
    url: &str,
    storage_options: Option<&Bound<'_, PyAny>>,
    credential_provider: Option<Py<PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyClient> {
    let options = options::collect(storage_options, options)?;
    let provider = Provider::of(credential_provider, py)?;
    let client = PyClient::try_new(url, &options, provider)
        .or_raise(py)?
        .warned(py)?;
    wait(py, client.connected())
}

/// As `connect`, for `await`.
#[pyfunction]
#[pyo3(signature = (url, *, storage_options=None, credential_provider=None, **options))]
pub(crate) fn connect_async<'py>(
    py: Python<'py>,
    url: &str,
    storage_options: Option<&Bound<'py, PyAny>>,
    credential_provider: Option<Py<PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options::collect(storage_options, options)?;
    let provider = Provider::of(credential_provider, py)?;
    let client = PyClient::try_new(url, &options, provider)
        .or_raise(py)?
        .warned(py)?;
    asyncio::simple(py, client.connected())
}

/// A client that connects when it is first used.
#[pyfunction]
#[pyo3(signature = (url, *, storage_options=None, credential_provider=None))]
pub(crate) fn _client(
    py: Python<'_>,
    url: &str,
    storage_options: Option<&Bound<'_, PyAny>>,
    credential_provider: Option<Py<PyAny>>,
) -> PyResult<PyClient> {
    let options = options::collect(storage_options, None)?;
    let provider = Provider::of(credential_provider, py)?;
    PyClient::try_new(url, &options, provider)
        .or_raise(py)?
        .warned(py)
}

/// A URL without its query, and the options and those of its query, without secrets.
#[pyfunction]
pub(crate) fn _portable(
    py: Python<'_>,
    url: &str,
    options: &Bound<'_, PyAny>,
) -> PyResult<(String, OptionMap)> {
    let options = options::collect(Some(options), None)?;
    let portable = options::portable(url, &options).or_raise(py)?;
    let parsed = Location::parse(url).or_raise(py)?;
    let place = match &parsed.table {
        Some(table) => parsed.location.table_url(table),
        None => parsed.location.to_string(),
    };
    Ok((place, portable))
}
