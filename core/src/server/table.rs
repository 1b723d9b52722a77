//! What a server serves: a [`Catalog`] of [`Table`]s, each of which plans [`Scan`]s.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::error::{Error, Result};
use crate::protocol::filter::Support;
use crate::protocol::request::ScanRequest;
use crate::protocol::statistics::{Precision, Statistics};
use crate::protocol::table::{SortColumn, TableEntry, TableInfo};
use crate::protocol::units::Units;

/// The tables of a server. Names are case-sensitive.
#[async_trait]
pub trait Catalog: Send + Sync + 'static {
    /// Names that start with `prefix` and come after `after`, in ascending order, at most `limit` of them.
    ///
    /// # Errors
    /// Whatever keeps the catalog from being read.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TableEntry>>;

    /// The table of that name, or `None` where there is none.
    ///
    /// # Errors
    /// Whatever keeps the catalog from being read.
    async fn table(&self, name: &str) -> Result<Option<Arc<dyn Table>>>;

    /// The name that a table is listed under, where it goes by others too: grants are held against both. By default each
    /// table has one name.
    ///
    /// # Errors
    /// Whatever keeps the catalog from being read.
    async fn listed_name(&self, name: &str) -> Result<String> {
        Ok(name.to_owned())
    }

    /// A table that holds the result of a query.
    ///
    /// # Errors
    /// `unimplemented` where the catalog knows no SQL, `invalid_argument` where the query cannot be understood.
    async fn query(&self, sql: &str) -> Result<Arc<dyn Table>> {
        let _ = sql;
        Err(Error::unimplemented("this server answers no SQL queries"))
    }
}

/// A table that can be described and scanned.
#[async_trait]
pub trait Table: Send + Sync + 'static {
    /// What the table is, at the given snapshot or the newest. The name in the answer is `name`.
    ///
    /// # Errors
    /// `expired` where the snapshot is no longer held.
    async fn describe(&self, name: &str, snapshot: Option<&str>) -> Result<TableInfo>;

    /// Cuts a scan into partitions: a pure function of the request and the snapshot. Planning the same request again
    /// on the same snapshot, in another process too, gives the same partitions with the same rows.
    ///
    /// # Errors
    /// `expired` where the snapshot in the request is no longer held, `invalid_argument` where the request cannot be
    /// right, such as a projected column that does not exist. A filter that is not understood is no error.
    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>>;
}

/// A planned scan. It keeps hold of the snapshot that it reads.
pub trait Scan: Send + Sync + 'static {
    /// Names the state that is read; `None` where it does not outlive this scan.
    fn snapshot(&self) -> Option<&str>;

    /// The schema of the rows that come back.
    fn schema(&self) -> &SchemaRef;

    /// The order of the rows, partition after partition; empty where none is known.
    fn ordering(&self) -> Vec<SortColumn>;

    /// What is known of the rows that come back.
    fn statistics(&self) -> Statistics;

    /// How far each conjunct of the request's filter is applied, in order.
    fn filters(&self) -> &[Support];

    /// The partitions: disjoint, and together the whole result.
    fn partitions(&self) -> &[ScanPartition];

    /// Reads chosen units of a partition, in order. It may be called any number of times, and gives the same rows
    /// each time. Dropping the stream ends the work.
    ///
    /// # Errors
    /// `invalid_argument` where there is no such partition, or where a partition that is not resumable is asked to
    /// start elsewhere than at its beginning.
    fn open(&self, partition: usize, units: Units) -> Result<UnitStream>;
}

/// What is known of a partition before it is read.
#[derive(Debug, Clone, Default)]
pub struct ScanPartition {
    /// Rows, before filters.
    pub rows: Precision,
    /// Bytes in memory, before filters.
    pub bytes: Precision,
    /// Units that the partition is made of: fixed ranges of source rows given by the snapshot alone.
    pub units: u64,
    /// Reading may start at any unit.
    pub resumable: bool,
}

/// What happens while units are read.
#[derive(Debug)]
pub enum UnitEvent {
    /// Rows of the unit being read.
    Batch(RecordBatch),
    /// Every wanted unit up to and including this one has been given whole.
    End(u64),
}

/// The rows of chosen units. It ends after the `End` of the last wanted unit; an end before that is a fault.
pub type UnitStream = BoxStream<'static, Result<UnitEvent>>;
