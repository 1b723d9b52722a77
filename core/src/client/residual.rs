//! What is left to do at the client of a filter that the server does not apply exactly.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use prost::Message;

use super::Client;
use crate::error::{Error, Result};
use crate::protocol::filter::{Filter, FilterLimits, Support, support};
use crate::protocol::messages;
use crate::protocol::plan::ScanPlan;
use crate::protocol::request::{ScanRequest, ScanSource, project_schema};

/// A filter over rows that hold the wanted columns first, and behind them those that only the filter needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    wanted: usize,
    filter: Filter,
}

impl Residual {
    /// A filter over rows of which the first `wanted` columns are kept.
    pub fn new(wanted: usize, filter: Filter) -> Self {
        Self { wanted, filter }
    }

    /// How many columns are kept.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The conjuncts that are applied here.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The schema of what is left of rows of this schema.
    ///
    /// # Errors
    /// `invalid_argument` where there are fewer columns than are wanted.
    pub fn project(&self, schema: &SchemaRef) -> Result<SchemaRef> {
        project_schema(schema, &self.wanted_columns())
    }

    /// The rows that pass, with the wanted columns.
    ///
    /// # Errors
    /// `invalid_argument` where the rows lack a column that is needed.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let kept = self.filter.apply(batch)?;
        kept.project(&self.wanted_columns())
            .map_err(|error| Error::internal("columns could not be selected").with_source(error))
    }

    /// The residual as bytes that another process reads it from.
    ///
    /// # Errors
    /// `resource_exhausted` for a filter that is too deep to travel.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let wanted = u64::try_from(self.wanted).unwrap_or(u64::MAX);
        let mut bytes = wanted.to_le_bytes().to_vec();
        bytes.extend(self.filter.to_proto()?.encode_to_vec());
        Ok(bytes)
    }

    /// Reads what [`Residual::to_bytes`] wrote.
    ///
    /// # Errors
    /// `invalid_argument` where the bytes are no residual.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let malformed = || Error::invalid_argument("the bytes are not those of a residual filter");
        let (wanted, filter) = bytes.split_first_chunk().ok_or_else(malformed)?;
        let filter =
            messages::Filter::decode(filter).map_err(|error| malformed().with_source(error))?;
        Ok(Self {
            wanted: usize::try_from(u64::from_le_bytes(*wanted)).map_err(|_| malformed())?,
            filter: Filter::from_proto(&filter, &FilterLimits::default())?,
        })
    }

    fn wanted_columns(&self) -> Vec<usize> {
        (0..self.wanted).collect()
    }
}

/// A residual, and what must be asked for so that it can be applied.
pub(super) struct Wider {
    /// Positions in the table of the columns to ask for: those that are wanted, then those that the filter needs.
    pub(super) columns: Vec<usize>,
    /// The schema of all of them.
    pub(super) schema: SchemaRef,
    pub(super) residual: Residual,
}

impl Wider {
    /// What is left to do here of `request`, of which the server made `plan`.
    pub(super) async fn try_new(
        client: &Client,
        request: &ScanRequest,
        plan: &ScanPlan,
    ) -> Result<Self> {
        let ScanSource::Table(table) = &request.source else {
            return Err(Error::unimplemented(
                "the server does not filter the result of a query",
            ));
        };
        let whole = client
            .describe(table, plan.snapshot.as_deref())
            .await?
            .schema;
        let rule = request.filter.float_rule;
        let conjuncts: Vec<_> = request
            .filter
            .conjuncts
            .iter()
            .zip(&plan.filters)
            .filter(|(_, support)| **support != Support::Exact)
            .map(|(conjunct, _)| conjunct.clone())
            .collect();
        if let Some(unknown) = conjuncts
            .iter()
            .find(|conjunct| support(conjunct, &whole, rule) == Support::Unsupported)
        {
            return Err(Error::unimplemented(format!(
                "neither server nor client can apply the filter {unknown}"
            )));
        }
        let filter = Filter {
            float_rule: rule,
            conjuncts,
        };
        let mut columns = request
            .projection
            .clone()
            .unwrap_or_else(|| (0..whole.fields().len()).collect());
        let wanted = columns.len();
        for column in filter.required_columns(&whole)? {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Ok(Self {
            schema: project_schema(&whole, &columns)?,
            columns,
            residual: Residual::new(wanted, filter),
        })
    }
}
