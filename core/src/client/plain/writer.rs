//! Writes bare Arrow streams, for whoever reads them.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::connections::Connections;
use crate::client::options_of;
use crate::connection::FrameWriter;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::protocol::ipc::{EncodeOptions, StreamEncoder};
use crate::transport::{Location, ReadHalf};

/// One connection and its stream.
struct Lane {
    writer: FrameWriter,
    encoder: StreamEncoder,
    /// Kept open: to some readers a half-closed connection is a lost one.
    _read: ReadHalf,
}

/// Sends the batches of one table as Arrow IPC streams to a plain URL such as `arrow+tcp://host:port`.
///
/// It connects to the reader, over as many connections as the option `streams` says (one by default), or with the option
/// `listen` waits for so many readers. With several connections the batches go round, each with its number among all
/// (`ls.seq_id`), so that the reader can put them in order and notices gaps. The option `compression` says how rows are
/// compressed.
///
/// The peer confirms nothing: that all was sent is known here, that it was read only there. Dropped before
/// [`PlainWriter::finish`] it leaves streams without their end marker, which readers here take for an error.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int32Array, RecordBatch};
/// use lightstream_core::Options;
/// use lightstream_core::client::PlainWriter;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let reader = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let url = format!("arrow+tcp://{}", reader.local_addr()?);
/// # let read = std::thread::spawn(move || std::io::copy(&mut reader.accept()?.0, &mut std::io::sink()));
/// let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
/// let batch = RecordBatch::try_from_iter([("a", column)])?;
/// let mut writer = PlainWriter::connect(&url, Options::default(), batch.schema()).await?;
/// writer.write(&batch).await?;
/// writer.finish().await?;
/// # read.join().expect("the reader ends")?;
/// # Ok(())
/// # }
/// ```
pub struct PlainWriter {
    lanes: Vec<Lane>,
    location: Location,
    /// How many batches were written.
    written: u64,
}

impl std::fmt::Debug for PlainWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainWriter")
            .field("location", &self.location)
            .field("connections", &self.lanes.len())
            .field("written", &self.written)
            .finish()
    }
}

impl PlainWriter {
    /// Connects, or listens until all readers have connected, and sends the schema. Cancel safe.
    ///
    /// # Errors
    /// `invalid_argument` for a URL that is not one of plain mode, and for a schema that IPC cannot express;
    /// `unavailable` where nobody is there or the place is taken, `deadline_exceeded` where the option `connect_timeout`
    /// passes.
    pub async fn connect(url: &str, options: Options, schema: SchemaRef) -> Result<Self> {
        let parsed = Location::parse(url)?;
        let options = options_of(&parsed, options)?;
        if !parsed.location.scheme.is_plain() {
            return Err(Error::invalid_argument(format!(
                "{} is no URL of plain mode, such as arrow+tcp://host:port",
                parsed.location
            )));
        }
        let connections = Connections::try_new(parsed.location.clone(), &options)?;
        let encoding = EncodeOptions {
            compression: options.compression.unwrap_or_default(),
        };
        let encoder = || StreamEncoder::try_new_with_options(schema.clone(), &encoding);
        // What cannot be written is said before anybody is met.
        encoder()?;
        let streams = connections.writers(options.streams.unwrap_or(1)).await?;
        let mut lanes = Vec::with_capacity(streams.len());
        for stream in streams {
            let mut lane = Lane {
                writer: FrameWriter::new(stream.write),
                encoder: encoder()?,
                _read: stream.read,
            };
            lane.writer.queue_bytes(lane.encoder.start());
            lane.writer.flush().await.map_err(incomplete)?;
            lanes.push(lane);
        }
        Ok(Self {
            lanes,
            location: parsed.location,
            written: 0,
        })
    }

    /// Sends a batch. It waits while the reader is slow, for as long as that takes.
    ///
    /// Where the future is dropped the rest of the batch is sent with the next.
    ///
    /// # Errors
    /// `invalid_argument` for a batch of another schema, `unavailable` where the reader is gone; neither is retryable, and
    /// nothing can be written afterwards.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let count = self.lanes.len() as u64;
        let number = (count > 1).then_some(self.written);
        let next = usize::try_from(self.written % count.max(1)).unwrap_or_default();
        let Some(lane) = self.lanes.get_mut(next) else {
            return Ok(());
        };
        self.written += 1;
        let peer = || self.location.to_string();
        let sent = async {
            lane.writer.queue_bytes(lane.encoder.encode(batch, number)?);
            lane.writer.flush().await
        };
        sent.await
            .map_err(|error| incomplete(error).with_peer(peer()))
    }

    /// Sends the markers that end the streams, and closes the connections.
    ///
    /// # Errors
    /// `unavailable` where a reader is gone.
    pub async fn finish(mut self) -> Result<()> {
        for lane in &mut self.lanes {
            lane.writer.queue_bytes(lane.encoder.end());
            let ended = async {
                lane.writer.flush().await?;
                lane.writer.shut_down().await
            };
            ended
                .await
                .map_err(|error| incomplete(error).with_peer(self.location.to_string()))?;
        }
        Ok(())
    }
}

/// What was sent before cannot be sent again to the same reader.
fn incomplete(error: Error) -> Error {
    error
        .with_retryable(false)
        .context("the stream was not sent to its end")
}
