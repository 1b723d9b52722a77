//! Frames over a byte stream: what client and server both do with a connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_buffer::Buffer;
use prost::Message;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::{Error, Result};
use crate::incoming::{Incoming, lost};
use crate::memory::{FrameBuffer, FramePool};
use crate::protocol::checked::{self, Checksum};
use crate::protocol::frame::{Header, Tag};
use crate::protocol::ipc::Payload;
use crate::protocol::limits::DecodeLimits;
use crate::protocol::{messages, pieces};
use crate::trace::TraceContext;
use crate::transport::{ReadHalf, WriteHalf};

/// Most segments handed to the system at once; more than 1024 it does not take.
const SEGMENTS_AT_ONCE: usize = 512;

/// A frame that came in.
#[derive(Debug)]
pub(crate) enum Frame {
    Request(messages::Request),
    Response(messages::Response),
    Batch(Buffer),
}

/// Whether the frames that come in must be checked ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checking {
    /// All of them.
    On,
    /// None of them.
    Off,
    /// As the first of them is.
    AsFirst,
}

/// A frame of which a part has come.
struct Partial {
    header: Header,
    buffer: FrameBuffer,
    check: Option<Check>,
}

/// How far a payload has been checked.
struct Check {
    expected: Checksum,
    found: Checksum,
    checked_bytes: usize,
}

impl Partial {
    /// The frame, once the whole of it is there.
    fn finish(self) -> Result<Frame> {
        if self
            .check
            .is_some_and(|check| check.found != check.expected)
        {
            return Err(checked::changed("a frame"));
        }
        decode(self.header.tag, self.buffer)
    }

    /// Checks what has come since the last time, while it is still in the caches.
    fn go_on_checking(&mut self) {
        if let Some(check) = &mut self.check {
            let bytes = self.buffer.filled();
            check.found = check
                .found
                .and(bytes.get(check.checked_bytes..).unwrap_or_default());
            check.checked_bytes = bytes.len();
        }
    }
}

/// The receiving half of a connection.
pub(crate) struct FrameReader {
    incoming: Incoming,
    partial: Option<Partial>,
    limits: DecodeLimits,
    pool: FramePool,
    /// Which frames the peer may send.
    accepted: &'static [Tag],
    checking: Checking,
}

impl FrameReader {
    pub(crate) fn new(read: ReadHalf, limits: DecodeLimits, pool: FramePool) -> Self {
        Self {
            incoming: Incoming::new(read),
            partial: None,
            limits,
            pool,
            accepted: &[Tag::Request, Tag::Response, Tag::Batch],
            checking: Checking::Off,
        }
    }

    /// Refuses frames of other kinds as soon as their head is there.
    pub(crate) fn accepting(mut self, accepted: &'static [Tag]) -> Self {
        self.accepted = accepted;
        self
    }

    /// Says whether the frames must be checked ones. By default none is.
    pub(crate) fn checking(mut self, checking: Checking) -> Self {
        self.checking = checking;
        self
    }

    /// Whether the peer checks its frames, and wants it done to those it gets.
    pub(crate) fn is_checking(&self) -> bool {
        self.checking == Checking::On
    }

    /// Takes what other limits allow from now on.
    pub(crate) fn allow(&mut self, limits: &DecodeLimits) {
        self.limits.clone_from(limits);
    }

    /// Whether a part of a frame has come.
    pub(crate) fn is_midway(&self) -> bool {
        self.partial.is_some() || !self.incoming.ahead().is_empty()
    }

    /// How many bytes have come, of whole and of partial frames.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.incoming.received_bytes()
    }

    /// The next frame, or `None` where the peer closed the connection between frames.
    ///
    /// Cancel safe: what was read of a frame is kept for the next call.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(partial) = self.partial.take_if(|partial| partial.buffer.is_full()) {
                return partial.finish().map(Some);
            }
            if let Some(partial) = &mut self.partial {
                if !self.incoming.fill_some(&mut partial.buffer).await? {
                    return Err(cut());
                }
                partial.go_on_checking();
                continue;
            }
            if let Some((header, check)) = self.take_head()? {
                if !self.accepted.contains(&header.tag) {
                    return Err(Error::invalid_argument(format!(
                        "the peer sent a frame of kind {:?}, which is not its to send",
                        header.tag
                    )));
                }
                self.partial = Some(Partial {
                    header,
                    buffer: self.pool.take(header.length as usize)?,
                    check,
                });
                continue;
            }
            if !self.incoming.read_ahead().await? {
                return if self.incoming.ahead().is_empty() {
                    Ok(None)
                } else {
                    Err(cut())
                };
            }
        }
    }

    /// The head of the next frame, once it is there.
    fn take_head(&mut self) -> Result<Option<(Header, Option<Check>)>> {
        let rest = self.incoming.ahead();
        let Some(&first) = rest.first() else {
            return Ok(None);
        };
        if self.checking == Checking::AsFirst {
            self.checking = if checked::is_checked(first) {
                Checking::On
            } else {
                Checking::Off
            };
        }
        if self.checking == Checking::Off {
            let Some(&bytes) = rest.first_chunk() else {
                return Ok(None);
            };
            let header = Header::parse(bytes, &self.limits)?;
            self.incoming.take(bytes.len());
            return Ok(Some((header, None)));
        }
        if !checked::is_checked(first) {
            return Err(checked::missing());
        }
        let Some(&bytes) = rest.first_chunk() else {
            return Ok(None);
        };
        let (header, expected) = checked::parse_checked_head(bytes, &self.limits)?;
        self.incoming.take(bytes.len());
        let check = Check {
            expected,
            found: Checksum::default(),
            checked_bytes: 0,
        };
        Ok(Some((header, Some(check))))
    }

    /// Whether the peer has closed an idle connection, or sent what nobody asked for.
    pub(crate) fn is_stale(&mut self) -> bool {
        self.is_midway() || self.incoming.is_stale()
    }
}

fn cut() -> Error {
    Error::data_loss("the connection ended in the middle of a frame").with_retryable(true)
}

fn decode(tag: Tag, buffer: FrameBuffer) -> Result<Frame> {
    let malformed =
        |error| Error::data_loss(format!("a {tag:?} cannot be read")).with_source(error);
    Ok(match tag {
        Tag::Request => {
            pieces::check_request(buffer.filled())?;
            Frame::Request(messages::Request::decode(buffer.filled()).map_err(malformed)?)
        }
        Tag::Response => {
            pieces::check_response(buffer.filled())?;
            Frame::Response(messages::Response::decode(buffer.filled()).map_err(malformed)?)
        }
        Tag::Batch => Frame::Batch(buffer.freeze()),
    })
}

/// A stretch of bytes to send.
enum Segment {
    Own(Vec<u8>),
    Shared(Buffer),
}

impl Segment {
    fn as_slice(&self) -> &[u8] {
        match self {
            Segment::Own(bytes) => bytes,
            Segment::Shared(buffer) => buffer.as_slice(),
        }
    }
}

/// The sending half of a connection. Frames are queued, then sent together with vectored writes.
pub(crate) struct FrameWriter {
    write: WriteHalf,
    queue: VecDeque<Segment>,
    /// How much of the first segment is sent.
    sent: usize,
    /// All bytes that have gone out, so that silence can be told from slowness.
    sent_bytes: u64,
    /// Whether the transport may hold back some of what it took.
    is_held_back: bool,
    /// Whether frames are sent with their checksums.
    is_checking: bool,
}

impl FrameWriter {
    pub(crate) fn new(write: WriteHalf) -> Self {
        Self {
            write,
            queue: VecDeque::new(),
            sent: 0,
            sent_bytes: 0,
            is_held_back: false,
            is_checking: false,
        }
    }

    /// Says whether frames are sent with their checksums. By default they are not.
    pub(crate) fn set_checking(&mut self, is_checking: bool) {
        self.is_checking = is_checking;
    }

    /// How many bytes have gone out.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Whether something waits to be sent.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_held_back || !self.queue.is_empty()
    }

    fn queue_message(&mut self, tag: Tag, message: &impl Message) -> Result<()> {
        let header = Header::try_new(tag, message.encoded_len())?;
        if self.is_checking {
            let payload = message.encode_to_vec();
            let head = checked::checked_head(header, Checksum::default().and(&payload));
            self.queue_own(|bytes| {
                bytes.extend_from_slice(&head);
                bytes.extend_from_slice(&payload);
            });
        } else {
            self.queue_own(|bytes| {
                bytes.extend_from_slice(&header.to_bytes());
                message.encode_raw(bytes);
            });
        }
        Ok(())
    }

    /// Queues small pieces: those that follow each other go out as one segment.
    fn queue_own(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.queue.back_mut() {
            Some(Segment::Own(bytes)) => write(bytes),
            _ => {
                let mut bytes = Vec::new();
                write(&mut bytes);
                self.queue.push_back(Segment::Own(bytes));
            }
        }
    }

    pub(crate) fn queue_request(
        &mut self,
        timeout_ms: u64,
        traceparent: Option<TraceContext>,
        kind: messages::request::Kind,
    ) -> Result<()> {
        let traceparent = traceparent.map_or_else(String::new, |context| context.to_string());
        self.queue_message(
            Tag::Request,
            &messages::Request {
                timeout_ms,
                traceparent,
                kind: Some(kind),
            },
        )
    }

    pub(crate) fn queue_response(&mut self, kind: messages::response::Kind) -> Result<()> {
        self.queue_message(Tag::Response, &messages::Response { kind: Some(kind) })
    }

    pub(crate) fn queue_batch(&mut self, payload: Payload) -> Result<()> {
        let header = Header::try_new(Tag::Batch, payload.len())?;
        let segments = payload.into_segments();
        if self.is_checking {
            let sum = |sum: Checksum, segment: &Buffer| sum.and(segment);
            let sum = segments.iter().fold(Checksum::default(), sum);
            let head = checked::checked_head(header, sum);
            self.queue_own(|bytes| bytes.extend_from_slice(&head));
        } else {
            self.queue_own(|bytes| bytes.extend_from_slice(&header.to_bytes()));
        }
        self.queue_segments(segments);
        Ok(())
    }

    /// Queues a payload without a frame around it.
    pub(crate) fn queue_bytes(&mut self, payload: Payload) {
        self.queue_segments(payload.into_segments());
    }

    fn queue_segments(&mut self, segments: Vec<Buffer>) {
        let segments = segments.into_iter().filter(|s| !s.is_empty());
        self.queue.extend(segments.map(Segment::Shared));
    }

    /// Sends all that is queued.
    ///
    /// Cancel safe: what was not sent stays queued.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        while !self.queue.is_empty() {
            let written = poll_fn(|context| self.poll_write(context))
                .await
                .map_err(lost)?;
            if written == 0 {
                return Err(lost(std::io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
            self.is_held_back = true;
        }
        if self.is_held_back {
            self.write.flush().await.map_err(lost)?;
            self.is_held_back = false;
        }
        Ok(())
    }

    /// Tells the peer that nothing more will come.
    pub(crate) async fn shut_down(&mut self) -> Result<()> {
        self.write.shutdown().await.map_err(lost)
    }

    /// Hands as much of the queue to the system as it takes.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SEGMENTS_AT_ONCE];
        let mut filled = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.queue) {
            let bytes = segment.as_slice();
            let from = if filled == 0 { self.sent } else { 0 };
            *slice = IoSlice::new(bytes.get(from..).unwrap_or_default());
            filled += 1;
        }
        let slices = slices.get(..filled).unwrap_or_default();
        Pin::new(&mut self.write).poll_write_vectored(context, slices)
    }

    fn advance(&mut self, written: usize) {
        self.sent_bytes += written as u64;
        self.sent += written;
        while let Some(segment) = self.queue.front() {
            let length = segment.as_slice().len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::{request, response};

    fn halves(buffer_bytes: usize, is_checking: bool) -> (FrameWriter, FrameReader) {
        let (near, far) = tokio::io::duplex(buffer_bytes);
        let reader = FrameReader::new(
            Box::new(far),
            DecodeLimits::default(),
            FramePool::new(1 << 20),
        );
        let mut writer = FrameWriter::new(Box::new(near));
        writer.set_checking(is_checking);
        (writer, reader.checking(Checking::AsFirst))
    }

    #[tokio::test]
    async fn frames_arrive_whole_however_they_are_cut() {
        let sizes = [1, 7, 64, 4096, 1 << 20];
        for (buffer_bytes, is_checking) in sizes.into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let (mut writer, mut reader) = halves(buffer_bytes, is_checking);
            let names: Vec<String> = [0, 1, 50, 5000, 100_000]
                .iter()
                .map(|&n| "x".repeat(n))
                .collect();
            let sent = names.clone();
            let sending = tokio::spawn(async move {
                for name in sent {
                    let describe = messages::DescribeTable {
                        name,
                        snapshot: String::new(),
                    };
                    writer
                        .queue_request(1, None, request::Kind::DescribeTable(describe))
                        .unwrap();
                    writer
                        .queue_response(response::Kind::Pong(messages::Pong {}))
                        .unwrap();
                }
                writer.flush().await.unwrap();
            });
            for name in names {
                match reader.next().await.unwrap().unwrap() {
                    Frame::Request(messages::Request {
                        kind: Some(request::Kind::DescribeTable(describe)),
                        ..
                    }) => {
                        assert_eq!(describe.name, name);
                    }
                    other => panic!("{other:?}"),
                }
                assert!(matches!(
                    reader.next().await.unwrap(),
                    Some(Frame::Response(_))
                ));
            }
            sending.await.unwrap();
            assert!(reader.next().await.unwrap().is_none());
            assert_eq!(reader.is_checking(), is_checking);
        }
    }

    #[tokio::test]
    async fn a_changed_bit_in_a_checked_frame_is_data_loss_that_may_be_tried_again() {
        let mut writer = FrameWriter::new(Box::new(tokio::io::sink()));
        writer.set_checking(true);
        let describe = messages::DescribeTable {
            name: "flights".into(),
            snapshot: String::new(),
        };
        writer
            .queue_request(0, None, request::Kind::DescribeTable(describe))
            .unwrap();
        let bytes = writer.queue[0].as_slice().to_vec();
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let (mut near, far) = tokio::io::duplex(1024);
            near.write_all(&wrong).await.unwrap();
            let mut reader =
                FrameReader::new(Box::new(far), DecodeLimits::default(), FramePool::new(0))
                    .checking(Checking::On);
            // The connection stays open: it must not be waited for what never comes.
            let error = reader.next().await.unwrap_err();
            assert!(
                error.code() == crate::ErrorCode::DataLoss && error.is_retryable(),
                "bit {bit}: {error}"
            );
        }
    }

    #[tokio::test]
    async fn a_cut_within_a_frame_is_data_loss() {
        let mut whole = FrameWriter::new(Box::new(tokio::io::sink()));
        let describe = messages::DescribeTable {
            name: "flights".into(),
            snapshot: String::new(),
        };
        whole
            .queue_request(0, None, request::Kind::DescribeTable(describe))
            .unwrap();
        let bytes = whole.queue[0].as_slice().to_vec();
        for end in 1..bytes.len() {
            let (mut near, far) = tokio::io::duplex(1024);
            near.write_all(&bytes[..end]).await.unwrap();
            drop(near);
            let mut reader =
                FrameReader::new(Box::new(far), DecodeLimits::default(), FramePool::new(0));
            let error = reader.next().await.unwrap_err();
            assert!(
                error.code() == crate::ErrorCode::DataLoss && error.is_retryable(),
                "{error}"
            );
        }
    }
}
