//! Tables whose rows are made anew for each scan, as by a program that computes them. They are never held as a whole.
//!
//! Nothing is promised beyond one pass: such a table is one partition, has no snapshot and cannot be read from the
//! middle.

use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::table::{Scan, ScanPartition, Table, UnitEvent, UnitStream};
use crate::error::{Error, Result};
use crate::protocol::filter::Support;
use crate::protocol::pass::Pass;
use crate::protocol::request::ScanRequest;
use crate::protocol::statistics::{Precision, Statistics};
use crate::protocol::table::{Capabilities, SortColumn, TableInfo, TableKind};
use crate::protocol::units::Units;

/// Rows that are made as they are asked for. Dropping it ends the making.
pub struct RowStream {
    /// The schema of every batch.
    pub schema: SchemaRef,
    /// The rows. Nothing follows an error.
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

/// What makes the rows of a [`StreamTable`].
#[async_trait]
pub trait RowSource: Send + Sync + 'static {
    /// Starts to make all rows. Each call gives a stream of its own, of the same schema.
    ///
    /// # Errors
    /// Whatever keeps the rows from being made. The client gets to see it.
    async fn open(&self) -> Result<RowStream>;
}

/// A table that is read from a fresh stream for each scan.
///
/// The source is opened once more than it is scanned, the first time its schema is wanted. Columns and filters are
/// taken from the stream as it passes, so a scan costs what making all rows costs, unless its reader goes before. A
/// connection that is lost after rows were given ends the scan with an error.
pub struct StreamTable {
    source: Arc<dyn RowSource>,
    schema: OnceLock<SchemaRef>,
}

impl StreamTable {
    /// A table of what the source makes. The source is not opened yet.
    pub fn new(source: impl RowSource) -> Self {
        Self {
            source: Arc::new(source),
            schema: OnceLock::new(),
        }
    }

    async fn schema(&self) -> Result<SchemaRef> {
        if let Some(schema) = self.schema.get() {
            return Ok(Arc::clone(schema));
        }
        let opened = self.source.open().await?.schema;
        Ok(Arc::clone(self.schema.get_or_init(|| opened)))
    }
}

/// It has no state that could be named.
fn refuse_snapshot(snapshot: Option<&str>) -> Result<()> {
    match snapshot {
        None => Ok(()),
        Some(snapshot) => Err(Error::expired(format!(
            "snapshot {snapshot:?} is not held: the rows of this table are made anew for each scan"
        ))),
    }
}

#[async_trait]
impl Table for StreamTable {
    async fn describe(&self, name: &str, snapshot: Option<&str>) -> Result<TableInfo> {
        refuse_snapshot(snapshot)?;
        Ok(TableInfo {
            name: name.to_owned(),
            kind: TableKind::View,
            schema: self.schema().await?,
            snapshot: None,
            statistics: Statistics::default(),
            ordering: Vec::new(),
            capabilities: Capabilities {
                exact_filters: true,
                partitions: false,
            },
        })
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        refuse_snapshot(request.snapshot.as_deref())?;
        let whole = self.schema().await?;
        Ok(Arc::new(StreamScan {
            source: Arc::clone(&self.source),
            filters: request.filter.support(&whole),
            pass: Arc::new(Pass::try_new(whole, request)?),
            partitions: vec![ScanPartition {
                rows: Precision::Absent,
                bytes: Precision::Absent,
                units: 1,
                resumable: false,
            }],
        }))
    }
}

struct StreamScan {
    source: Arc<dyn RowSource>,
    pass: Arc<Pass>,
    filters: Vec<Support>,
    partitions: Vec<ScanPartition>,
}

impl Scan for StreamScan {
    fn snapshot(&self) -> Option<&str> {
        None
    }

    fn schema(&self) -> &SchemaRef {
        self.pass.schema()
    }

    fn ordering(&self) -> Vec<SortColumn> {
        Vec::new()
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn filters(&self) -> &[Support] {
        &self.filters
    }

    fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    fn open(&self, partition: usize, units: Units) -> Result<UnitStream> {
        if partition > 0 || units != Units::ALL {
            return Err(Error::invalid_argument(
                "the table is one partition that can only be read as a whole",
            ));
        }
        let (source, pass) = (Arc::clone(&self.source), Arc::clone(&self.pass));
        let rows = async move {
            let opened = source.open().await?;
            pass.check(&opened.schema)?;
            let batches = opened.batches;
            Ok(batches.map(move |batch| batch.and_then(|batch| pass.take(batch))))
        };
        let events = futures::stream::once(rows)
            .try_flatten()
            .map_ok(UnitEvent::Batch)
            .chain(futures::stream::iter([Ok(UnitEvent::End(0))]));
        Ok(events.boxed())
    }
}
