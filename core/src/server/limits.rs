//! What a server takes on at a time, and how long it waits for clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};
use crate::transport::KEEPALIVE;

/// A scan that is being read lets others have its turn after this long, if there are any.
const TURN: Duration = Duration::from_millis(200);

/// When a client that is told to come back had better do so.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How much a server takes on, and how patient it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Most connections at a time. Clients beyond it are told that the server is busy. Default 10,000.
    pub max_connections: usize,
    /// Most partitions, or stripes of them, that are worked on at a time. Default 256. The others wait, and take turns with
    /// those at work; one whose client takes no rows is not at work.
    pub max_scans: usize,
    /// Most that wait. Clients beyond it are told that the server is busy. Default 4,096.
    pub max_waiting_scans: usize,
    /// Longest wait for a client to say who it is. Default 10 s.
    pub handshake_timeout: Duration,
    /// Longest wait for the rest of a request. Default 60 s.
    pub request_timeout: Duration,
    /// Longest wait for the next request. Default 15 min.
    pub idle_timeout: Duration,
    /// How long a client may take no byte of an answer. Default 5 min.
    pub send_timeout: Duration,
    /// A connection on which nothing goes is probed after so long, and given up where the client's machine leaves three
    /// probes unanswered, which takes half as long again. Default 60 s; the system counts in whole seconds.
    pub keepalive: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_scans: 256,
            max_waiting_scans: 4096,
            handshake_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(900),
            send_timeout: Duration::from_secs(300),
            keepalive: KEEPALIVE,
        }
    }
}

/// What a client is told that has to come back later.
pub(super) fn busy(why: &str) -> Error {
    Error::resource_exhausted(format!("the server is busy: {why}"))
        .with_retryable(true)
        .with_retry_after(RETRY_AFTER)
}

/// The turns of those that work, first come first served.
#[derive(Debug)]
pub(super) struct Turns {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// Counts one that waits, until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Turns {
    pub(super) fn new(limits: &ServerLimits) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(
                limits.max_scans.clamp(1, Semaphore::MAX_PERMITS),
            )),
            waiting: AtomicUsize::new(0),
            most_waiting: limits.max_waiting_scans,
        })
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Waits for a first turn.
    ///
    /// # Errors
    /// `resource_exhausted`, to be tried again, where too many wait already.
    pub(super) async fn first(self: &Arc<Self>) -> Result<Turn> {
        let mut turn = Turn {
            turns: Arc::clone(self),
            place: Arc::clone(&self.places).try_acquire_owned().ok(),
            since: Instant::now(),
        };
        if turn.place.is_none() {
            if self.waiting() >= self.most_waiting {
                return Err(busy("too many scans wait for their turn"));
            }
            turn.take().await;
        }
        Ok(turn)
    }
}

/// A place among those that work, which may be given to others for a while.
pub(super) struct Turn {
    turns: Arc<Turns>,
    place: Option<OwnedSemaphorePermit>,
    since: Instant,
}

impl Turn {
    async fn take(&mut self) {
        let turns = Arc::clone(&self.turns);
        turns.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&turns.waiting);
        // It is never closed; without it nothing would be held back, which is the lesser evil.
        self.place = Arc::clone(&turns.places).acquire_owned().await.ok();
        self.since = Instant::now();
    }

    /// Goes on working, once others have had their turn if this one was long.
    ///
    /// Cancel safe.
    pub(super) async fn go_on(&mut self) {
        let is_long = self.since.elapsed() >= TURN && self.turns.waiting() > 0;
        if is_long {
            self.place = None;
        }
        if self.place.is_none() {
            self.take().await;
        }
    }

    /// Lets others work while this one cannot, if there are any.
    pub(super) fn let_others(&mut self) {
        if self.turns.waiting() > 0 {
            self.place = None;
        }
    }
}
