//! Receives what a sender offers, over several connections at once.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Hello, Offer, Variant, read_line, word_sum, write_line};
use crate::Result;
use crate::measure::Arrivals;

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

/// How a receiver wants its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Connections, each for a share of the bytes.
    pub streams: usize,
    /// All bytes, which must be what the sender offers.
    pub bytes: u64,
    /// How sockets are used.
    pub variant: Variant,
    /// Bytes of each chunk to sum, in words of eight.
    pub summed: usize,
    /// All bytes are kept, in fresh memory, until the next are asked for.
    pub retain: bool,
}

/// What came over all connections.
#[derive(Debug, Default)]
pub struct Transfer {
    /// When the first chunk came.
    pub first: Option<Instant>,
    /// The times between two chunks of a connection, in microseconds.
    pub gaps_us: Vec<u32>,
    /// What was to be kept.
    pub kept: Vec<Vec<u8>>,
}

/// Connections over which the bytes come as often as they are asked for.
pub struct Connections {
    streams: Vec<Stream>,
}

impl Connections {
    /// Connects to a sender. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Where it cannot be reached, or offers another number of bytes.
    pub fn connect(address: (&str, u16), wanted: &Wanted) -> Result<Self> {
        let Wanted {
            streams: of,
            variant,
            summed,
            ..
        } = *wanted;
        let mut streams = Vec::new();
        for index in 0..of {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            let hello = Hello {
                index,
                of,
                variant,
                summed,
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
                summed,
                reused: (!wanted.retain).then(|| Vec::with_capacity(variant.chunk)),
                kept: Vec::new(),
                arrivals: Arrivals::default(),
            });
        }
        let offered: usize = streams.iter().map(|stream| stream.offer.bytes).sum();
        if offered as u64 != wanted.bytes {
            return Err(format!("{offered} bytes are offered, not {}", wanted.bytes).into());
        }
        Ok(Self { streams })
    }

    /// Asks for all bytes and receives them.
    ///
    /// # Errors
    /// Where a connection fails, or the sum of the bytes is wrong.
    pub async fn receive(&mut self) -> Result<Transfer> {
        let tasks: Vec<_> = std::mem::take(&mut self.streams)
            .into_iter()
            .map(|stream| tokio::spawn(stream.receive()))
            .collect();
        let mut all = Transfer::default();
        for task in tasks {
            let mut stream = task.await??;
            all.first = all.first.into_iter().chain(stream.arrivals.first).min();
            all.gaps_us.append(&mut stream.arrivals.gaps_us);
            all.kept.append(&mut stream.kept);
            self.streams.push(stream);
        }
        Ok(all)
    }
}
