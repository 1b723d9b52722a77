//! Bytes over TCP without any format: what the system's sockets can do.
//!
//! The bytes are the table's own buffers, and the receiver sums as many of them as other receivers read to check rows.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::BufMut;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Received, Receiver, System};
use crate::Result;
use crate::process::{Place, ReceiverSpec, SenderSpec};
use crate::shapes::{Facts, Table};
use crate::verify::Arrivals;

const MIB: usize = 1 << 20;

/// Memory that is sent again and again, larger than the caches.
const FLAT_BYTES: usize = 192 * MIB;

/// How raw TCP is used. The best of all counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Size of a write, and of the memory that is read into.
    pub chunk: usize,
    /// Threads and blocking sockets instead of tokio.
    pub blocking: bool,
}

impl Variant {
    pub fn of(system: System) -> Vec<Self> {
        let chunks: &[usize] = match system {
            System::RawTcp => &[MIB, 8 * MIB],
            _ => &[8 * MIB],
        };
        let both = |&chunk| [false, true].map(|blocking| Self { chunk, blocking });
        chunks.iter().flat_map(both).collect()
    }

    pub fn name(self) -> String {
        let sockets = if self.blocking { "blocking" } else { "tokio" };
        format!("{} MiB, {sockets}", self.chunk / MIB)
    }
}

/// What a connection starts with: which share of the bytes is wanted, and how.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Hello {
    index: usize,
    of: usize,
    variant: Variant,
    /// Bytes of each chunk that are summed.
    summed: usize,
}

/// What it is answered by.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Offer {
    bytes: usize,
    sum: u64,
}

fn write_line(mut stream: &TcpStream, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

/// Reads no further than the end of the line.
fn read_line<T: serde::de::DeserializeOwned>(mut stream: &TcpStream) -> Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(serde_json::from_slice(&line)?);
        }
        line.extend_from_slice(&byte);
    }
}

fn word_sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum: u64, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    })
}

/// What one connection sends: a range of positions, each the byte at that position modulo the length of the memory.
#[derive(Clone)]
struct Share {
    flat: Arc<Vec<u8>>,
    start: usize,
    end: usize,
    chunk: usize,
}

impl Share {
    /// Shares start at whole chunks.
    fn new(flat: &Arc<Vec<u8>>, bytes: usize, hello: &Hello) -> Result<Self> {
        let Hello {
            index, of, variant, ..
        } = *hello;
        if index >= of || variant.chunk == 0 || variant.chunk % 8 != 0 {
            return Err(format!("there is no share {hello:?}").into());
        }
        let edge = |index: usize| match index {
            last if last == of => bytes,
            _ => bytes / of * index / variant.chunk * variant.chunk,
        };
        Ok(Self {
            flat: Arc::clone(flat),
            start: edge(index),
            end: edge(index + 1),
            chunk: variant.chunk,
        })
    }

    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (end, chunk) = (self.end, self.chunk);
        (self.start..end)
            .step_by(chunk)
            .map(move |from| (from, end.min(from + chunk)))
    }

    /// The memory from one position to another; in pieces where it ends in between.
    fn pieces(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = from;
        std::iter::from_fn(move || {
            let start = at % self.flat.len();
            let end = self.flat.len().min(start + (to - at));
            at += end - start;
            self.flat.get(start..end).filter(|piece| !piece.is_empty())
        })
    }

    fn sum(&self, summed: usize) -> u64 {
        self.chunks()
            .flat_map(|(from, to)| self.pieces(from, to.min(from + summed)))
            .fold(0, |sum, piece| sum.wrapping_add(word_sum(piece)))
    }
}

/// The buffers of a table one after the other, up to a size beyond the caches.
fn flatten(table: &Table) -> Result<Vec<u8>> {
    let wanted = FLAT_BYTES.min(usize::try_from(table.facts.bytes)?);
    let mut flat = Vec::with_capacity(wanted);
    let arrays = table.batches.iter().flat_map(|batch| batch.columns());
    for array in arrays {
        for buffer in array.to_data().buffers() {
            let room = (wanted - flat.len()).min(buffer.len());
            flat.extend_from_slice(buffer.as_slice().get(..room).unwrap_or_default());
        }
    }
    flat.truncate(flat.len() / 8 * 8);
    if flat.is_empty() {
        return Err("there is nothing to send".into());
    }
    Ok(flat)
}

pub fn listen(spec: &SenderSpec, table: Table) -> Result<Place> {
    let listener = TcpListener::bind((spec.host.as_str(), spec.port))?;
    let port = listener.local_addr()?.port();
    let flat = Arc::new(flatten(&table)?);
    let bytes = usize::try_from(table.facts.bytes)?;
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (flat, runtime) = (Arc::clone(&flat), runtime.clone());
            std::thread::spawn(move || {
                let served = stream
                    .map_err(Into::into)
                    .and_then(|stream| serve(stream, &flat, bytes, &runtime));
                if let Err(error) = served {
                    eprintln!("transport: raw TCP: {error}");
                }
            });
        }
    });
    Ok(Place::Port(port))
}

fn serve(
    stream: TcpStream,
    flat: &Arc<Vec<u8>>,
    bytes: usize,
    runtime: &tokio::runtime::Handle,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let hello: Hello = read_line(&stream)?;
    let share = Share::new(flat, bytes, &hello)?;
    let offer = Offer {
        bytes: share.end - share.start,
        sum: share.sum(hello.summed),
    };
    write_line(&stream, &offer)?;
    if hello.variant.blocking {
        return send_blocking(&stream, &share);
    }
    stream.set_nonblocking(true)?;
    runtime.spawn(async move {
        if let Err(error) = send(stream, share).await {
            eprintln!("transport: raw TCP: {error}");
        }
    });
    Ok(())
}

/// Sends the share each time a byte comes, until the other end closes.
fn send_blocking(mut stream: &TcpStream, share: &Share) -> Result<()> {
    while stream.read(&mut [0])? > 0 {
        for (from, to) in share.chunks() {
            for piece in share.pieces(from, to) {
                stream.write_all(piece)?;
            }
        }
    }
    Ok(())
}

async fn send(stream: TcpStream, share: Share) -> Result<()> {
    let mut stream = tokio::net::TcpStream::from_std(stream)?;
    while stream.read(&mut [0]).await? > 0 {
        for (from, to) in share.chunks() {
            for piece in share.pieces(from, to) {
                stream.write_all(piece).await?;
            }
        }
    }
    Ok(())
}

enum Socket {
    Blocking(TcpStream),
    Tokio(tokio::net::TcpStream),
}

/// One connection.
struct Stream {
    socket: Socket,
    offer: Offer,
    chunk: usize,
    summed: usize,
    /// Memory that is read into again and again; `None` where it is to be fresh and kept.
    reused: Option<Vec<u8>>,
    kept: Vec<Vec<u8>>,
    arrivals: Arrivals,
}

/// What is left to do of a share.
struct Rest {
    bytes: usize,
    sum: u64,
}

impl Stream {
    fn begin(&mut self) -> Rest {
        self.arrivals = Arrivals::default();
        self.kept = Vec::new();
        Rest {
            bytes: self.offer.bytes,
            sum: 0,
        }
    }

    /// Memory for the next chunk.
    fn room(&mut self) -> Vec<u8> {
        let mut room = self
            .reused
            .take()
            .unwrap_or_else(|| Vec::with_capacity(self.chunk));
        room.clear();
        room
    }

    fn take(&mut self, filled: Vec<u8>, is_kept: bool, rest: &mut Rest) {
        self.arrivals.note();
        rest.bytes -= filled.len();
        let summed = filled.get(..self.summed.min(filled.len()));
        rest.sum = rest.sum.wrapping_add(word_sum(summed.unwrap_or_default()));
        if is_kept {
            self.kept.push(filled);
        } else {
            self.reused = Some(filled);
        }
    }

    fn end(&self, rest: &Rest) -> Result<()> {
        if rest.sum == self.offer.sum {
            Ok(())
        } else {
            Err("the checksum of the bytes is wrong".into())
        }
    }

    async fn receive(mut self) -> Result<Self> {
        match self.socket {
            Socket::Blocking(_) => {
                tokio::task::spawn_blocking(move || self.receive_blocking().map(|()| self)).await?
            }
            Socket::Tokio(_) => self.receive_tokio().await.map(|()| self),
        }
    }

    async fn receive_tokio(&mut self) -> Result<()> {
        let mut rest = self.begin();
        let is_kept = self.reused.is_none();
        if let Socket::Tokio(socket) = &mut self.socket {
            socket.write_all(b"!").await?;
        }
        while rest.bytes > 0 {
            let wanted = self.chunk.min(rest.bytes);
            let mut room = self.room();
            let Socket::Tokio(socket) = &mut self.socket else {
                return Err("not a socket of tokio".into());
            };
            while room.len() < wanted {
                let left = wanted - room.len();
                if socket.read_buf(&mut (&mut room).limit(left)).await? == 0 {
                    return Err("the sender closed before the end".into());
                }
            }
            self.take(room, is_kept, &mut rest);
        }
        self.end(&rest)
    }

    fn receive_blocking(&mut self) -> Result<()> {
        let mut rest = self.begin();
        let is_kept = self.reused.is_none();
        if let Socket::Blocking(socket) = &mut self.socket {
            socket.write_all(b"!")?;
        }
        while rest.bytes > 0 {
            let wanted = self.chunk.min(rest.bytes);
            let mut room = self.room();
            let Socket::Blocking(socket) = &mut self.socket else {
                return Err("not a blocking socket".into());
            };
            while room.len() < wanted {
                let spare = rustix::buffer::spare_capacity(&mut room);
                if rustix::io::read(&*socket, spare)? == 0 {
                    return Err("the sender closed before the end".into());
                }
            }
            self.take(room, is_kept, &mut rest);
        }
        self.end(&rest)
    }
}

/// Bytes of each chunk to sum so that as many are read as other receivers read to check rows.
fn summed_bytes(chunk: usize, facts: &Facts) -> usize {
    let share = facts.checked_bytes as f64 / facts.bytes.max(1) as f64;
    (chunk as f64 * share) as usize / 8 * 8
}

pub struct RawReceiver {
    streams: Vec<Stream>,
}

pub fn connect(spec: &ReceiverSpec) -> Result<RawReceiver> {
    let Place::Port(port) = spec.place else {
        return Err("raw TCP needs a port".into());
    };
    let variant = spec.variant.ok_or("raw TCP needs a variant")?;
    let mut streams = Vec::new();
    for index in 0..spec.streams {
        let socket = TcpStream::connect((spec.host.as_str(), port))?;
        socket.set_nodelay(true)?;
        let hello = Hello {
            index,
            of: spec.streams,
            variant,
            summed: summed_bytes(variant.chunk, &spec.facts),
        };
        write_line(&socket, &hello)?;
        let offer = read_line(&socket)?;
        let socket = if variant.blocking {
            Socket::Blocking(socket)
        } else {
            socket.set_nonblocking(true)?;
            Socket::Tokio(tokio::net::TcpStream::from_std(socket)?)
        };
        streams.push(Stream {
            socket,
            offer,
            chunk: variant.chunk,
            summed: hello.summed,
            reused: (!spec.retain).then(|| Vec::with_capacity(variant.chunk)),
            kept: Vec::new(),
            arrivals: Arrivals::default(),
        });
    }
    let offered: usize = streams.iter().map(|stream| stream.offer.bytes).sum();
    if offered as u64 != spec.facts.bytes {
        return Err(format!("{offered} bytes are offered, not {}", spec.facts.bytes).into());
    }
    Ok(RawReceiver { streams })
}

#[async_trait]
impl Receiver for RawReceiver {
    async fn receive(&mut self) -> Result<Received> {
        let tasks: Vec<_> = std::mem::take(&mut self.streams)
            .into_iter()
            .map(|stream| tokio::spawn(stream.receive()))
            .collect();
        let mut first = None;
        let mut gaps_us = Vec::new();
        let mut kept = Vec::new();
        for task in tasks {
            let mut stream = task.await??;
            first = first.into_iter().chain(stream.arrivals.first).min();
            gaps_us.append(&mut stream.arrivals.gaps_us);
            kept.append(&mut stream.kept);
            self.streams.push(stream);
        }
        Ok(Received {
            first,
            gaps_us,
            _kept: Box::new(kept),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_bytes_once_and_sum_alike() {
        let flat: Arc<Vec<u8>> = Arc::new((0..1000).map(|i| (i * 7 % 251) as u8).collect());
        let bytes = 4321;
        for (of, chunk) in [(1, 64), (3, 64), (8, 4096), (5, 8)] {
            let mut next = 0;
            for index in 0..of {
                let variant = Variant {
                    chunk,
                    blocking: false,
                };
                let hello = Hello {
                    index,
                    of,
                    variant,
                    summed: 24,
                };
                let share = Share::new(&flat, bytes, &hello).unwrap();
                assert_eq!(share.start, next);
                next = share.end;
                let mut received = Vec::new();
                let mut sum = 0_u64;
                for (from, to) in share.chunks() {
                    let chunk: Vec<u8> = share.pieces(from, to).flatten().copied().collect();
                    sum = sum.wrapping_add(word_sum(&chunk[..chunk.len().min(24)]));
                    received.extend(chunk);
                }
                let expected: Vec<u8> =
                    (share.start..share.end).map(|at| flat[at % 1000]).collect();
                assert!(received == expected && sum == share.sum(24));
            }
            assert_eq!(next, bytes);
        }
    }
}
