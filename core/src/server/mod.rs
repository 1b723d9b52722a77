//! The server: a [`Catalog`] of [`Table`]s offered to clients at one or more locations.

mod answers;
mod authenticate;
mod batches;
mod bounds;
mod catalog;
mod failures;
mod grants;
mod history;
mod inline;
mod leases;
mod limits;
mod mapped_ipc;
mod memory_table;
mod replicas;
mod session;
mod share;
mod span;
mod stats;
mod stream_table;
mod table;
mod token_file;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use self::catalog::NamedTables;
use self::failures::Failures;
use self::leases::Leases;
use self::limits::Turns;
use self::replicas::{Named, Replicas};
use self::session::{Refusal, Session};
use self::stats::{Active, Counters};
use crate::error::{Error, Result};
use crate::memory::FramePool;
use crate::options::TlsMode;
use crate::protocol::limits::DecodeLimits;
use crate::protocol::ticket::{Ticket, TicketKey};
use crate::random;
use crate::transport::{Incoming, Listener, Location, Opened, TlsServer};

pub use crate::transport::TlsFiles;

pub use crate::protocol::units::Units;
pub use authenticate::{Authenticator, Credentials, Identity};
pub use grants::{Grants, TableNames};
pub use limits::ServerLimits;
pub use mapped_ipc::MappedIpcTable;
pub use memory_table::MemoryTable;
pub use share::share_out;
pub use stats::{Durations, Outcomes, ServerMetrics, ServerStats, StatsReader, TableStats};
pub use stream_table::{RowSource, RowStream, StreamTable};
pub use table::{Catalog, Scan, ScanPartition, Table, UnitEvent, UnitStream};
pub use token_file::TokenFile;

/// Frames are cut to about this size unless the client asks for another: it fits a core's cache beside what else is
/// needed to send or receive it, and with what cutting and padding add to it, half a huge page.
const DEFAULT_FRAME_BYTES: usize = 928 << 10;

/// Tables of many columns have larger frames, so that each column has at least so much in each: short stretches of memory
/// are slow to read and to send.
const COLUMN_BYTES: usize = 40 << 10;

/// A unit of a table in memory or in a mapped file holds up to about this many bytes: large enough to be sent well, small
/// enough to be shared out and sent again. It is four frames of the usual size, or one of the widest.
const UNIT_BYTES: usize = 4 * DEFAULT_FRAME_BYTES;

/// The size of frames where the client asks for none.
fn default_frame_bytes(schema: &arrow_schema::Schema) -> usize {
    let columns = schema.flattened_fields().len();
    columns
        .saturating_mul(COLUMN_BYTES)
        .clamp(DEFAULT_FRAME_BYTES, UNIT_BYTES)
}

/// How long tickets are good.
const TICKET_LIFETIME: Duration = Duration::from_secs(3600);

/// Largest request that is read, in bytes.
const REQUEST_BYTES: u64 = 64 << 20;

/// Pause after a connection could not be accepted, as when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all connections of a server share.
struct Shared {
    catalog: NamedTables,
    ticket_key: TicketKey,
    ticket_lifetime: Duration,
    server_id: String,
    limits: DecodeLimits,
    pool: FramePool,
    leases: Arc<Leases>,
    plan_ids: AtomicU64,
    counters: Arc<Counters>,
    authenticator: Option<Arc<dyn Authenticator>>,
    failures: Failures,
    server_limits: ServerLimits,
    turns: Arc<Turns>,
    replicas: Replicas,
}

impl Shared {
    /// What a ticket says that was given to this subject.
    fn open_ticket(&self, sealed: &[u8], subject: &str) -> Result<Ticket> {
        self.ticket_key
            .open(sealed, subject, std::time::SystemTime::now())
    }
}

/// Puts a server together.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int32Array, RecordBatch};
/// use lightstream_core::server::{MemoryTable, Server};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
/// let batches = vec![RecordBatch::try_from_iter([("a", column)])?];
/// let server = Server::builder()
///     .table("numbers", MemoryTable::try_new(batches)?)
///     .listen("lightstream://127.0.0.1:0")
///     .await?;
/// println!("{}", server.url());
/// server.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct ServerBuilder {
    catalog: NamedTables,
    ticket_key: Option<TicketKey>,
    ticket_lifetime: Option<Duration>,
    authenticator: Option<Arc<dyn Authenticator>>,
    tls: Option<TlsFiles>,
    limits: ServerLimits,
    named: Named,
}

impl ServerBuilder {
    /// Serves a table under a name. Names are case-sensitive; a later table takes the place of an earlier one.
    #[must_use]
    pub fn table(self, name: impl Into<String>, table: impl Table) -> Self {
        self.shared_table(name, Arc::new(table))
    }

    /// Serves a table that is also held elsewhere, as to replace its rows.
    #[must_use]
    pub fn shared_table(mut self, name: impl Into<String>, table: Arc<dyn Table>) -> Self {
        self.catalog.tables.insert(name.into(), table);
        self
    }

    /// Serves a catalog behind the tables that are named one by one.
    #[must_use]
    pub fn catalog(mut self, catalog: impl Catalog) -> Self {
        self.catalog.rest = Some(Arc::new(catalog));
        self
    }

    /// Seals tickets with this key, so that servers that share it accept each other's. By default the key is the
    /// process's own.
    #[must_use]
    pub fn ticket_key(mut self, key: TicketKey) -> Self {
        self.ticket_key = Some(key);
        self
    }

    /// How long tickets are good. What a plan reads is held for as long after it was planned, renewed or last read, and
    /// while it is being read; then it is let go of. Default one hour.
    #[must_use]
    pub fn ticket_lifetime(mut self, lifetime: Duration) -> Self {
        self.ticket_lifetime = Some(lifetime);
        self
    }

    /// Serves only clients that this knows. By default everybody is served.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// Secures connections over TCP with this certificate, unless a location says `tls=off` or `lightstream+tcp`. Its
    /// files are read again when they change. Clients that show a certificate of their own are known by its subject.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// How much is taken on at a time, and how long clients are waited for.
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Names a place where clients reach this server, such as the one that a proxy or a wildcard address hides. Plans then
    /// name it for each partition. May be said more than once, for a server that is reached at several places.
    #[must_use]
    pub fn advertise(mut self, url: impl Into<String>) -> Self {
        self.named.advertised.push(url.into());
        self
    }

    /// Names another server that has the same tables, with the same snapshots, and the same key for tickets. Plans spread
    /// their partitions over this server and its peers, and name the others for each partition in case one is gone. Rows
    /// whose state does not outlive the plan are read from this server only.
    ///
    /// Clients follow to another host only where their option `allowed_hosts` has it.
    #[must_use]
    pub fn peer(mut self, url: impl Into<String>) -> Self {
        self.named.peers.push(url.into());
        self
    }

    /// Starts to listen at one location, on the runtime that this is called in. Port 0 takes a free one.
    ///
    /// # Errors
    /// As [`ServerBuilder::listen_all`].
    pub async fn listen(self, url: &str) -> Result<Server> {
        self.listen_all(&[url]).await
    }

    /// Starts to listen at several locations.
    ///
    /// # Errors
    /// `invalid_argument` for a URL that is no place to listen at, be reached at or have a peer at, `unimplemented` for a transport or security that is
    /// not in this build, `unavailable` where the place is taken.
    pub async fn listen_all(self, urls: &[&str]) -> Result<Server> {
        let tls = self.tls.map(TlsServer::try_new).transpose()?.map(Arc::new);
        let mut listeners = Vec::with_capacity(urls.len());
        for url in urls {
            let parsed = Location::parse(url)?;
            if parsed.location.scheme.is_plain() {
                return Err(Error::invalid_argument(format!(
                    "{} is for bare Arrow streams, in which nobody can ask for anything: a server listens at lightstream+… URLs",
                    parsed.location
                )));
            }
            if parsed.table.is_some() {
                return Err(Error::invalid_argument(format!(
                    "{url:?} names a table, not only a place to listen at"
                )));
            }
            let mut mode = None;
            for (name, value) in &parsed.options {
                match (name.as_str(), value.as_str()) {
                    ("tls", "off") => mode = Some(TlsMode::Off),
                    ("tls", "on") => mode = Some(TlsMode::On),
                    _ => {
                        return Err(Error::invalid_argument(format!(
                            "{url:?} has an option {name:?} that means nothing to a server"
                        )));
                    }
                }
            }
            let listener = Listener::bind(&parsed.location, mode, tls.as_ref()).await?;
            listeners.push(listener.with_keepalive(self.limits.keepalive));
        }
        let locations = listeners
            .iter()
            .map(|listener| listener.location().clone())
            .collect::<Vec<_>>();
        if locations.is_empty() {
            return Err(Error::invalid_argument(
                "a server needs at least one place to listen at",
            ));
        }
        let replicas = Replicas::try_new(self.named, &locations)?;
        let shared = Arc::new(Shared {
            replicas,
            catalog: self.catalog,
            ticket_key: self.ticket_key.map_or_else(TicketKey::random, Ok)?,
            ticket_lifetime: self.ticket_lifetime.unwrap_or(TICKET_LIFETIME),
            server_id: random::id()?,
            limits: DecodeLimits {
                message_bytes: REQUEST_BYTES,
                ..DecodeLimits::default()
            },
            pool: FramePool::new(0),
            leases: Arc::default(),
            plan_ids: AtomicU64::new(0),
            counters: Arc::default(),
            authenticator: self.authenticator,
            failures: Failures::default(),
            turns: Turns::new(&self.limits),
            server_limits: self.limits,
        });
        let (draining, is_draining) = watch::channel(false);
        let stats = StatsReader {
            counters: Arc::clone(&shared.counters),
            turns: Arc::clone(&shared.turns),
            leases: Arc::downgrade(&shared.leases),
            draining: is_draining,
        };
        let authenticator = shared.authenticator.clone();
        let task = tokio::spawn(accept_all(listeners, shared, draining.subscribe()));
        Ok(Server {
            locations,
            draining,
            task: Some(task),
            stats,
            tls,
            authenticator,
        })
    }
}

/// A running server. Dropping it ends it at once, with all connections.
pub struct Server {
    locations: Vec<Location>,
    draining: watch::Sender<bool>,
    task: Option<tokio::task::JoinHandle<()>>,
    stats: StatsReader,
    tls: Option<Arc<TlsServer>>,
    authenticator: Option<Arc<dyn Authenticator>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("locations", &self.locations)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to put a server together.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The URL of the first location that it listens at, with the port that was taken.
    pub fn url(&self) -> String {
        self.locations
            .first()
            .map(Location::to_string)
            .unwrap_or_default()
    }

    /// The locations that it listens at.
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// What it has done so far.
    pub fn stats(&self) -> ServerStats {
        self.stats.stats()
    }

    /// Reads what it has done, after its end too.
    pub fn stats_reader(&self) -> StatsReader {
        self.stats.clone()
    }

    /// Reads again what files say: the certificate, and who may connect. It is done by itself when they change.
    ///
    /// # Errors
    /// `invalid_argument` for a file that cannot be used; what it said before stays in force.
    pub fn reload(&self) -> Result<()> {
        let tls = self.tls.as_ref().map_or(Ok(()), |tls| tls.reload());
        let authenticator = self.authenticator.as_ref().map_or(Ok(()), |a| a.reload());
        tls.and(authenticator)
    }

    /// Accepts no more connections, lets requests under way finish for so long, then ends.
    ///
    /// Returns whether all of them finished. Cancel safe: dropping the future ends the server at once.
    pub async fn shutdown(mut self, drain: Duration) -> bool {
        self.draining.send_replace(true);
        match self.task.take() {
            None => true,
            Some(mut task) => {
                let finished = tokio::time::timeout(drain, &mut task).await.is_ok();
                if !finished {
                    task.abort();
                }
                finished
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// How often plans that are over are looked for: what they hold is held for a quarter longer at most.
fn sweep_interval(lifetime: Duration) -> Duration {
    (lifetime / 4).clamp(Duration::from_millis(50), Duration::from_secs(60))
}

/// Accepts connections until told to drain, then waits for those that are busy.
async fn accept_all(
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
    mut draining: watch::Receiver<bool>,
) {
    // Dropping the set ends every connection.
    let mut connections = JoinSet::new();
    let mut next = 0u64;
    let mut sweeps = tokio::time::interval(sweep_interval(shared.ticket_lifetime));
    loop {
        let accepted = {
            let accepts = listeners.iter().map(|listener| Box::pin(listener.accept()));
            tokio::select! {
                biased;
                _ = draining.wait_for(|&draining| draining) => break,
                _ = sweeps.tick() => {
                    shared.leases.sweep();
                    continue;
                }
                (accepted, ..) = futures::future::select_all(accepts) => accepted,
            }
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok(stream) => {
                next += 1;
                connections.spawn(serve(stream, next, Arc::clone(&shared), draining.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listeners);
    while connections.join_next().await.is_some() {}
}

/// Serves one connection.
async fn serve(
    incoming: Incoming,
    number: u64,
    shared: Arc<Shared>,
    draining: watch::Receiver<bool>,
) {
    use std::sync::atomic::Ordering;
    let counters = &shared.counters;
    counters.connections.fetch_add(1, Ordering::AcqRel);
    let _active = Active::new(counters, |counters| &counters.active_connections);
    let active = counters.active_connections.load(Ordering::Acquire);
    let is_full = active > shared.server_limits.max_connections as u64;
    let opening = tokio::time::timeout(shared.server_limits.handshake_timeout, incoming.open());
    let (stream, refusal): (_, Option<Refusal>) = match opening.await {
        Ok(Ok(Opened::Ready(stream))) if is_full => {
            counters.count_refusal("busy");
            (stream, Some(|| limits::busy("it has too many connections")))
        }
        Ok(Ok(Opened::Ready(stream))) => (stream, None),
        Ok(Ok(Opened::NotSecure(stream))) => {
            counters.count_refusal("not_secure");
            (stream, Some(not_secure))
        }
        Ok(Err(error)) => {
            counters.count_refusal("handshake");
            tracing::debug!(connection = number, %error, "not opened");
            return;
        }
        Err(_) => {
            counters.count_refusal("handshake");
            tracing::debug!(connection = number, "not opened in time");
            return;
        }
    };
    tracing::debug!(connection = number, peer = %stream.peer, "accepted");
    Session::new(Arc::clone(&shared), stream, refusal, draining)
        .run()
        .await;
}

fn not_secure() -> Error {
    Error::unavailable("this server speaks TLS here: say tls=on or use lightstream+tls://")
        .with_retryable(false)
}
