//! Connections to one server: opened when wanted, kept while idle, replaced when stale.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use tokio::time::Instant;
use tracing::Instrument;

use super::credentials::{Credentials, Issued};
use crate::connection::{Checking, Frame, FrameReader, FrameWriter};
use crate::error::{Error, ErrorCode, Result};
use crate::memory::FramePool;
use crate::options::{Checksums, Options};
use crate::protocol::ipc::Decoder;
use crate::protocol::limits::DecodeLimits;
use crate::protocol::messages::{self, request, response};
use crate::protocol::request::name_of;
use crate::protocol::{VERSION, error_from_proto};
use crate::secret::Secret;
use crate::trace::{self, TraceContext};
use crate::transport::{self, Location, Security, Timing};

/// Idle connections beyond this many are closed.
const MOST_IDLE: usize = 64;

/// Results up to this size come with their plan.
pub(super) const INLINE_UP_TO_BYTES: u64 = 64 << 10;

/// How many times that much is taken, since a frame without rows may hold a long schema.
const INLINE_SLACK: u64 = 64;

/// A server that was not there is asked after the others for so long.
const AWAY: Duration = Duration::from_secs(5);

const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// When a request must be done, and how long it may be silent before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    silence: Duration,
    deadline: Option<(Instant, Duration)>,
}

impl Patience {
    /// What the options say, from now.
    pub(super) fn from_now(options: &Options) -> Self {
        Self::from(options, Instant::now())
    }

    /// What the options say of work that began then.
    pub(super) fn from(options: &Options, start: Instant) -> Self {
        Self {
            silence: options.read_timeout.unwrap_or(READ_TIMEOUT),
            deadline: options
                .timeout
                .and_then(|timeout| Some((start.checked_add(timeout)?, timeout))),
        }
    }

    /// What is left, for the server to know; 0 means no limit.
    fn left_ms(&self) -> u64 {
        self.deadline.map_or(0, |(deadline, _)| {
            let left = deadline.saturating_duration_since(Instant::now());
            u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1)
        })
    }

    /// What is said where the time limit ends before that.
    pub(super) fn ends_before(&self, then: Instant) -> Option<Error> {
        let (_, timeout) = self.deadline.filter(|(deadline, _)| *deadline <= then)?;
        Some(Error::deadline_exceeded(format!(
            "there is no time for another attempt within the limit of {timeout:?} (option timeout)"
        )))
    }

    /// Waits for something to be done, silence or not.
    pub(super) async fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.deadline {
            None => work.await,
            Some((deadline, timeout)) => match tokio::time::timeout_at(deadline, work).await {
                Ok(done) => done,
                Err(_) => Err(too_late(timeout)),
            },
        }
    }

    /// Waits for a step of a peer's for no longer than it may be silent; `None` where it was.
    async fn step<T>(&self, work: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        let silent = Instant::now() + self.silence;
        let until = self
            .deadline
            .map_or(silent, |(deadline, _)| deadline.min(silent));
        match tokio::time::timeout_at(until, work).await {
            Ok(done) => done.map(Some),
            Err(_) => match self.deadline {
                Some((deadline, timeout)) if deadline <= silent => Err(too_late(timeout)),
                _ => Ok(None),
            },
        }
    }

    /// Waits for something that peers send, as long as the count of what has come grows.
    pub(super) async fn while_received<T>(
        &self,
        received: &AtomicU64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        loop {
            let before = received.load(Ordering::Relaxed);
            if let Some(done) = self.step(work.as_mut()).await? {
                return Ok(done);
            }
            if received.load(Ordering::Relaxed) == before {
                return Err(self.silent());
            }
        }
    }

    fn silent(&self) -> Error {
        let silence = self.silence;
        Error::deadline_exceeded(format!(
            "the server was silent for {silence:?} (option read_timeout)"
        ))
        .with_retryable(true)
    }
}

fn too_late(timeout: Duration) -> Error {
    Error::deadline_exceeded(format!(
        "not done within the time limit of {timeout:?} (option timeout)"
    ))
}

/// A connection on which one request at a time is under way.
pub(super) struct Connection {
    reader: FrameReader,
    writer: FrameWriter,
    is_welcomed: bool,
    /// The server process at the other end, once it has welcomed the client.
    server_id: String,
    /// It has served a request before.
    is_reused: bool,
    /// What it shows, or has shown, to the server.
    issued: Issued,
    username: Option<Arc<str>>,
    /// Where requests stand in a trace that this process does not record.
    traceparent: Option<TraceContext>,
}

impl Connection {
    /// Sends a request; on a fresh connection with the greeting in front.
    pub(super) async fn send(&mut self, kind: request::Kind, patience: &Patience) -> Result<()> {
        if !self.is_welcomed && !self.writer.is_pending() {
            self.writer.queue_request(
                0,
                None,
                request::Kind::Hello(hello(&self.issued, self.username.as_deref())),
            )?;
        }
        let traceparent = trace::outgoing(self.traceparent.as_ref());
        self.writer
            .queue_request(patience.left_ms(), traceparent, kind)?;
        loop {
            let before = self.writer.sent_bytes();
            if let Some(()) = patience.step(self.writer.flush()).await? {
                return Ok(());
            }
            // A frame that is only slow to go out is not silence.
            if self.writer.sent_bytes() == before {
                return Err(patience.silent());
            }
        }
    }

    async fn next_frame(&mut self, patience: &Patience) -> Result<Option<Frame>> {
        loop {
            let before = self.reader.received_bytes();
            if let Some(frame) = patience.step(self.reader.next()).await? {
                return Ok(frame);
            }
            // A frame that is only slow to come in is not silence.
            if self.reader.received_bytes() == before {
                return Err(patience.silent());
            }
        }
    }

    /// The next frame of an answer. Signs of life are passed over, errors of the server become errors here.
    pub(super) async fn receive(&mut self, patience: &Patience) -> Result<Frame> {
        loop {
            let frame = self.next_frame(patience).await?;
            let Some(frame) = frame else {
                return Err(Error::unavailable(
                    "the server closed the connection before it had answered",
                ));
            };
            match frame {
                Frame::Response(messages::Response {
                    kind: Some(response::Kind::Progress(_)),
                }) => {}
                Frame::Response(messages::Response {
                    kind: Some(response::Kind::Error(error)),
                }) => {
                    return Err(error_from_proto(error));
                }
                Frame::Response(messages::Response {
                    kind: Some(response::Kind::Welcome(welcome)),
                }) if !self.is_welcomed => {
                    if welcome.version != VERSION {
                        return Err(Error::unimplemented(format!(
                            "the server wants to speak version {} of the service, this client speaks {VERSION}",
                            welcome.version
                        )));
                    }
                    self.is_welcomed = true;
                    self.server_id = welcome.server_id;
                }
                Frame::Request(_) => return Err(unexpected("a request")),
                frame if self.is_welcomed => return Ok(frame),
                _ => return Err(unexpected("an answer before its welcome")),
            }
        }
    }
}

pub(super) fn unexpected(what: &str) -> Error {
    Error::data_loss(format!("the server sent {what} where that has no place"))
}

fn hello(issued: &Issued, username: Option<&str>) -> messages::Hello {
    let token = issued.token.as_ref().map(Secret::expose);
    messages::Hello {
        token: token.unwrap_or_default().to_owned(),
        username: username.unwrap_or_default().to_owned(),
        versions: vec![VERSION],
        client: concat!("lightstream/", env!("CARGO_PKG_VERSION")).to_owned(),
        ..messages::Hello::default()
    }
}

/// The connections to one server.
pub(super) struct Pool {
    location: Location,
    security: Security,
    credentials: Arc<Credentials>,
    username: Option<Arc<str>>,
    traceparent: Option<TraceContext>,
    timing: Timing,
    checksums: Checksums,
    limits: DecodeLimits,
    frames: FramePool,
    idle: Mutex<VecDeque<Connection>>,
    /// The server process that refused a request last.
    refused_by: Mutex<String>,
    /// Until when others are asked first, as this server was not there.
    away_until: Mutex<Option<Instant>>,
}

impl Pool {
    pub(super) fn new(
        location: Location,
        options: &Options,
        credentials: Arc<Credentials>,
    ) -> Arc<Self> {
        Arc::new(Self {
            location,
            credentials,
            security: options.into(),
            username: options.username.as_deref().map(Into::into),
            traceparent: options.traceparent,
            checksums: options.checksum.unwrap_or_default(),
            timing: options.into(),
            limits: options.decode_limits(),
            frames: FramePool::of_process(),
            idle: Mutex::default(),
            refused_by: Mutex::default(),
            away_until: Mutex::default(),
        })
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    pub(super) fn limits(&self) -> &DecodeLimits {
        &self.limits
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        // The list is sound after every statement, so a panic elsewhere does not spoil it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusing_server(&self) -> MutexGuard<'_, String> {
        self.refused_by
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The server process that refused a request last.
    pub(super) fn refused_by(&self) -> String {
        self.refusing_server().clone()
    }

    fn away(&self) -> MutexGuard<'_, Option<Instant>> {
        self.away_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server was not there a moment ago.
    pub(super) fn is_away(&self) -> bool {
        self.away().is_some_and(|until| until > Instant::now())
    }

    /// A connection with nothing under way.
    async fn take(&self, patience: &Patience) -> Result<Connection> {
        loop {
            let Some(mut connection) = self.lock().pop_back() else {
                break;
            };
            if !connection.reader.is_stale() {
                connection.is_reused = true;
                return Ok(connection);
            }
        }
        let issued = self.provided(self.credentials.current(), patience).await?;
        let opening = transport::connect(&self.location, &self.security, self.timing);
        let stream = patience.wait(opening).await?;
        tracing::debug!(server = %self.location, peer = stream.peer, "connected");
        let checking = match self.checksums {
            Checksums::Off => Checking::Off,
            Checksums::Crc32c => Checking::On,
        };
        let mut writer = FrameWriter::new(stream.write);
        writer.set_checking(checking == Checking::On);
        Ok(Connection {
            reader: FrameReader::new(stream.read, self.limits.clone(), self.frames.clone())
                .checking(checking),
            writer,
            is_welcomed: false,
            server_id: String::new(),
            is_reused: false,
            issued,
            username: self.username.clone(),
            traceparent: self.traceparent,
        })
    }

    /// Waits for whoever gives out tokens, for no longer than a connection may take.
    async fn provided<T>(
        &self,
        work: impl Future<Output = Result<T>>,
        patience: &Patience,
    ) -> Result<T> {
        let bounded = tokio::time::timeout(self.timing.connect, patience.wait(work));
        bounded.await.unwrap_or_else(|_| {
            Err(Error::deadline_exceeded(format!(
                "no token was provided within {:?} (option connect_timeout)",
                self.timing.connect
            )))
        })
    }

    /// Takes a connection back once its request is answered to the end.
    pub(super) fn give_back(&self, connection: Connection) {
        let mut idle = self.lock();
        if idle.len() < MOST_IDLE {
            idle.push_back(connection);
        }
    }

    /// Sends a request and waits for the first frame of its answer. A connection that turns out to be stale, as after
    /// a restart of the server, is replaced: nothing came back on it, and every request may be made twice. A token that is
    /// refused is replaced once.
    pub(super) async fn ask(
        &self,
        kind: request::Kind,
        patience: &Patience,
    ) -> Result<(Connection, Frame)> {
        let span = tracing::info_span!(
            "lightstream.request",
            otel.kind = "client",
            request = name_of(Some(&kind)),
            peer = %self.location,
        );
        let answer = self.answer(kind, patience).instrument(span).await;
        *self.away() = match &answer {
            Err(error) if is_absence(error) => Some(Instant::now() + AWAY),
            _ => None,
        };
        answer
    }

    async fn answer(
        &self,
        kind: request::Kind,
        patience: &Patience,
    ) -> Result<(Connection, Frame)> {
        let mut has_renewed = false;
        loop {
            let mut connection = self.take(patience).await?;
            let answer = match connection.send(kind.clone(), patience).await {
                Ok(()) => connection.receive(patience).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(frame) => return Ok((connection, frame)),
                Err(error) if connection.is_reused && error.code() == ErrorCode::Unavailable => {}
                Err(error) if error.code() == ErrorCode::Unauthenticated && !has_renewed => {
                    // The other idle connections have shown the same.
                    self.lock().clear();
                    has_renewed = true;
                    let renewing = self.credentials.renew(&connection.issued);
                    if !self.provided(renewing, patience).await? {
                        return Err(error.with_peer(self.location.to_string()));
                    }
                }
                Err(error) => {
                    if error.code() == ErrorCode::DeadlineExceeded {
                        // The other idle connections may be as dead as this one.
                        self.lock().clear();
                    }
                    *self.refusing_server() = connection.server_id;
                    return Err(error.with_peer(self.location.to_string()));
                }
            }
        }
    }

    /// Asks for one response.
    pub(super) async fn call(
        &self,
        kind: request::Kind,
        patience: &Patience,
    ) -> Result<response::Kind> {
        let (connection, frame) = self.ask(kind, patience).await?;
        match frame {
            Frame::Response(messages::Response { kind: Some(kind) }) => {
                self.give_back(connection);
                Ok(kind)
            }
            _ => Err(unexpected("an unknown answer").with_peer(self.location.to_string())),
        }
    }

    /// Asks for a plan. The rows come along where they are few.
    pub(super) async fn plan(
        &self,
        kind: request::Kind,
        patience: &Patience,
    ) -> Result<(messages::ScanPlan, Option<Arc<[RecordBatch]>>, String)> {
        let (mut connection, frame) = self.ask(kind, patience).await?;
        let Frame::Response(messages::Response {
            kind: Some(response::Kind::ScanPlan(plan)),
        }) = frame
        else {
            return Err(unexpected("another answer to a plan"));
        };
        let mut rows = None;
        if plan.inline {
            let mut decoder = Decoder::new(self.limits.clone());
            let mut batches = Vec::new();
            let mut received = Received::default();
            rows = loop {
                match connection.receive(patience).await.map_err(ended_early)? {
                    Frame::Batch(payload) => {
                        batches.push(received.decode(&mut decoder, payload)?);
                        if received.bytes > INLINE_SLACK * INLINE_UP_TO_BYTES {
                            return Err(unexpected("more rows with a plan than were asked for"));
                        }
                    }
                    Frame::Response(messages::Response {
                        kind: Some(response::Kind::ReadEnd(end)),
                    }) => {
                        received.check(&end)?;
                        break Some(batches.into());
                    }
                    _ => return Err(unexpected("an unknown frame among the rows of a plan")),
                }
            };
        }
        let server_id = connection.server_id.clone();
        self.give_back(connection);
        Ok((plan, rows, server_id))
    }
}

/// Whether an error means that nobody is there, and not that somebody said no.
fn is_absence(error: &Error) -> bool {
    let codes = [ErrorCode::Unavailable, ErrorCode::DeadlineExceeded];
    error.is_retryable() && codes.contains(&error.code())
}

/// A connection that ends before the end message leaves the rows incomplete.
pub(super) fn ended_early(error: Error) -> Error {
    match error.code() {
        ErrorCode::Unavailable => Error::data_loss("the stream ended before its end message")
            .with_retryable(true)
            .with_source(error),
        _ => error,
    }
}

/// What has come of a stream of rows, to compare with what the server says it sent.
#[derive(Debug, Default)]
pub(super) struct Received {
    batches: u64,
    rows: u64,
    bytes: u64,
}

impl Received {
    pub(super) fn decode(&mut self, decoder: &mut Decoder, payload: Buffer) -> Result<RecordBatch> {
        self.bytes += payload.len() as u64;
        let batch = decoder.decode(payload)?;
        self.rows += batch.num_rows() as u64;
        self.batches += u64::from(batch.num_rows() > 0);
        Ok(batch)
    }

    pub(super) fn check(&self, end: &messages::ReadEnd) -> Result<()> {
        if (self.batches, self.rows, self.bytes) == (end.batches, end.rows, end.bytes) {
            return Ok(());
        }
        Err(Error::data_loss(format!(
            "{} rows in {} batches of {} bytes have come where {} rows in {} batches of {} bytes were sent",
            self.rows, self.batches, self.bytes, end.rows, end.batches, end.bytes
        )))
    }
}
