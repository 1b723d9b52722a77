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

use super::authenticate::{Credentials, Identity};
use super::stats::Active;
use super::table::{Scan, UnitEvent};
use super::{Shared, default_frame_bytes};
use super::{answers, inline};
use crate::connection::{Frame, FrameReader, FrameWriter};
use crate::error::{Error, ErrorCode, Result};
use crate::protocol::ipc::{Encoder, cut_rows};
use crate::protocol::messages::{self, request, response};
use crate::protocol::request::request_digest;
use crate::protocol::units::Units;
use crate::protocol::{VERSION, error_to_proto};
use crate::secret::Secret;

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

/// An answer that could not be sent means that the client is gone.
fn gone(_: Error) -> Stop {
    Stop::Gone
}

pub(super) struct Session {
    shared: Arc<Shared>,
    reader: FrameReader,
    writer: FrameWriter,
    draining: watch::Receiver<bool>,
    /// When the request under way must be answered.
    deadline: Option<Instant>,
    /// Whom the client was taken for; `None` before it has shown credentials where they are asked for.
    identity: Option<Identity>,
}

impl Session {
    pub(super) fn new(
        shared: Arc<Shared>,
        reader: FrameReader,
        writer: FrameWriter,
        draining: watch::Receiver<bool>,
    ) -> Self {
        let identity = shared.authenticator.is_none().then(Identity::default);
        Self {
            shared,
            reader,
            writer,
            draining,
            deadline: None,
            identity,
        }
    }

    /// Answers requests until the client goes. While the server drains, it goes on until nothing is read any more: a
    /// scan is more than one request.
    pub(super) async fn run(mut self) {
        loop {
            let Some(frame) = self.next_frame().await else {
                return;
            };
            let (answered, is_framed) = match frame {
                Ok(None) => return,
                Ok(Some(Frame::Request(request))) => (self.answer(request).await, true),
                Ok(Some(_)) => {
                    let error = Error::invalid_argument("a client sends requests only");
                    (Err(Stop::Failed(error)), false)
                }
                Err(error) if error.code() == ErrorCode::Unavailable => return,
                // After a frame that cannot be understood nothing that follows can be either.
                Err(error) => (Err(Stop::Failed(error)), false),
            };
            let sent = match answered {
                Ok(()) => Ok(()),
                Err(Stop::Gone) => return,
                Err(Stop::Cancelled) => {
                    self.send(response::Kind::Cancelled(messages::Cancelled {}))
                        .await
                }
                Err(Stop::Failed(error)) => {
                    self.shared.counters.errors.fetch_add(1, Ordering::AcqRel);
                    tracing::debug!(%error, "a request failed");
                    self.send(response::Kind::Error(error_to_proto(&error)))
                        .await
                }
            };
            if sent.is_err() || !is_framed {
                return;
            }
        }
    }

    /// The next frame; `None` where the server drains and there is nothing left to wait for.
    async fn next_frame(&mut self) -> Option<Result<Option<Frame>>> {
        loop {
            let is_draining = *self.draining.borrow_and_update();
            tokio::select! {
                biased;
                frame = self.reader.next() => return Some(frame),
                changed = self.draining.changed(), if !is_draining => {
                    // A sender that is gone means that the server ends.
                    changed.ok()?;
                }
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
        self.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let answer = match request.kind {
            Some(request::Kind::Hello(hello)) => self.welcome(hello).await?,
            Some(request::Kind::Cancel(_)) => return Err(Stop::Cancelled),
            None => {
                return Err(Error::unimplemented("this server does not know the request").into());
            }
            Some(request) => self.answer_known(request).await?,
        };
        self.send(answer).await
    }

    /// Whose request it is that is being answered.
    fn subject(&self) -> Result<String> {
        let Some(identity) = &self.identity else {
            return Err(Error::unauthenticated(
                "this server wants credentials, and the client has shown none that it takes",
            ));
        };
        identity.check(std::time::SystemTime::now())?;
        Ok(identity.subject.clone())
    }

    /// Answers a request of a client that must be known.
    async fn answer_known(&mut self, request: request::Kind) -> Result<response::Kind, Stop> {
        let subject = self.subject()?;
        let shared = Arc::clone(&self.shared);
        Ok(match request {
            request::Kind::ListTables(list) => {
                self.watch(async move { answers::list_tables(&shared, &list).await })
                    .await?
            }
            request::Kind::DescribeTable(describe) => {
                self.watch(async move { answers::describe_table(&shared, &describe).await })
                    .await?
            }
            request::Kind::Plan(_) if *self.draining.borrow() => {
                let error =
                    Error::unavailable("the server is shutting down and plans no more scans");
                return Err(error.into());
            }
            request::Kind::Plan(plan) => {
                let inline_bytes = plan.inline_up_to_bytes.min(INLINE_MOST_BYTES);
                let (answer, scan, limit) = self
                    .watch(async move { answers::plan_scan(&shared, &plan, &subject).await })
                    .await?;
                self.plan(answer, scan, limit, inline_bytes).await?
            }
            request::Kind::Read(read) => self.read(read, &subject).await?,
            request::Kind::Renew(renew) => answers::renew(&shared, &renew, &subject)?,
            request::Kind::Release(release) => {
                let ticket = shared.open_ticket(&release.ticket, &subject)?;
                shared
                    .leases
                    .release(&(ticket.request_digest, ticket.snapshot));
                response::Kind::Released(messages::Released {})
            }
            request::Kind::Ping(_) => response::Kind::Pong(messages::Pong {}),
            request::Kind::Hello(_) | request::Kind::Cancel(_) => {
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
        self.shared.counters.count_sent(&result.end);
        for payload in result.payloads {
            self.writer.queue_batch(payload)?;
        }
        Ok(response::Kind::ReadEnd(result.end))
    }

    /// Finds out who the client is.
    async fn authenticate(&mut self, token: String) -> Result<()> {
        let Some(authenticator) = self.shared.authenticator.clone() else {
            return Ok(());
        };
        self.identity = None;
        let credentials = Credentials {
            token: Some(token)
                .filter(|token| !token.is_empty())
                .map(Secret::new),
        };
        // Not watched: the client's first request may be there already.
        let identity = AssertUnwindSafe(authenticator.authenticate(&credentials)).catch_unwind();
        let identity = tokio::time::timeout(AUTHENTICATION_TIMEOUT, identity)
            .await
            .map_err(|_| Error::unavailable("the credentials could not be checked in time"))?
            .map_err(|_| Error::internal("the check of credentials panicked"))??;
        identity.check(std::time::SystemTime::now())?;
        self.identity = Some(identity);
        Ok(())
    }

    async fn welcome(&mut self, hello: messages::Hello) -> Result<response::Kind> {
        if !hello.versions.contains(&VERSION) {
            return Err(Error::unimplemented(format!(
                "this server speaks version {VERSION} of the service, the client {:?}",
                hello.versions
            )));
        }
        self.authenticate(hello.token).await?;
        Ok(response::Kind::Welcome(messages::Welcome {
            version: VERSION,
            server: concat!("lightstream/", env!("CARGO_PKG_VERSION")).to_owned(),
            features: Vec::new(),
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
    async fn flush(&mut self) -> Result<(), Stop> {
        // Between two frames a cancel is looked for, without waiting for one.
        if let Some(frame) = self.reader.next().now_or_never() {
            return Err(interruption(frame));
        }
        match self.deadline {
            None => self.writer.flush().await.map_err(gone),
            // Only a frame sent whole leaves the connection usable, so past the deadline it is given up.
            Some(deadline) => match tokio::time::timeout_at(deadline, self.writer.flush()).await {
                Ok(sent) => sent.map_err(gone),
                Err(_) => Err(Stop::Gone),
            },
        }
    }

    async fn read(&mut self, read: messages::Read, subject: &str) -> Result<response::Kind, Stop> {
        let _active = Active::new(&self.shared.counters, |counters| &counters.active_scans);
        self.shared.counters.scans.fetch_add(1, Ordering::AcqRel);
        let ticket = self.shared.open_ticket(&read.ticket, subject)?;
        let request = read.request.unwrap_or_default();
        if request_digest(&request) != ticket.request_digest {
            return Err(
                Error::invalid_argument("the ticket belongs to another scan request").into(),
            );
        }
        let limit = request.limit;
        let shared = Arc::clone(&self.shared);
        let (partition, index) = (
            ticket.partition,
            usize::try_from(ticket.partition).unwrap_or(usize::MAX),
        );
        let scan = self
            .watch(async move { answers::find_scan(&shared, request, ticket).await })
            .await?;
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
            left: limit,
            end: messages::ReadEnd::default(),
        };
        let mut wanted = units.within(known.units);
        let mut next_unit = wanted.next();
        while next_unit.is_some() && sending.left != Some(0) {
            let event = self.watch(async { Ok(events.next().await) }).await?;
            match event
                .transpose()
                .map_err(|error| error.with_partition(partition))?
            {
                Some(UnitEvent::Batch(batch)) => self.send_batch(&mut sending, batch).await?,
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
            self.send_batch(&mut sending, arrow_array::RecordBatch::new_empty(schema))
                .await?;
        }
        sending.end.limit_reached = next_unit.is_some();
        Ok(response::Kind::ReadEnd(sending.end))
    }

    async fn send_batch(
        &mut self,
        sending: &mut Sending,
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
        if batch.num_rows() == 0 && sending.end.bytes > 0 {
            return Ok(());
        }
        let rows = batch.num_rows();
        let step = sending.batch_rows.unwrap_or(rows).max(1);
        if rows <= step {
            return self.send_frames(sending, &batch).await;
        }
        for start in (0..rows).step_by(step) {
            let part = batch.slice(start, step.min(rows - start));
            self.send_frames(sending, &part).await?;
        }
        Ok(())
    }

    /// Sends rows in as many frames as their size wants.
    async fn send_frames(
        &mut self,
        sending: &mut Sending,
        batch: &arrow_array::RecordBatch,
    ) -> Result<(), Stop> {
        for part in cut_rows(batch, sending.frame_bytes) {
            let payload = sending.encoder.encode(&part)?;
            let (bytes, rows) = (payload.len() as u64, part.num_rows() as u64);
            self.writer.queue_batch(payload)?;
            self.flush().await?;
            sending.end.bytes += bytes;
            sending.end.rows += rows;
            sending.end.batches += u64::from(rows > 0);
            self.shared.counters.count_sent(&messages::ReadEnd {
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
struct Sending {
    encoder: Encoder,
    frame_bytes: usize,
    batch_rows: Option<usize>,
    /// Rows that the limit leaves.
    left: Option<u64>,
    end: messages::ReadEnd,
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
