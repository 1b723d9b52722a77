//! One connection: requests are answered one after the other until the client goes.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{Instrument, Span};

use super::authenticate::{Authenticator, Credentials, Identity};
use super::limits::Turn;
use super::span::request_span;
use super::stats::{Active, Outcome, ScanMeter};
use super::table::{Scan, UnitEvent};
use super::{Shared, default_frame_bytes};
use super::{answers, inline};
use crate::connection::{Checking, Frame, FrameReader, FrameWriter};
use crate::error::{Error, ErrorCode, Result};
use crate::protocol::checked;
use crate::protocol::frame::Tag;
use crate::protocol::ipc::{Encoder, cut_rows};
use crate::protocol::limits::DecodeLimits;
use crate::protocol::messages::{self, request, response};
use crate::protocol::request::{name_of, request_digest, table_of};
use crate::protocol::units::Units;
use crate::protocol::{VERSION, error_to_proto};
use crate::secret::Secret;
use crate::transport::ByteStream;

/// After so long without anything to send, the client is told that work goes on.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// While the server drains, a connection is kept for so long after a partition was read somewhere.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// What waits to be sent goes out after so long, even if nothing follows it: a reader that merges stripes may need to know
/// that a unit has ended.
const UNIT_END_DELAY: Duration = Duration::from_millis(10);

/// Longest check of a client's credentials.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Results beyond this size never come with their plan, whatever the client asks for.
const INLINE_MOST_BYTES: u64 = 1 << 20;

/// Why a request was not answered to its end.
enum Stop {
    /// The client takes no more answers on this connection.
    Gone,
    /// The client asked for it.
    Cancelled,
    /// An answer in itself.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// How what gave this result has ended.
fn outcome_of<T>(result: &Result<T, Stop>) -> Outcome {
    match result {
        Ok(_) => Outcome::Finished,
        Err(Stop::Gone) => Outcome::Abandoned,
        Err(Stop::Cancelled) => Outcome::Cancelled,
        Err(Stop::Failed(error)) => Outcome::Failed(error.code()),
    }
}

/// An answer that could not be sent means that the client is gone.
fn gone(_: Error) -> Stop {
    Stop::Gone
}

/// Makes the error that a client is refused with.
pub(super) type Refusal = fn() -> Error;

/// How often it is looked whether a client is slow.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Largest request of a client that has not shown who it is.
const GREETING_BYTES: u64 = 64 << 10;

/// What is read of a client that has not shown who it is.
fn greeting_limits(shared: &Shared) -> DecodeLimits {
    let mut limits = shared.limits.clone();
    limits.message_bytes = limits.message_bytes.min(GREETING_BYTES);
    limits
}

pub(super) struct Session {
    shared: Arc<Shared>,
    reader: FrameReader,
    writer: FrameWriter,
    draining: watch::Receiver<bool>,
    /// When the request under way must be answered.
    deadline: Option<Instant>,
    /// When it came.
    asked: Instant,
    /// Whom the client was taken for; `None` before it has shown credentials where they are asked for.
    identity: Option<Identity>,
    /// What it has shown for that, and the version of the authenticator that took it.
    shown: Option<Credentials>,
    version: u64,
    peer: String,
    /// The subject of the client's certificate.
    certificate: Option<String>,
    /// Why nothing is answered to this client.
    refusal: Option<Refusal>,
    /// It has greeted, and was welcomed.
    is_welcomed: bool,
    opened: Instant,
}

impl Session {
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: ByteStream,
        refusal: Option<Refusal>,
        draining: watch::Receiver<bool>,
    ) -> Self {
        let identity = shared.authenticator.is_none().then(|| Identity {
            subject: stream.subject.clone().unwrap_or_default(),
            ..Identity::default()
        });
        let limits = match identity.is_none() || refusal.is_some() {
            true => greeting_limits(&shared),
            false => shared.limits.clone(),
        };
        Self {
            reader: FrameReader::new(stream.read, limits, shared.pool.clone())
                .accepting(&[Tag::Request])
                .checking(Checking::AsFirst),
            writer: FrameWriter::new(stream.write),
            shared,
            draining,
            deadline: None,
            asked: Instant::now(),
            identity,
            shown: None,
            version: 0,
            peer: stream.peer,
            certificate: stream.subject,
            refusal,
            is_welcomed: false,
            opened: Instant::now(),
        }
    }

    /// Answers requests until the client goes. While the server drains, it goes on until nothing is read any more: a
    /// scan is more than one request.
    pub(super) async fn run(mut self) {
        loop {
            let Some(frame) = self.next_frame().await else {
                return;
            };
            self.writer.set_checking(self.reader.is_checking());
            let mut span = Span::none();
            let (name, answered, is_framed) = match frame {
                Ok(None) => return,
                Ok(Some(Frame::Request(request))) => {
                    span = request_span(&request, &self.peer, self.identity.as_ref());
                    let name = name_of(request.kind.as_ref());
                    (
                        name,
                        self.answer(request).instrument(span.clone()).await,
                        true,
                    )
                }
                Ok(Some(_)) => {
                    let error = Error::invalid_argument("a client sends requests only");
                    (name_of(None), Err(Stop::Failed(error)), false)
                }
                Err(error) if error.code() == ErrorCode::Unavailable => return,
                // After a frame that cannot be understood nothing that follows can be either.
                Err(error) => (name_of(None), Err(Stop::Failed(error)), false),
            };
            let outcome = outcome_of(&answered);
            span.record("outcome", outcome.as_str());
            self.shared.counters.count_request(name, outcome);
            let sent = match answered {
                Ok(()) => Ok(()),
                Err(Stop::Gone) => return,
                Err(Stop::Cancelled) => {
                    self.send(response::Kind::Cancelled(messages::Cancelled {}))
                        .await
                }
                Err(Stop::Failed(error)) => {
                    span.in_scope(|| tracing::debug!(%error, "a request failed"));
                    self.send(response::Kind::Error(error_to_proto(&error)))
                        .await
                }
            };
            if sent.is_err() || !is_framed {
                return;
            }
        }
    }

    /// When the client is given up that has sent nothing since.
    fn patience_until(&self, waiting_since: Instant) -> Instant {
        let limits = &self.shared.server_limits;
        if !self.is_welcomed {
            self.opened + limits.handshake_timeout
        } else if self.reader.is_midway() {
            waiting_since + limits.request_timeout
        } else {
            waiting_since + limits.idle_timeout
        }
    }

    /// The next frame; `None` where the server drains and there is nothing left to wait for, or the client is given up.
    async fn next_frame(&mut self) -> Option<Result<Option<Frame>>> {
        let mut waiting_since = Instant::now();
        let mut was_midway = false;
        loop {
            if self.reader.is_midway() != was_midway {
                was_midway = !was_midway;
                waiting_since = Instant::now();
            }
            let until = self.patience_until(waiting_since);
            let look = Instant::now() + self.shared.server_limits.request_timeout / 4;
            if until <= Instant::now() {
                tracing::debug!(peer = %self.peer, "the client is too slow and is given up");
                return None;
            }
            let is_draining = *self.draining.borrow_and_update();
            tokio::select! {
                biased;
                frame = self.reader.next() => return Some(frame),
                changed = self.draining.changed(), if !is_draining => {
                    // A sender that is gone means that the server ends.
                    changed.ok()?;
                }
                // A request may begin at any time, and then there is less patience.
                () = sleep_until(until.min(look)) => {}
                () = sleep(DRAIN_GRACE), if is_draining => {
                    if self.shared.counters.active_scans.load(Ordering::Acquire) == 0 {
                        return None;
                    }
                }
            }
        }
    }

    async fn send(&mut self, answer: response::Kind) -> Result<(), Stop> {
        self.writer.queue_response(answer)?;
        self.writer.flush().await.map_err(gone)
    }

    async fn answer(&mut self, request: messages::Request) -> Result<(), Stop> {
        let timeout = Some(request.timeout_ms)
            .filter(|&ms| ms > 0)
            .map(Duration::from_millis);
        self.asked = Instant::now();
        self.deadline = timeout.and_then(|timeout| self.asked.checked_add(timeout));
        if let Some(refusal) = self.refusal {
            return Err(refusal().into());
        }
        let answer = match request.kind {
            Some(request::Kind::Hello(hello)) => self.welcome(hello).await?,
            request => self.answer_known(request).await?,
        };
        self.send(answer).await
    }

    /// Whose request it is that is being answered.
    async fn known(&mut self) -> Result<Identity> {
        let version = |authenticator: &Arc<dyn Authenticator>| authenticator.version();
        let version = self.shared.authenticator.as_ref().map_or(0, version);
        if let Some(credentials) = self.shown.take_if(|_| version != self.version) {
            self.identity = Some(self.identify(&credentials).await?);
            self.shown = Some(credentials);
        }
        let Some(identity) = &self.identity else {
            return Err(Error::unauthenticated(
                "this server wants credentials, and the client has shown none that it takes",
            ));
        };
        identity.check(std::time::SystemTime::now())?;
        Ok(identity.clone())
    }

    /// Answers a request of a client that must be known.
    async fn answer_known(
        &mut self,
        request: Option<request::Kind>,
    ) -> Result<response::Kind, Stop> {
        let identity = self.known().await?;
        let Some(request) = request else {
            return Err(Error::unimplemented("this server does not know the request").into());
        };
        let shared = Arc::clone(&self.shared);
        Ok(match request {
            request::Kind::ListTables(list) => {
                self.watch(async move { answers::list_tables(&shared, &list, &identity).await })
                    .await?
            }
            request::Kind::DescribeTable(describe) => {
                self.watch(
                    async move { answers::describe_table(&shared, &describe, &identity).await },
                )
                .await?
            }
            request::Kind::Plan(_) if *self.draining.borrow() => {
                let error =
                    Error::unavailable("the server is shutting down and plans no more scans");
                return Err(error.into());
            }
            request::Kind::Plan(plan) => {
                let inline_bytes = plan.inline_up_to_bytes.min(INLINE_MOST_BYTES);
                let table = plan.request.as_ref().map_or("", table_of).to_owned();
                let turns = Arc::clone(&shared.turns);
                let turn = self.watch(async move { turns.first().await }).await?;
                let (answer, scan, limit) = self
                    .watch(async move { answers::plan_scan(&shared, &plan, &identity).await })
                    .await?;
                self.shared.counters.serves(&table);
                let answer = self.plan(answer, scan, limit, inline_bytes, &table).await?;
                drop(turn);
                answer
            }
            request::Kind::Read(read) => self.read(read, identity).await?,
            request::Kind::Renew(renew) => answers::renew(&shared, &renew, &identity.subject)?,
            request::Kind::Release(release) => {
                let ticket = shared.open_ticket(&release.ticket, &identity.subject)?;
                shared
                    .leases
                    .release(&(ticket.request_digest, ticket.snapshot));
                response::Kind::Released(messages::Released {})
            }
            request::Kind::Ping(_) => response::Kind::Pong(messages::Pong {}),
            request::Kind::Cancel(_) => return Err(Stop::Cancelled),
            request::Kind::Hello(_) => {
                return Err(Error::internal("a request that was answered before").into());
            }
        })
    }

    /// Answers a Plan, together with the result where that is small.
    async fn plan(
        &mut self,
        mut answer: messages::ScanPlan,
        scan: Arc<dyn Scan>,
        limit: Option<u64>,
        most_bytes: u64,
        table: &str,
    ) -> Result<response::Kind, Stop> {
        if !inline::is_worth_trying(scan.as_ref(), limit, most_bytes) {
            return Ok(response::Kind::ScanPlan(answer));
        }
        let gathered = self
            .watch(async move { inline::gather(scan.as_ref(), limit, most_bytes).await })
            .await?;
        let Some(result) = gathered else {
            return Ok(response::Kind::ScanPlan(answer));
        };
        answer.inline = true;
        self.writer
            .queue_response(response::Kind::ScanPlan(answer))?;
        self.shared.counters.scans.fetch_add(1, Ordering::AcqRel);
        let mut meter = ScanMeter::new(&self.shared.counters, table, self.asked.into());
        meter.count_sent(&result.end);
        meter.end(Outcome::Finished);
        for payload in result.payloads {
            self.writer.queue_batch(payload)?;
        }
        Ok(response::Kind::ReadEnd(result.end))
    }

    /// Asks whose credentials these are.
    async fn identify(&mut self, credentials: &Credentials) -> Result<Identity> {
        self.identity = None;
        let Some(authenticator) = self.shared.authenticator.clone() else {
            return Err(Error::internal("nobody is asked who a client is"));
        };
        self.version = authenticator.version();
        // Not watched: the client's first request may be there already.
        let identity = AssertUnwindSafe(authenticator.authenticate(credentials)).catch_unwind();
        let identity = tokio::time::timeout(AUTHENTICATION_TIMEOUT, identity)
            .await
            .map_err(|_| Error::unavailable("the credentials could not be checked in time"))?
            .map_err(|_| Error::internal("the check of credentials panicked"))??;
        identity.check(std::time::SystemTime::now())?;
        Ok(identity)
    }

    /// Finds out who the client is.
    async fn authenticate(&mut self, hello: &messages::Hello) -> Result<()> {
        if self.shared.authenticator.is_none() {
            return Ok(());
        }
        // What was shown before counts no more, whatever comes of this.
        self.shown = None;
        self.is_welcomed = false;
        self.reader.allow(&greeting_limits(&self.shared));
        let shown = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let credentials = Credentials {
            token: shown(&hello.token).map(Secret::new),
            username: shown(&hello.username),
            certificate: self.certificate.clone(),
        };
        match self.identify(&credentials).await {
            Ok(identity) => {
                self.reader.allow(&self.shared.limits);
                self.identity = Some(identity);
                self.shown = Some(credentials);
                Ok(())
            }
            Err(error) => {
                let pause = self.shared.failures.pause_after(&self.peer);
                self.shared.counters.count_pause(pause);
                tracing::info!(peer = %self.peer, %error, ?pause, "a client was refused");
                sleep(pause).await;
                Err(error)
            }
        }
    }

    async fn welcome(&mut self, hello: messages::Hello) -> Result<response::Kind> {
        if !hello.versions.contains(&VERSION) {
            return Err(Error::unimplemented(format!(
                "this server speaks version {VERSION} of the service, the client {:?}",
                hello.versions.get(..8).unwrap_or(&hello.versions)
            )));
        }
        self.authenticate(&hello).await?;
        self.is_welcomed = true;
        Ok(response::Kind::Welcome(messages::Welcome {
            version: VERSION,
            server: concat!("lightstream/", env!("CARGO_PKG_VERSION")).to_owned(),
            features: vec![checked::FEATURE.to_owned()],
            limits: Some(messages::Limits {
                request_bytes: self.shared.limits.message_bytes,
                frame_bytes: self.shared.limits.frame_bytes,
            }),
            server_id: self.shared.server_id.clone(),
        }))
    }

    /// Waits for work to be done, while the client may cancel, go or lose patience.
    async fn watch<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T, Stop> {
        let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
        let far = Instant::now() + Duration::from_secs(86_400 * 365);
        let deadline = self.deadline;
        loop {
            let progress = Instant::now() + PROGRESS_INTERVAL;
            tokio::select! {
                biased;
                done = &mut work => {
                    return match done {
                        Ok(done) => done.map_err(Stop::Failed),
                        Err(_) => Err(Error::internal("the table's own code panicked").into()),
                    };
                }
                frame = self.reader.next() => return Err(interruption(frame)),
                () = sleep_until(deadline.unwrap_or(far)), if deadline.is_some() => return Err(too_late().into()),
                () = sleep(UNIT_END_DELAY), if self.writer.is_pending() => {
                    self.writer.flush().await.map_err(gone)?;
                }
                () = sleep_until(progress) => {
                    self.send(response::Kind::Progress(messages::Progress::default())).await?;
                }
            }
        }
    }

    /// Sends what is queued, while the client may go or lose patience.
    async fn flush(&mut self, turn: &mut Turn) -> Result<(), Stop> {
        // Between two frames a cancel is looked for, without waiting for one.
        if let Some(frame) = self.reader.next().now_or_never() {
            return Err(interruption(frame));
        }
        let mut last_progress = (self.writer.sent_bytes(), Instant::now());
        loop {
            let look = tokio::time::timeout(LOOK_INTERVAL, self.writer.flush());
            if let Ok(sent) = look.await {
                return sent.map_err(gone);
            }
            turn.let_others();
            let (now, sent) = (Instant::now(), self.writer.sent_bytes());
            if sent > last_progress.0 {
                last_progress = (sent, now);
            }
            // Only a frame sent whole leaves the connection usable, so past the deadline it is given up.
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                return Err(Stop::Gone);
            }
            if now - last_progress.1 >= self.shared.server_limits.send_timeout {
                tracing::info!(peer = %self.peer, "the client takes no rows and is given up");
                return Err(Stop::Gone);
            }
        }
    }

    /// Answers a Read, and counts what comes of it.
    async fn read(
        &mut self,
        read: messages::Read,
        identity: Identity,
    ) -> Result<response::Kind, Stop> {
        let table = read.request.as_ref().map_or("", table_of);
        let mut meter = ScanMeter::new(&self.shared.counters, table, self.asked.into());
        let answered = self.read_rows(read, identity, &mut meter).await;
        meter.end(outcome_of(&answered));
        answered
    }

    async fn read_rows(
        &mut self,
        read: messages::Read,
        identity: Identity,
        meter: &mut ScanMeter,
    ) -> Result<response::Kind, Stop> {
        let turns = Arc::clone(&self.shared.turns);
        let mut turn = self.watch(async move { turns.first().await }).await?;
        let _active = Active::new(&self.shared.counters, |counters| &counters.active_scans);
        self.shared.counters.scans.fetch_add(1, Ordering::AcqRel);
        let ticket = self.shared.open_ticket(&read.ticket, &identity.subject)?;
        let request = read.request.unwrap_or_default();
        if request_digest(&request) != ticket.request_digest {
            return Err(
                Error::invalid_argument("the ticket belongs to another scan request").into(),
            );
        }
        let limit = request.limit;
        let table = table_of(&request).to_owned();
        let shared = Arc::clone(&self.shared);
        let (partition, index) = (
            ticket.partition,
            usize::try_from(ticket.partition).unwrap_or(usize::MAX),
        );
        let (scan, _reading) = self
            .watch(async move { answers::find_scan(&shared, request, ticket, &identity).await })
            .await?;
        meter.found(&table);
        Span::current().record("partition", partition.cast_signed());
        let stripes = u64::from(read.stripes.max(1));
        let units = Units {
            from: read.from_unit,
            stripe: u64::from(read.stripe),
            stripes,
        };
        if units.stripe >= stripes {
            return Err(Error::invalid_argument(format!(
                "there is no stripe {} of {stripes}",
                units.stripe
            ))
            .into());
        }
        let known = scan.partitions().get(index).cloned().unwrap_or_default();
        if !known.resumable && units != Units::ALL {
            return Err(
                Error::invalid_argument("the partition can only be read as a whole").into(),
            );
        }
        let mut events = scan
            .open(index, units)
            .map_err(|error| error.with_partition(partition))?;
        let mut sending = Sending {
            encoder: Encoder::try_new(Arc::clone(scan.schema()))?,
            frame_bytes: Some(read.max_frame_bytes)
                .filter(|&bytes| bytes > 0)
                .map_or_else(
                    || default_frame_bytes(scan.schema()),
                    |bytes| {
                        usize::try_from(bytes.min(self.shared.limits.frame_bytes))
                            .unwrap_or(usize::MAX)
                    },
                ),
            batch_rows: usize::try_from(read.batch_rows)
                .ok()
                .filter(|&rows| rows > 0),
            skip: read.skip_rows,
            left: limit,
            end: messages::ReadEnd::default(),
            meter,
        };
        let mut wanted = units.within(known.units);
        let mut next_unit = wanted.next();
        while next_unit.is_some() && sending.left != Some(0) {
            let next = async {
                turn.go_on().await;
                Ok(events.next().await)
            };
            let event = self.watch(next).await?;
            match event
                .transpose()
                .map_err(|error| error.with_partition(partition))?
            {
                Some(UnitEvent::Batch(batch)) => {
                    self.send_batch(&mut sending, &mut turn, batch).await?;
                }
                Some(UnitEvent::End(unit)) => {
                    while next_unit.is_some_and(|next| next <= unit) {
                        sending.end.units += 1;
                        next_unit = wanted.next();
                    }
                    // It goes out with the next frame, unless that takes long: see `watch`.
                    self.writer
                        .queue_response(response::Kind::UnitEnd(messages::UnitEnd { unit }))?;
                }
                None => {
                    let error = Error::internal("the table ended before its last unit");
                    return Err(error.with_partition(partition).into());
                }
            }
        }
        if sending.end.bytes == 0 {
            let schema = Arc::clone(scan.schema());
            let empty = arrow_array::RecordBatch::new_empty(schema);
            self.send_batch(&mut sending, &mut turn, empty).await?;
        }
        sending.end.limit_reached = next_unit.is_some();
        Ok(response::Kind::ReadEnd(sending.end))
    }

    async fn send_batch(
        &mut self,
        sending: &mut Sending<'_>,
        turn: &mut Turn,
        batch: arrow_array::RecordBatch,
    ) -> Result<(), Stop> {
        let rows = batch.num_rows() as u64;
        let batch = match &mut sending.left {
            Some(left) if rows > *left => {
                let kept = batch.slice(0, usize::try_from(*left).unwrap_or(usize::MAX));
                *left = 0;
                kept
            }
            Some(left) => {
                *left -= rows;
                batch
            }
            None => batch,
        };
        let batch = sending.without_skipped(batch);
        if batch.num_rows() == 0 && sending.end.bytes > 0 {
            return Ok(());
        }
        let rows = batch.num_rows();
        let step = sending.batch_rows.unwrap_or(rows).max(1);
        if rows <= step {
            return self.send_frames(sending, turn, &batch).await;
        }
        for start in (0..rows).step_by(step) {
            let part = batch.slice(start, step.min(rows - start));
            self.send_frames(sending, turn, &part).await?;
        }
        Ok(())
    }

    /// Sends rows in as many frames as their size wants.
    async fn send_frames(
        &mut self,
        sending: &mut Sending<'_>,
        turn: &mut Turn,
        batch: &arrow_array::RecordBatch,
    ) -> Result<(), Stop> {
        for part in cut_rows(batch, sending.frame_bytes) {
            let payload = sending.encoder.encode(&part)?;
            let (bytes, rows) = (payload.len() as u64, part.num_rows() as u64);
            self.writer.queue_batch(payload)?;
            self.flush(turn).await?;
            sending.end.bytes += bytes;
            sending.end.rows += rows;
            sending.end.batches += u64::from(rows > 0);
            sending.meter.count_sent(&messages::ReadEnd {
                batches: 1,
                rows,
                bytes,
                ..messages::ReadEnd::default()
            });
        }
        Ok(())
    }
}

/// Where the answer to a Read stands.
struct Sending<'a> {
    encoder: Encoder,
    frame_bytes: usize,
    batch_rows: Option<usize>,
    /// Rows that are still to be left out.
    skip: u64,
    /// Rows that the limit leaves.
    left: Option<u64>,
    end: messages::ReadEnd,
    meter: &'a mut ScanMeter,
}

impl Sending<'_> {
    /// The rows behind those that are to be left out.
    fn without_skipped(&mut self, batch: arrow_array::RecordBatch) -> arrow_array::RecordBatch {
        let rows = batch.num_rows();
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(rows);
        if skipped == 0 {
            return batch;
        }
        self.skip -= skipped as u64;
        self.end.skipped_rows += skipped as u64;
        batch.slice(skipped, rows - skipped)
    }
}

fn too_late() -> Error {
    Error::deadline_exceeded("the request was not answered within the client's time limit")
}

fn interruption(frame: Result<Option<Frame>>) -> Stop {
    match frame {
        Ok(Some(Frame::Request(messages::Request {
            kind: Some(request::Kind::Cancel(_)),
            ..
        }))) => Stop::Cancelled,
        // A second request before the first is answered breaks the protocol; nothing sensible can follow.
        Ok(_) | Err(_) => Stop::Gone,
    }
}
