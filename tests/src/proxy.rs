//! A proxy between client and server, over TCP or unix sockets, that breaks connections at an exact byte.
//!
//! What it does depends on the number of the connection and on bytes passed, never on time or chance.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
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
    /// Both sides see a reset, and may lose bytes that were passed on; over unix sockets an end.
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
    /// The byte at this offset is passed on after this pause, and those behind it follow.
    pub delay: Option<(Direction, u64, Duration)>,
    /// Bytes are passed on in pieces of this size, each after this pause.
    pub slow: Option<(usize, Duration)>,
}

impl Fault {
    /// Passes everything on.
    pub const NONE: Fault = Fault {
        end: None,
        flip: None,
        delay: None,
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

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Where clients connect to.
enum Front {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Front {
    async fn accept(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Front::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
            Front::Unix(listener) => Stream::Unix(listener.accept().await?.0),
        })
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// A connection to a server at an address, or at a path.
    async fn connect(server: &str) -> std::io::Result<Self> {
        if server.starts_with('/') {
            UnixStream::connect(server).await.map(Stream::Unix)
        } else {
            TcpStream::connect(server).await.map(Stream::Tcp)
        }
    }

    fn split(self, ending: Option<Ending>) -> (Reader, Writer) {
        match self {
            Stream::Unix(stream) => {
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
            Stream::Tcp(stream) => {
                stream.set_nodelay(true).unwrap();
                if ending == Some(Ending::Reset) {
                    stream.set_zero_linger().unwrap();
                }
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
        }
    }
}

/// A running proxy. Dropping it ends all its connections.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
    _folder: Option<TempDir>,
}

impl Proxy {
    /// A proxy in front of the server at this URL. The connection of each number, from 0, has its own fault.
    pub async fn start(server_url: &str, fault: impl Fn(usize) -> Fault + Send + 'static) -> Self {
        let (scheme, server) = server_url.split_once("://").expect("a server's URL");
        let server = server.to_owned();
        let (front, place, folder) = if server.starts_with('/') {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("proxy.sock");
            let listener = UnixListener::bind(&path).unwrap();
            (
                Front::Unix(listener),
                path.display().to_string(),
                Some(folder),
            )
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let place = listener.local_addr().unwrap().to_string();
            (Front::Tcp(listener), place, None)
        };
        let url = format!("{scheme}://{place}");
        let shared = Arc::<Shared>::default();
        let mut task = JoinSet::new();
        let passed = Arc::clone(&shared);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok(client) = front.accept().await {
                let number = passed.connections.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = Stream::connect(&server).await else {
                    continue;
                };
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
            _folder: folder,
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

async fn join(client: Stream, server: Stream, fault: Fault, number: usize, shared: Arc<Shared>) {
    let ending = fault.end.map(|(_, _, ending)| ending);
    let (from_client, to_client) = client.split(ending);
    let (from_server, to_server) = server.split(ending);
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
    async fn pass(self, mut from: Reader, mut to: Writer) {
        let piece = self.fault.slow.map_or(CHUNK_BYTES, |(piece, _)| piece) as u64;
        let end = self
            .fault
            .end
            .filter(|(direction, ..)| *direction == self.direction);
        let flip = self
            .fault
            .flip
            .filter(|(direction, ..)| *direction == self.direction);
        let mut delay = self
            .fault
            .delay
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
            if let Some((_, _, pause)) = delay.take_if(|(_, at, _)| passed >= *at) {
                tokio::time::sleep(pause).await;
            }
            let left = end
                .map_or(u64::MAX, |(_, after, _)| after - passed)
                .min(delay.map_or(u64::MAX, |(_, at, _)| at - passed))
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
