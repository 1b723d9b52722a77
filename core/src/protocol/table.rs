//! What a table is: schema, statistics, order and abilities.

use arrow_schema::SchemaRef;

use super::ipc;
use super::limits::DecodeLimits;
use super::messages;
use super::statistics::Statistics;
use crate::error::Result;

/// A column in an ordering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortColumn {
    /// Path from the top-level field down.
    pub path: Vec<String>,
    /// Greatest first.
    pub descending: bool,
    /// Nulls come before all values.
    pub nulls_first: bool,
}

impl SortColumn {
    pub(crate) fn to_proto(&self) -> messages::SortColumn {
        messages::SortColumn {
            path: self.path.clone(),
            descending: self.descending,
            nulls_first: self.nulls_first,
        }
    }

    pub(crate) fn from_proto(column: &messages::SortColumn) -> Self {
        Self {
            path: column.path.clone(),
            descending: column.descending,
            nulls_first: column.nulls_first,
        }
    }
}

/// A table in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The name, as scans take it.
    pub name: String,
    /// Whether it stands for a stored table or for a query.
    pub kind: TableKind,
}

/// What stands behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableKind {
    /// Stored rows.
    #[default]
    Table,
    /// A query that is run for each scan.
    View,
}

impl TableKind {
    /// The word for it on the wire and in listings.
    pub fn as_str(self) -> &'static str {
        match self {
            TableKind::Table => "table",
            TableKind::View => "view",
        }
    }

    pub(crate) fn from_wire(kind: &str) -> Self {
        if kind == "view" {
            TableKind::View
        } else {
            TableKind::Table
        }
    }
}

/// What a table can do for a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Conjuncts for which [`support`](super::filter::support) says exact are applied exactly.
    pub exact_filters: bool,
    /// A plan can be made of this table in several partitions.
    pub partitions: bool,
}

/// What a table is, at one snapshot.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// The name, as scans take it.
    pub name: String,
    /// Whether it stands for a stored table or for a query.
    pub kind: TableKind,
    /// The schema of the whole table.
    pub schema: SchemaRef,
    /// Names the state that is described; `None` where the table has none that outlives a plan.
    pub snapshot: Option<String>,
    /// What is known of the rows.
    pub statistics: Statistics,
    /// The order of the rows, partition after partition; empty where none is known.
    pub ordering: Vec<SortColumn>,
    /// What the table can do for a scan.
    pub capabilities: Capabilities,
}

impl TableInfo {
    pub(crate) fn to_proto(&self) -> Result<messages::TableInfo> {
        Ok(messages::TableInfo {
            name: self.name.clone(),
            kind: self.kind.as_str().to_owned(),
            schema: ipc::encode_schema(&self.schema)?,
            snapshot: self.snapshot.clone().unwrap_or_default(),
            statistics: Some(self.statistics.to_proto()?),
            ordering: self.ordering.iter().map(SortColumn::to_proto).collect(),
            capabilities: Some(messages::Capabilities {
                exact_filters: self.capabilities.exact_filters,
                partitions: self.capabilities.partitions,
            }),
        })
    }

    pub(crate) fn from_proto(info: &messages::TableInfo, limits: &DecodeLimits) -> Result<Self> {
        let capabilities = info.capabilities.unwrap_or_default();
        Ok(Self {
            name: info.name.clone(),
            kind: TableKind::from_wire(&info.kind),
            schema: ipc::decode_schema(&info.schema, limits)?,
            snapshot: Some(info.snapshot.clone()).filter(|snapshot| !snapshot.is_empty()),
            statistics: Statistics::from_proto(info.statistics.as_ref(), limits)?,
            ordering: info.ordering.iter().map(SortColumn::from_proto).collect(),
            capabilities: Capabilities {
                exact_filters: capabilities.exact_filters,
                partitions: capabilities.partitions,
            },
        })
    }
}
