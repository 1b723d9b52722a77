//! Arrow IPC: table payloads, whole streams and files, schemas, and cutting batches to the size of a frame.
//!
//! Nothing here does I/O. Bytes from outside are hostile until checked: they give an error, never a panic, and no
//! allocation that a limit does not cover.

mod arrays;
mod body;
mod compact;
mod cut;
mod decode;
mod dictionaries;
mod encode;
mod index;
mod message;
mod schema;
mod soundness;
mod standalone;
mod stream;
mod stream_encoder;

pub use cut::cut_rows;
pub use decode::Decoder;
pub use encode::{Compression, EncodeOptions, Encoder, Payload};
pub use index::{IpcBatch, IpcIndex};
pub use schema::{decode_schema, encode_schema};
pub use standalone::{decode_batch, decode_batches, encode_batch, encode_batches};
pub use stream::{Message, SEQUENCE_KEY, StreamDecoder, StreamEvent};
pub use stream_encoder::StreamEncoder;
