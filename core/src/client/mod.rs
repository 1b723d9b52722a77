//! The client: tables of a server, plans of scans, and readers of their partitions.

mod credentials;
mod described;
mod following;
mod in_flight;
mod merge;
mod plain;
mod pool;
mod reader;
mod residual;
mod retry;
mod scan;
mod servers;
mod sources;
mod stripe;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use self::credentials::Credentials;
use self::described::Described;
use self::plain::{Source, no_requests};
use self::pool::{INLINE_UP_TO_BYTES, Patience, Pool, unexpected};
use self::retry::Retry;
use self::scan::Rest;
use self::servers::Servers;
use crate::error::{Error, Result};
use crate::options::{Options, TlsMode};
use crate::protocol::messages::{self, request, response};
use crate::protocol::plan::{Partition, ScanPlan};
use crate::protocol::request::ScanRequest;
use crate::protocol::table::{TableEntry, TableInfo, TableKind};
use crate::transport::{Location, ParsedUrl};

pub use credentials::TokenProvider;
pub use in_flight::Batches;
pub use plain::PlainWriter;
pub use reader::{PartitionReader, ReadMetrics};
pub use residual::Residual;
pub use scan::{PlannedScan, ScanReader};

/// Connections for each partition of a server on another machine, where one alone may not fill the network.
const REMOTE_STREAMS: u32 = 4;

/// Shorter partitions are read over one connection.
const STRIPED_FROM_BYTES: u64 = 64 << 20;

/// The options in force: those that are given, then those in the URL, then those in the environment.
fn options_of(parsed: &ParsedUrl, given: Options) -> Result<Options> {
    let mut in_url = Options::default();
    for (name, value) in &parsed.options {
        in_url.set(name, value)?;
    }
    let options = given.or(in_url).or(Options::from_env()?);
    options.check()?;
    if options.tls == Some(TlsMode::SkipVerify) {
        tracing::warn!(
            server = %parsed.location,
            "tls=skip-verify: whoever answers is believed to be the server, and can read and change everything"
        );
    }
    Ok(options)
}

/// A client of one server. Clones share its connections.
///
/// Its futures and readers belong to the tokio runtime that they are first polled in, which must have I/O and time
/// enabled. All of them may be dropped at any time: what was under way is then cancelled at the server.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int32Array, RecordBatch};
/// # use futures::TryStreamExt;
/// # use lightstream_core::server::{MemoryTable, Server};
/// use lightstream_core::protocol::request::ScanRequest;
/// use lightstream_core::{Client, Options};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
/// # let batches = vec![RecordBatch::try_from_iter([("a", column)])?];
/// # let server = Server::builder().table("numbers", MemoryTable::try_new(batches)?).listen("lightstream://127.0.0.1:0").await?;
/// # let url = server.url();
/// let client = Client::connect(&url, Options::default()).await?;
/// let plan = client.plan(&ScanRequest::table("numbers")).await?;
/// let mut rows = 0;
/// for partition in &plan.partitions {
///     let batches: Vec<RecordBatch> = client.read(partition).try_collect().await?;
///     rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
/// }
/// assert_eq!(rows, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    servers: Arc<Servers>,
    options: Arc<Options>,
    table: Option<String>,
    described: Arc<Described>,
    /// What is read in plain mode, where there is nobody to ask.
    plain: Option<Arc<Source>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("location", self.location())
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server that a URL names, without connecting yet. Options set here go before those in the URL,
    /// and those before the environment.
    ///
    /// # Errors
    /// `invalid_argument` for a URL or an option that cannot be understood.
    pub fn new(url: &str, options: Options) -> Result<Self> {
        Self::create(url, options, None)
    }

    /// As [`Client::new`], with a provider of tokens that goes before the options `token` and `token_file`.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_tokens(
        url: &str,
        options: Options,
        provider: Arc<dyn TokenProvider>,
    ) -> Result<Self> {
        Self::create(url, options, Some(provider))
    }

    fn create(
        url: &str,
        options: Options,
        provider: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Self> {
        let parsed = Location::parse(url)?;
        let options = options_of(&parsed, options)?;
        if options.compression.is_some() {
            return Err(Error::invalid_argument(
                "the option compression is for writing in plain mode, as in cat --format arrow -o arrow+tcp://…; who reads \
                 takes what comes",
            ));
        }
        let credentials = Credentials::new(provider, &options);
        let options = Arc::new(options);
        let plain = if parsed.location.scheme.is_plain() {
            let source = Source::try_new(parsed.location.clone(), parsed.table.clone(), &options)?;
            Some(Arc::new(source))
        } else if options.listen.is_some() {
            return Err(Error::invalid_argument(format!(
                "the option listen is for plain mode, as in arrow+tcp://, and {} is not",
                parsed.location
            )));
        } else {
            None
        };
        Ok(Self {
            servers: Servers::new(parsed.location, Arc::clone(&options), credentials),
            options,
            table: parsed.table,
            described: Arc::default(),
            plain,
        })
    }

    /// A client of the server that a URL names, once that server has answered.
    ///
    /// # Errors
    /// As [`Client::new`], and those of [`Client::ping`].
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let client = Self::new(url, options)?;
        client.ping().await?;
        Ok(client)
    }

    /// Where the server is.
    pub fn location(&self) -> &Location {
        self.pool().location()
    }

    /// The connections to the server that the URL names.
    fn pool(&self) -> &Arc<Pool> {
        self.servers.home()
    }

    /// The table that the URL named. In plain mode there is one table, called `stream` where the URL does not name it.
    pub fn table_name(&self) -> Option<&str> {
        let of_plain = self.plain.as_ref().map(|source| source.table());
        of_plain.or(self.table.as_deref())
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The same client, over the same connections, with another value of the option `memory_limit`.
    #[must_use]
    pub fn with_memory_limit(&self, bytes: Option<u64>) -> Self {
        let options = Options {
            memory_limit: bytes,
            ..(*self.options).clone()
        };
        Self {
            options: Arc::new(options),
            ..self.clone()
        }
    }

    async fn call(&self, kind: request::Kind) -> Result<response::Kind> {
        if self.plain.is_some() {
            return Err(no_requests().with_peer(self.location().to_string()));
        }
        self.attempts(|patience| {
            let (pool, kind) = (Arc::clone(self.pool()), kind.clone());
            async move { pool.call(kind, &patience).await }
        })
        .await
    }

    /// Makes an attempt, and makes it again as often as the options say while it fails in a retryable way.
    async fn attempts<T, F>(&self, attempt: impl Fn(Patience) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let patience = Patience::from_now(&self.options);
        let mut retry = Retry::new(&self.options);
        let named = |error: Error| error.with_peer(self.location().to_string());
        loop {
            let error = match attempt(patience).await {
                Ok(done) => return Ok(done),
                Err(error) => retry.count(named(error))?,
            };
            tracing::debug!(%error, "trying again");
            let pause = retry.pause(retry.failed(), &error);
            let waited = retry.wait_until(tokio::time::Instant::now() + pause, &patience);
            waited.await.map_err(named)?;
        }
    }

    /// Over how many connections a partition is read.
    fn streams(&self, partition: &Partition) -> u32 {
        // With a limit each stripe would be asked for as many rows as the whole.
        let can_be_striped = partition.resumable && partition.request.limit.is_none();
        if !can_be_striped {
            return 1;
        }
        let is_long = partition
            .bytes
            .value()
            .is_none_or(|bytes| bytes >= STRIPED_FROM_BYTES);
        let by_default = if is_long && !self.is_local(partition) {
            REMOTE_STREAMS
        } else {
            1
        };
        let most = u32::try_from(partition.units).unwrap_or(u32::MAX).max(1);
        self.options.streams.unwrap_or(by_default).min(most)
    }

    /// Whether a partition is read from this machine.
    fn is_local(&self, partition: &Partition) -> bool {
        let pools = self.servers.of(partition);
        pools.first().is_some_and(|pool| pool.location().is_local())
    }

    /// Asks whether the server is there, and how long the answer took. In plain mode: connects, and waits for the schema.
    ///
    /// # Errors
    /// `unavailable` where it is not there, `unimplemented` for a transport that is not in this build.
    pub async fn ping(&self) -> Result<Duration> {
        let start = Instant::now();
        if let Some(source) = &self.plain {
            self.attempts(|patience| async move { source.open(&patience).await })
                .await?;
            return Ok(start.elapsed());
        }
        match self.call(request::Kind::Ping(messages::Ping {})).await? {
            response::Kind::Pong(_) => Ok(start.elapsed()),
            _ => Err(unexpected("another answer to a ping")),
        }
    }

    /// A page of table names that start with `prefix`, and where the next page starts.
    ///
    /// # Errors
    /// Those of the server and the connection.
    pub async fn tables_page(
        &self,
        prefix: &str,
        page_token: &str,
    ) -> Result<(Vec<TableEntry>, Option<String>)> {
        if let Some(source) = &self.plain {
            let entry = TableEntry {
                name: source.table().to_owned(),
                kind: TableKind::View,
            };
            let is_next = entry.name.starts_with(prefix) && entry.name.as_str() > page_token;
            return Ok((Vec::from_iter(is_next.then_some(entry)), None));
        }
        let list = messages::ListTables {
            prefix: prefix.to_owned(),
            page_token: page_token.to_owned(),
        };
        match self.call(request::Kind::ListTables(list)).await? {
            response::Kind::Tables(tables) => {
                let entries = tables.tables.into_iter();
                let entries = entries
                    .map(|entry| TableEntry {
                        name: entry.name,
                        kind: TableKind::from_wire(&entry.kind),
                    })
                    .collect();
                Ok((
                    entries,
                    Some(tables.page_token).filter(|token| !token.is_empty()),
                ))
            }
            _ => Err(unexpected("another answer to a listing")),
        }
    }

    /// All tables whose names start with `prefix`, in ascending order.
    ///
    /// # Errors
    /// Those of the server and the connection.
    pub async fn tables(&self, prefix: &str) -> Result<Vec<TableEntry>> {
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let (entries, next) = self.tables_page(prefix, &token).await?;
            all.extend(entries);
            match next {
                Some(next) if next > token => token = next,
                Some(_) => return Err(unexpected("a page that does not follow the one before")),
                None => return Ok(all),
            }
        }
    }

    /// What a table is, at the given snapshot, else that of the options, else the newest. What has been described at a
    /// snapshot before is not asked for again.
    ///
    /// # Errors
    /// `not_found`, `expired`, and those of the server and the connection.
    pub async fn describe(&self, table: &str, snapshot: Option<&str>) -> Result<TableInfo> {
        let snapshot = snapshot
            .or(self.options.snapshot.as_deref())
            .unwrap_or_default();
        if let Some(known) = self.described.find(table, snapshot) {
            return Ok(known);
        }
        if let Some(source) = &self.plain {
            let described = self
                .attempts(
                    |patience| async move { source.describe(table, snapshot, &patience).await },
                )
                .await;
            return described.map_err(|error| error.with_table(table));
        }
        let describe = messages::DescribeTable {
            name: table.to_owned(),
            snapshot: snapshot.to_owned(),
        };
        let answer = self
            .call(request::Kind::DescribeTable(describe))
            .await
            .map_err(|error| error.with_table(table))?;
        let info = match answer {
            response::Kind::TableInfo(info) => TableInfo::from_proto(&info, self.pool().limits()),
            _ => Err(unexpected("another answer to a description")),
        };
        let info = info.map_err(|error| {
            error
                .with_table(table)
                .with_peer(self.location().to_string())
        })?;
        self.described.keep(&info);
        Ok(info)
    }

    /// Plans a scan. What the request leaves open is taken from the options.
    ///
    /// # Errors
    /// `not_found`, `expired`, `invalid_argument`, and those of the server and the connection.
    pub async fn plan(&self, request: &ScanRequest) -> Result<ScanPlan> {
        self.plan_with(request, INLINE_UP_TO_BYTES).await
    }

    /// As [`Client::plan`], with the rows in the plan where they are no more than so many bytes.
    async fn plan_with(&self, request: &ScanRequest, inline_bytes: u64) -> Result<ScanPlan> {
        let mut request = request.clone();
        request.snapshot = request.snapshot.or_else(|| self.options.snapshot.clone());
        request.max_partitions = request.max_partitions.or(self.options.partitions);
        request.ordered = request.ordered || self.options.ordered.unwrap_or(false);
        let name = request.source_name();
        let span = tracing::info_span!(
            "lightstream.plan",
            table = %name,
            peer = %self.location(),
            partitions = tracing::field::Empty,
        );
        let planned = self
            .plan_as_is(&request, inline_bytes)
            .instrument(span.clone());
        let plan = planned.await.map_err(|error| {
            error
                .with_table(name)
                .with_peer(self.location().to_string())
        })?;
        span.record("partitions", plan.partitions.len().cast_signed());
        Ok(plan)
    }

    async fn plan_as_is(&self, request: &ScanRequest, inline_bytes: u64) -> Result<ScanPlan> {
        if let Some(source) = &self.plain {
            return self
                .attempts(|patience| async move { source.plan(request, &patience).await })
                .await;
        }
        let sent = request.to_proto()?;
        let kind = request::Kind::Plan(messages::Plan {
            request: Some(sent.clone()),
            inline_up_to_bytes: inline_bytes,
        });
        let (plan, batches, server_id) = self
            .attempts(|patience| {
                let (pool, kind) = (Arc::clone(self.pool()), kind.clone());
                async move { pool.plan(kind, &patience).await }
            })
            .await?;
        let mut plan = ScanPlan::from_proto(plan, request, sent, &server_id, self.pool().limits())?;
        if let Some(batches) = batches {
            match plan.partitions.as_mut_slice() {
                [partition] => partition.rows_at_hand = Some(batches),
                _ => return Err(unexpected("rows with a plan of several partitions")),
            }
        }
        Ok(plan)
    }

    /// Reads a partition. Nothing is sent before the reader is first polled.
    ///
    /// Partitions of the same plan may be read at the same time, more than once, and by other clients.
    pub fn read(&self, partition: &Partition) -> PartitionReader {
        PartitionReader::new(self.clone(), partition.clone(), 0)
    }

    /// Reads a partition without its first `offset` rows, which the server leaves out; where there are no more, nothing comes.
    /// Rows that are left out count towards the limit of the scan. One connection is used.
    pub fn read_after(&self, partition: &Partition, offset: u64) -> PartitionReader {
        PartitionReader::new(self.clone(), partition.clone(), offset)
    }

    /// Plans a scan and reads its rows as one stream, filtered to exactly what was asked for.
    ///
    /// # Errors
    /// Those of [`Client::plan`], and `unimplemented` for a filter that neither side can apply.
    pub async fn scan(&self, request: &ScanRequest) -> Result<ScanReader> {
        Ok(self.plan_scan(request).await?.read())
    }

    /// Plans a scan that is then read as one stream, as often as is wanted.
    ///
    /// # Errors
    /// As [`Client::scan`].
    pub async fn plan_scan(&self, request: &ScanRequest) -> Result<PlannedScan> {
        PlannedScan::try_new(self, request, Rest::Here).await
    }

    /// Plans a scan that gives every row that was asked for, and where [`PlannedScan::filters`] are not exact more: the
    /// caller applies those. A limit is then left to the caller too. No rows come with the plan, however few they are: an
    /// engine may plan only to explain.
    ///
    /// # Errors
    /// Those of [`Client::plan`].
    pub async fn plan_superset(&self, request: &ScanRequest) -> Result<PlannedScan> {
        PlannedScan::try_new(self, request, Rest::ForCaller).await
    }

    /// Makes the tickets of a plan good for longer.
    ///
    /// # Errors
    /// `expired` where it is too late, and those of the server and the connection.
    pub async fn renew(&self, plan: &mut ScanPlan) -> Result<()> {
        if self.plain.is_some() {
            return Ok(());
        }
        let tickets = plan
            .partitions
            .iter()
            .map(|partition| partition.ticket.clone())
            .collect();
        match self
            .call(request::Kind::Renew(messages::Renew { tickets }))
            .await?
        {
            response::Kind::Renewed(renewed) if renewed.tickets.len() == plan.partitions.len() => {
                for (partition, ticket) in plan.partitions.iter_mut().zip(renewed.tickets) {
                    partition.ticket = ticket;
                }
                plan.valid_for = Duration::from_millis(renewed.valid_for_ms);
                Ok(())
            }
            _ => Err(unexpected("another answer to a renewal")),
        }
    }

    /// Tells the server that a plan will not be read again, so that it need not hold the snapshot any longer.
    ///
    /// # Errors
    /// Those of the server and the connection.
    pub async fn release(&self, plan: &ScanPlan) -> Result<()> {
        let Some(first) = plan.partitions.first().filter(|_| self.plain.is_none()) else {
            return Ok(());
        };
        match self
            .call(request::Kind::Release(messages::Release {
                ticket: first.ticket.clone(),
            }))
            .await?
        {
            response::Kind::Released(_) => Ok(()),
            _ => Err(unexpected("another answer to a release")),
        }
    }

    /// Plans again on the same snapshot, to read on where a server no longer knows its tickets.
    async fn plan_again(&self, partition: &Partition) -> Result<Partition> {
        let lost = || {
            Error::expired(
                "the snapshot does not outlive its plan, which the server no longer holds",
            )
        };
        let snapshot = partition.snapshot.clone().ok_or_else(lost)?;
        let mut request = ScanRequest::from_proto(&partition.request, &Default::default())?;
        request.snapshot = Some(snapshot.clone());
        let plan = self.plan_as_is(&request, INLINE_UP_TO_BYTES).await?;
        let same = plan.snapshot.as_ref() == Some(&snapshot) && plan.schema == partition.schema;
        let again = plan
            .partitions
            .into_iter()
            .nth(partition.index)
            .filter(|again| again.units == partition.units)
            .map(|again| Partition {
                started: Arc::clone(&partition.started),
                ..again
            });
        again
            .filter(|_| same)
            .ok_or_else(|| Error::expired("the server plans the same scan in another way now"))
    }
}
