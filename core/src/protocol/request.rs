//! What a scan asks for.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use prost::Message;
use sha2::{Digest, Sha256};

use super::filter::{Filter, FilterLimits};
use super::limits::DecodeLimits;
use super::messages::{self, request::Kind};
use crate::error::{Error, Result};

/// Where the rows of a scan come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanSource {
    /// A table of the server's catalog, by name.
    Table(String),
    /// The result of a query in the server's own SQL.
    Sql(String),
}

/// What to scan. The same request on the same snapshot always yields the same partitions.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// Where the rows come from.
    pub source: ScanSource,
    /// Positions of the columns to return, in order; `None` for all. An empty list asks for row counts alone.
    pub projection: Option<Vec<usize>>,
    /// Which rows to return.
    pub filter: Filter,
    /// Most rows that are wanted of each partition, after filters.
    pub limit: Option<u64>,
    /// The snapshot to read; `None` for the newest.
    pub snapshot: Option<String>,
    /// Most partitions to cut the scan into; `None` leaves it to the server.
    pub max_partitions: Option<u32>,
    /// Rows are wanted in the table's order, partition after partition.
    pub ordered: bool,
}

impl ScanRequest {
    /// A scan of a whole table.
    pub fn table(name: impl Into<String>) -> Self {
        Self::of(ScanSource::Table(name.into()))
    }

    /// A scan of the result of a query.
    pub fn sql(query: impl Into<String>) -> Self {
        Self::of(ScanSource::Sql(query.into()))
    }

    fn of(source: ScanSource) -> Self {
        Self {
            source,
            projection: None,
            filter: Filter::default(),
            limit: None,
            snapshot: None,
            max_partitions: None,
            ordered: false,
        }
    }

    /// The name of the table, or the query in parentheses, for errors and displays.
    pub fn source_name(&self) -> String {
        match &self.source {
            ScanSource::Table(name) => name.clone(),
            ScanSource::Sql(query) => format!("({query})"),
        }
    }

    /// The request as it travels.
    pub fn to_proto(&self) -> Result<messages::ScanRequest> {
        let projection = match &self.projection {
            None => None,
            Some(columns) => {
                let columns = columns
                    .iter()
                    .map(|&column| u32::try_from(column))
                    .collect::<Result<Vec<_>, _>>();
                let columns = columns.map_err(|error| {
                    Error::invalid_argument("a projected column's position is too large")
                        .with_source(error)
                })?;
                Some(messages::Projection { columns })
            }
        };
        Ok(messages::ScanRequest {
            source: Some(match &self.source {
                ScanSource::Table(name) => messages::scan_request::Source::Table(name.clone()),
                ScanSource::Sql(query) => messages::scan_request::Source::Sql(query.clone()),
            }),
            projection,
            filter: if self.filter.conjuncts.is_empty() {
                None
            } else {
                Some(self.filter.to_proto()?)
            },
            limit: self.limit,
            snapshot: self.snapshot.clone().unwrap_or_default(),
            max_partitions: self.max_partitions.unwrap_or(0),
            ordered: self.ordered,
        })
    }

    /// Reads a request that came from outside.
    pub fn from_proto(request: &messages::ScanRequest, limits: &FilterLimits) -> Result<Self> {
        let source = match &request.source {
            Some(messages::scan_request::Source::Table(name)) => ScanSource::Table(name.clone()),
            Some(messages::scan_request::Source::Sql(query)) => ScanSource::Sql(query.clone()),
            None => {
                return Err(Error::invalid_argument(
                    "a scan names neither a table nor a query",
                ));
            }
        };
        let most = DecodeLimits::default().fields;
        let columns = request.projection.as_ref().map_or(0, |p| p.columns.len());
        if columns > most {
            return Err(Error::resource_exhausted(format!(
                "a scan asks for {columns} columns, more than the {most} that are accepted"
            )));
        }
        Ok(Self {
            source,
            projection: request.projection.as_ref().map(|projection| {
                projection
                    .columns
                    .iter()
                    .map(|&column| column as usize)
                    .collect()
            }),
            filter: match &request.filter {
                None => Filter::default(),
                Some(filter) => Filter::from_proto(filter, limits)?,
            },
            limit: request.limit,
            snapshot: Some(request.snapshot.clone()).filter(|snapshot| !snapshot.is_empty()),
            max_partitions: Some(request.max_partitions).filter(|&partitions| partitions > 0),
            ordered: request.ordered,
        })
    }
}

/// The table that a request is for, in errors and counts: `(query)` where it is for a query.
pub(crate) fn table_of(request: &messages::ScanRequest) -> &str {
    match &request.source {
        Some(messages::scan_request::Source::Table(name)) => name,
        _ => "(query)",
    }
}

/// What kind of request it is, in words that do not change.
pub(crate) fn name_of(kind: Option<&Kind>) -> &'static str {
    match kind {
        Some(Kind::Hello(_)) => "hello",
        Some(Kind::ListTables(_)) => "list_tables",
        Some(Kind::DescribeTable(_)) => "describe_table",
        Some(Kind::Plan(_)) => "plan",
        Some(Kind::Read(_)) => "read",
        Some(Kind::Renew(_)) => "renew",
        Some(Kind::Release(_)) => "release",
        Some(Kind::Ping(_)) => "ping",
        Some(Kind::Cancel(_)) => "cancel",
        None => "unknown",
    }
}

/// The digest of a request that a ticket is bound to. Fields that this version does not know do not count.
pub fn request_digest(request: &messages::ScanRequest) -> [u8; 32] {
    Sha256::digest(request.encode_to_vec()).into()
}

/// The schema of chosen columns.
///
/// # Errors
/// `invalid_argument` where a column does not exist.
pub(crate) fn project_schema(schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
    let count = schema.fields().len();
    schema.project(columns).map(Arc::new).map_err(|_| {
        let beyond = columns.iter().find(|&&column| column >= count);
        Error::invalid_argument(format!(
            "column {} is asked for where the table has {count}",
            beyond.copied().unwrap_or_default()
        ))
    })
}
