//! Byte streams between peers: one file for each transport.
//!
//! Nothing here knows Arrow or frames.

mod location;
mod tcp;
mod tls;
mod unix;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};

pub use tls::TlsFiles;
pub(crate) use tls::{TlsServer, broken};

pub use location::{Address, DEFAULT_PORT, HostPort, Location, ParsedUrl, Scheme};

use crate::error::{Error, Result};
use crate::options::{Options, TlsMode};

/// The receiving half of a connection.
pub type ReadHalf = Box<dyn AsyncRead + Send + Sync + Unpin>;
/// The sending half of a connection; vectored writes reach the system as such.
pub type WriteHalf = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// An open byte stream to a peer.
pub struct ByteStream {
    /// The receiving half.
    pub read: ReadHalf,
    /// The sending half.
    pub write: WriteHalf,
    /// Who is at the other end, for errors and logs.
    pub peer: String,
    /// Whose certificate the peer has shown, as RFC 4514 writes it, where it has shown one.
    pub subject: Option<String>,
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteStream")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// The largest send buffer that the system grants, 0 where it does not tell.
fn most_send_buffer_bytes() -> usize {
    static MOST: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *MOST.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/net/core/wmem_max")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    })
}

/// Sets a buffer's size. It makes a connection faster at best; without it all works as well.
fn set_send_buffer(socket: socket2::SockRef<'_>, bytes: usize) {
    if let Err(error) = socket.set_send_buffer_size(bytes) {
        tracing::debug!(%error, bytes, "a send buffer could not be set");
    }
}

fn not_in_this_build(location: &Location) -> Option<Error> {
    let feature = location.scheme.missing_feature()?;
    Some(Error::unimplemented(format!(
        "{location} needs the feature {feature:?}, which is not in this build"
    )))
}

/// How a client secures its connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// Whether there is TLS; `None` leaves it to the location.
    pub mode: Option<TlsMode>,
    /// The authorities that servers are checked against, as PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to servers that want one, as PEM.
    pub cert: Option<PathBuf>,
    /// Its private key, as PEM.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must be for; `None` for the host's.
    pub server_name: Option<String>,
}

impl From<&Options> for Security {
    fn from(options: &Options) -> Self {
        let path = |path: &Option<String>| path.as_ref().map(PathBuf::from);
        Self {
            mode: options.tls,
            ca: path(&options.tls_ca),
            cert: path(&options.tls_cert),
            key: path(&options.tls_key),
            server_name: options.tls_server_name.clone(),
        }
    }
}

impl Security {
    /// Whether connections to a location are secured.
    ///
    /// # Errors
    /// `invalid_argument` where they cannot be as it is asked for, `unimplemented` where they cannot be made in this build.
    pub(crate) fn secures(&self, location: &Location) -> Result<bool> {
        match not_in_this_build(location) {
            Some(error) => Err(error),
            None => wants_tls(location, self.mode),
        }
    }
}

/// Whether a location is reached over TLS.
fn wants_tls(location: &Location, mode: Option<TlsMode>) -> Result<bool> {
    let wanted = match mode {
        Some(TlsMode::Off) => false,
        Some(TlsMode::On | TlsMode::SkipVerify) => true,
        None => match location.scheme {
            Scheme::Lightstream => !location.is_local(),
            scheme => scheme == scheme.secured(),
        },
    };
    if !wanted && location.scheme == location.scheme.secured() {
        return Err(Error::invalid_argument(format!(
            "{location} means TLS, and tls=off means none"
        )));
    }
    if wanted && !matches!(location.address, Address::Hosts(_)) {
        return Err(Error::invalid_argument(format!(
            "{location} stays on this machine, where there is no TLS"
        )));
    }
    Ok(wanted)
}

/// How long connections are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Longest wait for a connection.
    pub connect: Duration,
    /// When a connection on which nothing goes is probed.
    pub keepalive: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            keepalive: KEEPALIVE,
        }
    }
}

impl From<&Options> for Timing {
    fn from(options: &Options) -> Self {
        let default = Self::default();
        Self {
            connect: options.connect_timeout.unwrap_or(default.connect),
            keepalive: options.keepalive.unwrap_or(default.keepalive),
        }
    }
}

/// When connections on which nothing goes are probed by default.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(60);

/// Opens a connection, trying each address of each host in turn.
///
/// Cancel safe: dropping the future closes what was opened.
///
/// # Errors
/// `unimplemented` for a transport that is not in this build, `unavailable` where nobody answers,
/// `deadline_exceeded` where it takes too long.
pub async fn connect(
    location: &Location,
    security: &Security,
    timing: Timing,
) -> Result<ByteStream> {
    let secured = security.secures(location)?.then_some(tls::Secured {
        security,
        // Whoever sends bare Arrow streams has no name for what is spoken.
        says_protocol: !location.scheme.is_plain(),
    });
    let attempt = async {
        match &location.address {
            Address::Hosts(hosts) => tcp::connect(hosts, secured.as_ref(), timing).await,
            Address::Path(path) => unix::connect(path).await,
            Address::Command(_) => Err(Error::unimplemented("commands are not in this build")),
        }
    };
    match tokio::time::timeout(timing.connect, attempt).await {
        Ok(stream) => stream.map_err(|error| error.with_peer(location.to_string())),
        Err(_) => Err(Error::deadline_exceeded(format!(
            "no connection within {:?}",
            timing.connect
        ))
        .with_retryable(true)
        .with_peer(location.to_string())),
    }
}

/// Accepts connections at one place.
#[derive(Debug)]
pub struct Listener {
    kind: ListenerKind,
    location: Location,
    keepalive: Duration,
}

#[derive(Debug)]
enum ListenerKind {
    Tcp(TcpListener, Option<Arc<TlsServer>>),
    Unix(
        UnixListener,
        #[allow(dead_code, reason = "removes the socket when dropped")] unix::SocketFile,
    ),
}

impl Listener {
    /// Listens at a location. Port 0 takes a free one.
    ///
    /// # Errors
    /// `unimplemented` for a transport that is not in this build, `unavailable` where the place is taken.
    pub(crate) async fn bind(
        location: &Location,
        mode: Option<TlsMode>,
        tls: Option<&Arc<TlsServer>>,
    ) -> Result<Self> {
        if let Some(error) = not_in_this_build(location) {
            return Err(error);
        }
        let tls = server_tls(location, mode, tls)?;
        match &location.address {
            Address::Hosts(hosts) => {
                let [host] = hosts.as_slice() else {
                    return Err(Error::invalid_argument(format!(
                        "{location} names several hosts to listen at"
                    )));
                };
                let listener = tcp::bind(host).await?;
                let bound = listener.local_addr().map_err(|error| {
                    Error::internal("a listening socket has no address").with_source(error)
                })?;
                let host = HostPort {
                    host: host.host.clone(),
                    port: bound.port(),
                };
                let location = Location {
                    scheme: if tls.is_some() {
                        location.scheme.secured()
                    } else {
                        location.scheme
                    },
                    address: Address::Hosts(vec![host]),
                };
                Ok(Self {
                    kind: ListenerKind::Tcp(listener, tls),
                    location,
                    keepalive: KEEPALIVE,
                })
            }
            Address::Path(path) => {
                let (listener, file) = unix::bind(path)?;
                Ok(Self {
                    kind: ListenerKind::Unix(listener, file),
                    location: location.clone(),
                    keepalive: KEEPALIVE,
                })
            }
            Address::Command(_) => Err(Error::invalid_argument(format!(
                "{location} is no place to listen at"
            ))),
        }
    }

    /// Says when connections on which nothing goes are probed.
    pub(crate) fn with_keepalive(mut self, keepalive: Duration) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Where it listens, with the port that was taken.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Waits for the next connection. Cancel safe.
    ///
    /// # Errors
    /// `unavailable` where the system refuses one; the next may succeed.
    pub(crate) async fn accept(&self) -> Result<Incoming> {
        match &self.kind {
            ListenerKind::Tcp(listener, tls) => {
                let (stream, peer) = tcp::accept(listener, self.keepalive).await?;
                Ok(Incoming::Tcp(stream, peer, tls.clone()))
            }
            ListenerKind::Unix(listener, _) => Ok(Incoming::Unix(unix::accept(listener).await?)),
        }
    }
}

/// The certificate to listen with, where a location is for TLS.
fn server_tls(
    location: &Location,
    mode: Option<TlsMode>,
    tls: Option<&Arc<TlsServer>>,
) -> Result<Option<Arc<TlsServer>>> {
    let is_plain = mode == Some(TlsMode::Off)
        || matches!(location.scheme, Scheme::Tcp | Scheme::ArrowTcp)
        || !matches!(location.address, Address::Hosts(_));
    match tls {
        // Whoever has a certificate wants it used.
        Some(tls) if !is_plain => Ok(Some(Arc::clone(tls))),
        _ if wants_tls(location, mode)? => match tls {
            Some(tls) => Ok(Some(Arc::clone(tls))),
            None => Err(Error::invalid_argument(format!(
                "{location} is for TLS, which needs a certificate and its key; on a network you trust say tls=off"
            ))),
        },
        _ => Ok(None),
    }
}

/// A connection that a client has opened, before it is secured.
pub(crate) enum Incoming {
    Tcp(TcpStream, String, Option<Arc<TlsServer>>),
    Unix(ByteStream),
}

/// A connection that is ready, or one that speaks no TLS where it is wanted.
pub(crate) enum Opened {
    Ready(ByteStream),
    NotSecure(ByteStream),
}

impl Incoming {
    /// Waits until the client has secured the connection, where it must.
    ///
    /// # Errors
    /// `unavailable` where it does not.
    pub(crate) async fn open(self) -> Result<Opened> {
        match self {
            Incoming::Unix(stream) => Ok(Opened::Ready(stream)),
            Incoming::Tcp(stream, peer, None) => Ok(Opened::Ready(tcp::halves(stream, peer))),
            Incoming::Tcp(stream, peer, Some(tls)) => {
                let mut first = [0];
                let peeked = stream
                    .peek(&mut first)
                    .await
                    .map_err(|error| Error::unavailable("the client went").with_source(error))?;
                if peeked == 1 && first != [tls::HANDSHAKE] {
                    return Ok(Opened::NotSecure(tcp::halves(stream, peer)));
                }
                Ok(Opened::Ready(tls.accept(stream, peer).await?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    async fn refusal(url: &str) -> Error {
        let location = Location::parse(url).unwrap().location;
        connect(&location, &Security::default(), Timing::default())
            .await
            .unwrap_err()
    }

    #[tokio::test]
    async fn schemes_that_are_not_built_name_their_feature() {
        for (url, feature) in [
            ("lightstream+quic://localhost", "\"quic\""),
            ("lightstream+stdio:cat", "\"stdio\""),
            ("arrow+ws://localhost", "\"websocket\""),
            ("arrow+stdio:cat", "\"stdio\""),
            ("flight://localhost", "\"flight\""),
        ] {
            let error = refusal(url).await;
            assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
            assert!(
                error.to_string().contains(feature)
                    && error.to_string().contains("not in this build"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn nobody_there_is_unavailable_and_names_the_peer() {
        let free = Listener::bind(
            &Location::parse("lightstream://127.0.0.1:0")
                .unwrap()
                .location,
            None,
            None,
        )
        .await
        .unwrap();
        let url = free.location().to_string();
        drop(free);
        for url in [url.as_str(), "lightstream+unix:///nonexistent/x.sock"] {
            let error = refusal(url).await;
            assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
            assert!(
                error.is_retryable() && error.to_string().contains(url),
                "{error}"
            );
        }
    }
}
