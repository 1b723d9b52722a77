//! One connection that carries one Arrow IPC stream, read to its verified end.
//!
//! Knows nothing of other connections of the same writer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, ReadBuf};

use crate::error::{Error, ErrorCode, Result};
use crate::incoming::Incoming;
use crate::memory::{FrameBuffer, FramePool};
use crate::protocol::ipc::{Message, StreamDecoder, StreamEvent};
use crate::protocol::limits::DecodeLimits;
use crate::transport::{ByteStream, ReadHalf, WriteHalf};

/// Rows, and what the writer says of them.
pub(super) struct Numbered {
    pub(super) batch: RecordBatch,
    /// The number among the batches of all streams.
    pub(super) sequence: Option<u64>,
    /// What came over the connection for them.
    pub(super) bytes: u64,
}

/// What comes of a stream.
pub(super) type Batches = BoxStream<'static, Result<Numbered>>;

/// Counts the bytes that come over all connections of one source.
struct Counted {
    read: ReadHalf,
    received: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.read).poll_read(context, buffer);
        let more = buffer.filled().len() - before;
        self.received.fetch_add(more as u64, Ordering::Relaxed);
        done
    }
}

/// A message, as far as it has come.
struct Partial {
    metadata: FrameBuffer,
    /// Made once the metadata is whole.
    body: Option<FrameBuffer>,
}

/// The receiving end of a stream.
pub(super) struct StreamReader {
    incoming: Incoming,
    /// Kept open: to some writers a half-closed connection is a lost one.
    _write: WriteHalf,
    peer: String,
    partial: Option<Partial>,
    decoder: StreamDecoder,
    pool: FramePool,
    schema: Option<SchemaRef>,
    /// Bytes of batches that were given.
    given_bytes: u64,
}

impl StreamReader {
    pub(super) fn new(
        stream: ByteStream,
        limits: DecodeLimits,
        pool: FramePool,
        received: Arc<AtomicU64>,
    ) -> Self {
        Self {
            incoming: Incoming::new(Box::new(Counted {
                read: stream.read,
                received,
            })),
            _write: stream.write,
            peer: stream.peer,
            partial: None,
            decoder: StreamDecoder::new(limits),
            pool,
            schema: None,
            given_bytes: 0,
        }
    }

    /// The schema, once it has come; `None` where the stream ended in order without one, as the published writer ends
    /// a stream that it had no batch for. Cancel safe.
    pub(super) async fn schema(&mut self) -> Result<Option<SchemaRef>> {
        while self.schema.is_none() {
            match self.next_event().await? {
                Some(StreamEvent::Schema(schema)) => self.schema = Some(schema),
                Some(_) => return Err(Error::internal("rows came before their schema")),
                None => return Ok(None),
            }
        }
        Ok(self.schema.clone())
    }

    /// The rows, which are to have a certain schema.
    pub(super) fn batches(self, expected: SchemaRef) -> Batches {
        futures::stream::try_unfold(self, move |mut reader| {
            let expected = Arc::clone(&expected);
            async move { Ok(reader.next(&expected).await?.map(|batch| (batch, reader))) }
        })
        .boxed()
    }

    async fn next(&mut self, expected: &SchemaRef) -> Result<Option<Numbered>> {
        let Some(schema) = self.schema().await? else {
            return Ok(None);
        };
        if schema != *expected {
            return Err(Error::data_loss(format!(
                "the stream of {} has another schema than the first: {schema} instead of {expected}",
                self.peer
            )));
        }
        loop {
            match self.next_event().await? {
                Some(StreamEvent::Batch { batch, sequence }) => {
                    let received = self.incoming.received_bytes();
                    let bytes = received - self.given_bytes;
                    self.given_bytes = received;
                    return Ok(Some(Numbered {
                        batch,
                        sequence,
                        bytes,
                    }));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next message, or `None` after the marker that ends the stream. Cancel safe.
    async fn next_event(&mut self) -> Result<Option<StreamEvent>> {
        self.read_event().await.map_err(|error| match error.code() {
            // What was given of a stream that is lost cannot be told from what comes when it is begun anew.
            ErrorCode::Unavailable => Error::data_loss(format!(
                "the stream of {} ended before its end marker: {}",
                self.peer,
                error.detail().message
            ))
            .with_source(error),
            _ => error,
        })
    }

    async fn read_event(&mut self) -> Result<Option<StreamEvent>> {
        loop {
            if let Some(Partial { metadata, body }) = &mut self.partial {
                if !self.incoming.fill(metadata).await? {
                    return Err(self.cut());
                }
                let body = match body {
                    Some(body) => body,
                    none => {
                        let length = self.decoder.body_bytes(metadata.filled())?;
                        none.insert(self.pool.take(length)?)
                    }
                };
                if !self.incoming.fill(body).await? {
                    return Err(self.cut());
                }
            }
            if let Some(Partial {
                metadata,
                body: Some(body),
            }) = self.partial.take()
            {
                let body: Buffer = body.freeze();
                return self.decoder.decode(metadata.filled(), body).map(Some);
            }
            match self.decoder.next_message(self.incoming.ahead())? {
                Message::End => return Ok(None),
                Message::Starts {
                    prefix_bytes,
                    metadata_bytes,
                } => {
                    self.incoming.take(prefix_bytes);
                    self.partial = Some(Partial {
                        metadata: self.pool.take(metadata_bytes)?,
                        body: None,
                    });
                }
                Message::Unknown => {
                    if !self.incoming.read_ahead().await? {
                        return Err(self.cut());
                    }
                }
            }
        }
    }

    fn cut(&self) -> Error {
        let peer = &self.peer;
        Error::data_loss(if self.incoming.received_bytes() == 0 {
            format!(
                "{peer} closed the connection before it sent a schema, as some writers do for a table without rows: \
                 what columns it has is not known"
            )
        } else if self.partial.is_some() {
            format!("the stream of {peer} ended in the middle of a message")
        } else {
            format!("the stream of {peer} ended without its end marker")
        })
    }
}
