//! A TCP proxy between client and server that breaks connections at an exact byte.
//!
//! What it does depends on the number of the connection and on bytes passed, never on time or chance.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CHUNK_BYTES: usize = 64 << 10;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Both sides see an end of the stream, after all bytes that were passed on.
    Close,
    /// Both sides see a reset, and may lose bytes that were passed on.
    Reset,
    /// Nothing more is passed on that way, and both sides see nothing at all.
    Stall,
}

/// What is done to one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fault {
    /// The connection ends once so many bytes have been passed on that way.
    pub end: Option<(Direction, u64, Ending)>,
    /// The byte at this offset has these bits flipped.
    pub flip: Option<(Direction, u64, u8)>,
    /// Bytes are passed on in pieces of this size, each after this pause.
    pub slow: Option<(usize, Duration)>,
}

impl Fault {
    /// Passes everything on.
    pub const NONE: Fault = Fault {
        end: None,
        flip: None,
        slow: None,
    };

    /// Ends the connection after so many bytes.
    pub fn end(direction: Direction, after: u64, ending: Ending) -> Self {
        Fault {
            end: Some((direction, after, ending)),
            ..Fault::NONE
        }
    }
}

#[derive(Default)]
struct Shared {
    to_server: AtomicU64,
    to_client: AtomicU64,
    connections: AtomicUsize,
    /// What passed on the first connection, towards the client.
    recorded: Mutex<Vec<u8>>,
}

/// A running proxy. Dropping it ends all its connections.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// A proxy in front of the server at this URL. The connection of each number, from 0, has its own fault.
    pub async fn start(server_url: &str, fault: impl Fn(usize) -> Fault + Send + 'static) -> Self {
        let (scheme, server) = server_url.split_once("://").expect("a TCP server");
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let shared = Arc::<Shared>::default();
        let mut task = JoinSet::new();
        let passed = Arc::clone(&shared);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let number = passed.connections.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(&server).await;
                let Ok(server) = server else { continue };
                connections.spawn(join(
                    client,
                    server,
                    fault(number),
                    number,
                    Arc::clone(&passed),
                ));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            url,
            shared,
            _task: task,
        }
    }

    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Bytes passed on from clients to the server.
    pub fn to_server(&self) -> u64 {
        self.shared.to_server.load(Ordering::SeqCst)
    }

    /// Bytes passed on from the server to clients.
    pub fn to_client(&self) -> u64 {
        self.shared.to_client.load(Ordering::SeqCst)
    }

    /// Connections accepted.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// What passed towards the client on the first connection.
    pub fn recorded(&self) -> Vec<u8> {
        self.shared.recorded.lock().unwrap().clone()
    }
}

async fn join(
    client: TcpStream,
    server: TcpStream,
    fault: Fault,
    number: usize,
    shared: Arc<Shared>,
) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
        if matches!(fault.end, Some((_, _, Ending::Reset))) {
            stream.set_zero_linger().unwrap();
        }
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = Way {
        direction: Direction::ToServer,
        fault,
        is_recorded: false,
        shared: Arc::clone(&shared),
    };
    let down = Way {
        direction: Direction::ToClient,
        is_recorded: number == 0,
        ..up.clone()
    };
    // Both halves of both sides live in this future: when one way ends it, both connections end.
    let (up, down) = (
        up.pass(from_client, to_server),
        down.pass(from_server, to_client),
    );
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut up => {}
        () = &mut down => {}
    }
}

#[derive(Clone)]
struct Way {
    direction: Direction,
    fault: Fault,
    is_recorded: bool,
    shared: Arc<Shared>,
}

impl Way {
    /// Passes bytes on until one side ends or the fault says so.
    async fn pass(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let piece = self.fault.slow.map_or(CHUNK_BYTES, |(piece, _)| piece) as u64;
        let end = self
            .fault
            .end
            .filter(|(direction, ..)| *direction == self.direction);
        let flip = self
            .fault
            .flip
            .filter(|(direction, ..)| *direction == self.direction);
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut passed = 0_u64;
        loop {
            if let Some((_, after, ending)) = end
                && passed >= after
            {
                if ending == Ending::Stall {
                    std::future::pending::<()>().await;
                }
                return;
            }
            let left = end
                .map_or(u64::MAX, |(_, after, _)| after - passed)
                .min(piece) as usize;
            let Ok(count @ 1..) = from.read(&mut buffer[..left]).await else {
                return;
            };
            if let Some((_, at, bits)) = flip
                && (passed..passed + count as u64).contains(&at)
            {
                buffer[(at - passed) as usize] ^= bits;
            }
            if let Some((_, pause)) = self.fault.slow {
                match pause.is_zero() {
                    true => tokio::task::yield_now().await,
                    false => tokio::time::sleep(pause).await,
                }
            }
            // Counted first: once the other side has all bytes, the numbers are right.
            passed += count as u64;
            let counter = match self.direction {
                Direction::ToServer => &self.shared.to_server,
                Direction::ToClient => &self.shared.to_client,
            };
            counter.fetch_add(count as u64, Ordering::SeqCst);
            if self.is_recorded {
                self.shared
                    .recorded
                    .lock()
                    .unwrap()
                    .extend_from_slice(&buffer[..count]);
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
}
