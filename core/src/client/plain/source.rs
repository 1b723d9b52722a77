//! The one table of a plain stream: its connections, its schema, and plans of scans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_schema::SchemaRef;
use futures::FutureExt;
use futures::future::select_all;
use tokio::sync::OnceCell;

use super::as_they_come::Lanes;
use super::claims::Claims;
use super::connections::Connections;
use super::reader::not_here;
use super::stream::StreamReader;
use crate::client::pool::Patience;
use crate::error::{Error, Result};
use crate::memory::FramePool;
use crate::options::Options;
use crate::protocol::limits::DecodeLimits;
use crate::protocol::pass::Pass;
use crate::protocol::plan::{Partition, ScanPlan};
use crate::protocol::request::{ScanRequest, ScanSource};
use crate::protocol::statistics::{Precision, Statistics};
use crate::protocol::table::{Capabilities, TableInfo, TableKind};
use crate::random;
use crate::transport::{ByteStream, Location};

/// What the one table of a stream is called where the URL names none.
const TABLE: &str = "stream";

/// Tickets of plans, which are told apart by nothing else.
static PLANS: AtomicU64 = AtomicU64::new(0);

/// The rows of one peer, which are there once.
pub(in crate::client) struct Source {
    connections: Connections,
    table: String,
    /// Tells its partitions from those of other sources, in this process and elsewhere.
    id: String,
    /// Rows may come in any order, whoever asks for one.
    is_unordered: bool,
    limits: DecodeLimits,
    pool: FramePool,
    opened: OnceCell<Arc<Opened>>,
}

/// What is known of a source once its schema has come.
pub(super) struct Opened {
    pub(super) schema: SchemaRef,
    pub(super) lanes: Arc<Lanes>,
    pub(super) claims: Arc<Claims>,
    /// All bytes that have come, so that silence can be told from slowness.
    pub(super) received: Arc<AtomicU64>,
}

/// How the rows are shared out.
pub(super) struct Share {
    pub(super) partitions: usize,
    /// They come in one order, to one reader.
    pub(super) is_ordered: bool,
}

impl Source {
    pub(in crate::client) fn try_new(
        location: Location,
        table: Option<String>,
        options: &Options,
    ) -> Result<Self> {
        if options.snapshot.is_some() {
            return Err(no_snapshot());
        }
        Ok(Self {
            connections: Connections::try_new(location, options)?,
            table: table.unwrap_or_else(|| TABLE.to_owned()),
            id: random::id()?,
            is_unordered: options.ordered == Some(false),
            limits: options.decode_limits(),
            pool: FramePool::of_process(),
            opened: OnceCell::new(),
        })
    }

    /// The name of its one table.
    pub(in crate::client) fn table(&self) -> &str {
        &self.table
    }

    /// Connects, or listens until all writers have connected, and waits for the schema; only the first time. Cancel safe.
    ///
    /// # Errors
    /// `unavailable` where nobody is there, `deadline_exceeded` for silence, `data_loss` where no schema comes.
    pub(in crate::client) async fn open(&self, patience: &Patience) -> Result<()> {
        self.when_opened(patience).await.map(drop)
    }

    async fn when_opened(&self, patience: &Patience) -> Result<&Arc<Opened>> {
        let opening = self.opened.get_or_try_init(|| self.open_anew(patience));
        patience.wait(opening).await
    }

    async fn open_anew(&self, patience: &Patience) -> Result<Arc<Opened>> {
        let streams = self.connections.readers().await?;
        // The peer has one stream to give: once it has begun another attempt would get the rest, or nothing.
        self.begin(streams, patience)
            .await
            .map(Arc::new)
            .map_err(|error| error.with_retryable(false))
    }

    async fn begin(&self, streams: Vec<ByteStream>, patience: &Patience) -> Result<Opened> {
        let received = Arc::<AtomicU64>::default();
        let reader = |stream| {
            let (limits, pool) = (self.limits.clone(), self.pool.clone());
            StreamReader::new(stream, limits, pool, Arc::clone(&received))
        };
        let mut readers: Vec<StreamReader> = streams.into_iter().map(reader).collect();
        let schema = loop {
            // A writer may wait for what it sent first to be taken, so no more than one schema is waited for.
            let schemas = readers.iter_mut().map(|reader| reader.schema().boxed());
            let first = async {
                let (schema, index, _) = select_all(schemas).await;
                Ok((schema?, index))
            };
            match patience.while_received(&received, first).await? {
                (Some(schema), _) => break schema,
                (None, index) => drop(readers.remove(index)),
            }
            if readers.is_empty() {
                return Err(Error::data_loss(
                    "the writer ended without a schema, as some writers do for a table without rows: what columns it \
                     has is not known",
                ));
            }
        };
        let lanes = readers
            .into_iter()
            .map(|reader| reader.batches(Arc::clone(&schema)));
        Ok(Opened {
            lanes: Arc::new(Lanes::new(lanes.collect())),
            claims: Arc::default(),
            schema,
            received,
        })
    }

    /// What the stream has to say of its table.
    pub(in crate::client) async fn describe(
        &self,
        table: &str,
        snapshot: &str,
        patience: &Patience,
    ) -> Result<TableInfo> {
        self.check_name(table)?;
        if !snapshot.is_empty() {
            return Err(no_snapshot());
        }
        let opened = self.when_opened(patience).await?;
        Ok(TableInfo {
            name: self.table.clone(),
            kind: TableKind::View,
            schema: Arc::clone(&opened.schema),
            snapshot: None,
            statistics: Statistics::default(),
            ordering: Vec::new(),
            capabilities: Capabilities {
                exact_filters: true,
                partitions: opened.lanes.len() > 1,
            },
        })
    }

    fn check_name(&self, table: &str) -> Result<()> {
        if table == self.table {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "a plain stream is one table, here called {:?}",
            self.table
        )))
    }

    /// The partitions of a scan. No rows are read.
    pub(in crate::client) async fn plan(
        &self,
        request: &ScanRequest,
        patience: &Patience,
    ) -> Result<ScanPlan> {
        let ScanSource::Table(table) = &request.source else {
            return Err(no_requests());
        };
        self.check_name(table)?;
        if request.snapshot.is_some() {
            return Err(no_snapshot());
        }
        let opened = self.when_opened(patience).await?;
        let schema = Arc::clone(Pass::try_new(Arc::clone(&opened.schema), request)?.schema());
        let sent = Arc::new(request.to_proto()?);
        let started = Arc::default();
        let plan = PLANS.fetch_add(1, Ordering::Relaxed);
        let partition = |index| Partition {
            index,
            ticket: plan.to_le_bytes().to_vec(),
            locations: Vec::new(),
            rows: Precision::Absent,
            bytes: Precision::Absent,
            units: 1,
            resumable: false,
            snapshot: None,
            server_id: self.id.clone(),
            started: Arc::clone(&started),
            rows_at_hand: None,
            schema: Arc::clone(&schema),
            request: Arc::clone(&sent),
        };
        let share = self.share(request, opened.lanes.len());
        Ok(ScanPlan {
            snapshot: None,
            ordering: Vec::new(),
            statistics: Statistics::default(),
            filters: request.filter.support(&opened.schema),
            partitions: (0..share.partitions).map(partition).collect(),
            valid_for: Duration::MAX,
            schema,
        })
    }

    /// How so many connections are shared out for a request.
    pub(super) fn share(&self, request: &ScanRequest, connections: usize) -> Share {
        if connections == 1 || (request.ordered && !self.is_unordered) {
            return Share {
                partitions: 1,
                is_ordered: true,
            };
        }
        let most = request
            .max_partitions
            .and_then(|most| usize::try_from(most).ok())
            .unwrap_or(connections);
        Share {
            partitions: connections.min(most).max(1),
            is_ordered: false,
        }
    }

    /// What a partition is read from, which is open since it was planned.
    pub(super) fn opened_for(&self, partition: &Partition) -> Result<&Arc<Opened>> {
        if partition.server_id != self.id {
            return Err(not_here());
        }
        self.opened.get().ok_or_else(not_here)
    }
}

/// Nobody listens at the other end.
pub(in crate::client) fn no_requests() -> Error {
    Error::unimplemented(
        "whoever writes a plain stream takes no requests: it is one table, and can be read",
    )
}

fn no_snapshot() -> Error {
    Error::invalid_argument(
        "a plain stream has no snapshots: what it gives is gone once it is read",
    )
}
