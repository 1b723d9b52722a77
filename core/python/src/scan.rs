//! Scans: planned once, read as a whole or partition by partition.

use std::sync::Arc;

use lightstream_core::client::{Client, PlannedScan};
use lightstream_core::protocol::filter::{Expr, Filter, FloatRule, sql};
use lightstream_core::protocol::request::{ScanRequest, ScanSource};
use lightstream_core::{ErrorCode, Result};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::capsule;
use crate::errors::IntoPython;
use crate::expr::{Columns, Where, support_name};
use crate::options::OptionMap;
use crate::partition::{Common, PyPartition};
use crate::reader::PyReader;
use crate::rows::{Exported, Rows};
use crate::runtime::Owned;
use crate::schema::PySchema;
use crate::table::{Ordering, exact, ordering};
use crate::types::Rules;

/// How often a table that changes while it is looked at is looked at again.
const ATTEMPTS: usize = 3;

/// Columns to return.
pub(crate) enum Wanted {
    All,
    Named(Vec<String>),
    At(Vec<usize>),
}

/// Who applies what the server does not apply exactly of a filter.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ResidualBy {
    Scan,
    Caller,
}

/// What to scan, as it was asked for.
pub(crate) struct Ask {
    pub(crate) request: ScanRequest,
    pub(crate) columns: Wanted,
    pub(crate) condition: Where,
    pub(crate) float_rule: FloatRule,
    pub(crate) residual: ResidualBy,
    pub(crate) rules: Rules,
    /// Where partitions find the server, and with which options.
    pub(crate) url: String,
    pub(crate) options: OptionMap,
}

impl Ask {
    /// Plans the scan.
    ///
    /// # Errors
    /// Those of the core's plan; `invalid_argument` for columns or conditions that do not fit the table, and
    /// `unimplemented` for types that the rules refuse.
    pub(crate) async fn plan(self, client: Client) -> Result<PyScan> {
        let mut attempt = 1;
        let planned = loop {
            match self.attempt(&client).await {
                // The table has changed between its description and the plan.
                Err(error)
                    if error.code() == ErrorCode::Expired
                        && self.request.snapshot.is_none()
                        && client.options().snapshot.is_none()
                        && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                planned => break planned?,
            }
        };
        let common = Common::try_new(
            self.url,
            self.options,
            planned.residual().cloned(),
            self.rules,
            &planned.plan().schema,
        )?;
        Ok(PyScan {
            common: Arc::new(common),
            scan: Owned::new((client, planned)),
        })
    }

    async fn attempt(&self, client: &Client) -> Result<PlannedScan> {
        let mut request = self.request.clone();
        let needs_schema =
            matches!(self.columns, Wanted::Named(_)) || matches!(self.condition, Where::Sql(_));
        let described = match &request.source {
            ScanSource::Table(name) if needs_schema => {
                let info = client.describe(name, request.snapshot.as_deref()).await?;
                // What was looked up is good for this state alone.
                request.snapshot = info.snapshot.or(request.snapshot);
                Some(info.schema)
            }
            _ => None,
        };
        request.projection = match (&self.columns, &described) {
            (Wanted::At(columns), _) => Some(columns.clone()),
            (Wanted::Named(names), Some(schema)) => {
                let columns = Columns(schema);
                Some(
                    names
                        .iter()
                        .map(|name| columns.position(name))
                        .collect::<Result<_>>()?,
                )
            }
            _ => None,
        };
        request.filter = match (&self.condition, &described) {
            (Where::Sql(text), Some(schema)) => sql::parse(text, schema, self.float_rule)?,
            (Where::Conjuncts(conjuncts), _) => self.filter(conjuncts.clone()),
            _ => self.filter(Vec::new()),
        };
        match self.residual {
            ResidualBy::Scan => client.plan_scan(&request).await,
            ResidualBy::Caller => client.plan_superset(&request).await,
        }
    }

    fn filter(&self, conjuncts: Vec<Expr>) -> Filter {
        Filter {
            float_rule: self.float_rule,
            conjuncts,
        }
    }
}

/// A planned scan. Its plan is good for a while (an hour unless the server says otherwise), and for as many reads as are
/// wanted: each gives all rows.
#[pyclass(name = "Scan", module = "lightstream_core", frozen)]
pub(crate) struct PyScan {
    common: Arc<Common>,
    scan: Owned<(Client, PlannedScan)>,
}

impl PyScan {
    fn planned(&self, py: Python<'_>) -> PyResult<&PlannedScan> {
        Ok(&self.scan.get().or_raise(py)?.1)
    }

    fn rows(&self, py: Python<'_>) -> PyResult<Arc<Rows>> {
        Ok(Rows::of_scan(self.planned(py)?, &self.common.conversion))
    }
}

#[pymethods]
impl PyScan {
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(Arc::clone(self.common.conversion.schema()))
    }

    /// The state that is read; None where it does not outlive the plan.
    #[getter]
    fn snapshot(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.planned(py)?.plan().snapshot.clone())
    }

    /// The order of the rows, partition after partition.
    #[getter]
    fn ordering(&self, py: Python<'_>) -> PyResult<Ordering> {
        Ok(ordering(&self.planned(py)?.plan().ordering))
    }

    /// How many rows there are, as far as is known; a limit is not counted in.
    #[getter]
    fn estimated_rows(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.planned(py)?.plan().statistics.rows.value())
    }

    /// How many rows there are, where that is known for certain; a limit is not counted in.
    #[getter]
    fn num_rows(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let planned = self.planned(py)?;
        let rows = exact(planned.plan().statistics.rows);
        Ok(rows.filter(|_| planned.residual().is_none()))
    }

    /// Bytes in memory, as far as is known; a limit is not counted in.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.planned(py)?.plan().statistics.bytes.value())
    }

    /// The partitions in the table's order.
    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (client, planned) = self.scan.get().or_raise(py)?;
        let partitions = planned
            .plan()
            .partitions
            .iter()
            .map(|partition| {
                let (common, client) = (Arc::clone(&self.common), client.clone());
                Bound::new(py, PyPartition::new(common, partition.clone(), client))
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, partitions)
    }

    /// How far the server applies each conjunct of the condition.
    #[getter]
    fn filters(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        let filters = self.planned(py)?.filters().iter();
        Ok(filters.map(|support| support_name(*support)).collect())
    }

    /// Reads all rows.
    fn read(&self, py: Python<'_>) -> PyResult<PyReader> {
        Ok(PyReader::new(self.rows(py)?))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PyReader> {
        self.read(py)
    }

    fn __aiter__(&self, py: Python<'_>) -> PyResult<PyReader> {
        self.read(py)
    }

    /// All rows, in the types that they have: what is requested is not looked at. Each call is a read of its own.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule::stream_capsule(py, Box::new(Exported::new(self.rows(py)?)))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, self.common.conversion.schema())
    }

    fn __repr__(&self) -> String {
        let columns = self.common.conversion.schema().fields().len();
        match self.scan.get() {
            Ok((_, planned)) => {
                let plan = planned.plan();
                let name = plan
                    .partitions
                    .first()
                    .map(|partition| partition.request.source.clone());
                let source = match name.flatten() {
                    Some(lightstream_core::protocol::messages::scan_request::Source::Table(
                        name,
                    )) => {
                        format!("table {name:?}")
                    }
                    _ => "a query".to_owned(),
                };
                format!(
                    "Scan({source}, {columns} columns, {} partitions)",
                    plan.partitions.len()
                )
            }
            Err(_) => format!("Scan({columns} columns, of another process)"),
        }
    }
}
