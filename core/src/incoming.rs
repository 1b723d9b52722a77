//! Bytes that come in over a connection: read a little ahead while the head of something is awaited, then straight into
//! the buffer that it is meant for.
//!
//! Knows neither frames nor Arrow.

use std::pin::Pin;
use std::task::{Context, Waker};

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::error::{Error, Result};
use crate::memory::FrameBuffer;
use crate::transport::{self, ReadHalf};

/// Bytes read ahead while a head is awaited: enough for most control messages, little to copy.
const AHEAD_BYTES: usize = 4096;

/// The receiving half of a connection.
pub(crate) struct Incoming {
    read: ReadHalf,
    ahead: Vec<u8>,
    taken: usize,
    /// All bytes that have come, so that silence can be told from slowness.
    received_bytes: u64,
}

impl Incoming {
    pub(crate) fn new(read: ReadHalf) -> Self {
        Self {
            read,
            ahead: Vec::with_capacity(AHEAD_BYTES),
            taken: 0,
            received_bytes: 0,
        }
    }

    /// How many bytes have come.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// What has come and is not taken.
    pub(crate) fn ahead(&self) -> &[u8] {
        self.ahead.get(self.taken..).unwrap_or_default()
    }

    /// Takes so many bytes of what is ahead.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken = self.ahead.len().min(self.taken + count);
    }

    /// Reads some more ahead; false at the end. Cancel safe.
    pub(crate) async fn read_ahead(&mut self) -> Result<bool> {
        self.ahead.drain(..self.taken);
        self.taken = 0;
        let mut room = (&mut self.ahead).limit(AHEAD_BYTES);
        let count = self.read.read_buf(&mut room).await.map_err(lost)?;
        self.received_bytes += count as u64;
        Ok(count > 0)
    }

    /// Fills a buffer; false where the end comes before. Cancel safe: what has come stays in the buffer.
    pub(crate) async fn fill(&mut self, buffer: &mut FrameBuffer) -> Result<bool> {
        while !buffer.is_full() {
            if !self.fill_some(buffer).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts what there is into a buffer with room, once there is something; false at the end. Cancel safe.
    pub(crate) async fn fill_some(&mut self, buffer: &mut FrameBuffer) -> Result<bool> {
        let here = self.ahead().len().min(buffer.remaining_mut());
        if here > 0 {
            buffer.put_slice(self.ahead().get(..here).unwrap_or_default());
            self.take(here);
            return Ok(true);
        }
        let count = self.read.read_buf(buffer).await.map_err(lost)?;
        self.received_bytes += count as u64;
        Ok(count > 0)
    }

    /// Whether the peer has closed the connection, or sent what nobody has taken.
    pub(crate) fn is_stale(&mut self) -> bool {
        if !self.ahead().is_empty() {
            return true;
        }
        let mut byte = [0; 1];
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.read);
        !read
            .poll_read(&mut context, &mut ReadBuf::new(&mut byte))
            .is_pending()
    }
}

/// A connection that failed.
pub(crate) fn lost(error: std::io::Error) -> Error {
    transport::broken(&error).unwrap_or_else(|| {
        Error::unavailable(format!("the connection was lost: {error}")).with_source(error)
    })
}
