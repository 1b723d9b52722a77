//! Byte streams between peers: one file for each transport.
//!
//! Nothing here knows Arrow or frames.

mod location;
mod tcp;
mod unix;

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

pub use location::{Address, DEFAULT_PORT, HostPort, Location, ParsedUrl, Scheme};

use crate::error::{Error, Result};
use crate::options::TlsMode;

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

/// Refuses what would need TLS, which this build is without.
fn check_security(location: &Location, tls: Option<TlsMode>) -> Result<()> {
    let wanted = match tls {
        Some(TlsMode::Off) => false,
        Some(TlsMode::On | TlsMode::SkipVerify) => true,
        None => location.scheme == Scheme::Lightstream && !location.is_local(),
    };
    if wanted {
        return Err(Error::unimplemented(format!(
            "{location} is to be reached over TLS, which needs the feature \"tls\" that is not in this build; \
             on a network you trust say tls=off"
        )));
    }
    Ok(())
}

/// Opens a connection, trying each address of each host in turn.
///
/// Cancel safe: dropping the future closes what was opened.
///
/// # Errors
/// `unimplemented` for a transport that is not in this build, `unavailable` where nobody answers,
/// `deadline_exceeded` after `timeout`.
pub async fn connect(
    location: &Location,
    tls: Option<TlsMode>,
    timeout: Duration,
) -> Result<ByteStream> {
    if let Some(error) = not_in_this_build(location) {
        return Err(error);
    }
    check_security(location, tls)?;
    let attempt = async {
        match &location.address {
            Address::Hosts(hosts) => tcp::connect(hosts, timeout).await,
            Address::Path(path) => unix::connect(path).await,
            Address::Command(_) => Err(Error::unimplemented("commands are not in this build")),
        }
    };
    match tokio::time::timeout(timeout, attempt).await {
        Ok(stream) => stream.map_err(|error| error.with_peer(location.to_string())),
        Err(_) => Err(
            Error::deadline_exceeded(format!("no connection within {timeout:?}"))
                .with_retryable(true)
                .with_peer(location.to_string()),
        ),
    }
}

/// Accepts connections at one place.
#[derive(Debug)]
pub struct Listener {
    kind: ListenerKind,
    location: Location,
}

#[derive(Debug)]
enum ListenerKind {
    Tcp(TcpListener),
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
    pub async fn bind(location: &Location, tls: Option<TlsMode>) -> Result<Self> {
        if let Some(error) = not_in_this_build(location) {
            return Err(error);
        }
        check_security(location, tls)?;
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
                    scheme: location.scheme,
                    address: Address::Hosts(vec![host]),
                };
                Ok(Self {
                    kind: ListenerKind::Tcp(listener),
                    location,
                })
            }
            Address::Path(path) => {
                let (listener, file) = unix::bind(path)?;
                Ok(Self {
                    kind: ListenerKind::Unix(listener, file),
                    location: location.clone(),
                })
            }
            Address::Command(_) => Err(Error::invalid_argument(format!(
                "{location} is no place to listen at"
            ))),
        }
    }

    /// Where it listens, with the port that was taken.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Waits for the next connection. Cancel safe.
    ///
    /// # Errors
    /// `unavailable` where the system refuses one; the next may succeed.
    pub async fn accept(&self) -> Result<ByteStream> {
        match &self.kind {
            ListenerKind::Tcp(listener) => tcp::accept(listener).await,
            ListenerKind::Unix(listener, _) => unix::accept(listener).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    async fn refusal(url: &str, tls: Option<TlsMode>) -> Error {
        let location = Location::parse(url).unwrap().location;
        connect(&location, tls, Duration::from_secs(20))
            .await
            .unwrap_err()
    }

    #[tokio::test]
    async fn schemes_that_are_not_built_name_their_feature() {
        for (url, feature) in [
            ("lightstream+tls://localhost", "\"tls\""),
            ("lightstream+quic://localhost", "\"quic\""),
            ("lightstream+stdio:cat", "\"stdio\""),
            ("arrow+tcp://localhost", "\"plain\""),
            ("flight://localhost", "\"flight\""),
            ("lightstream://db.example", "\"tls\""),
        ] {
            let error = refusal(url, None).await;
            assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
            assert!(
                error.to_string().contains(feature)
                    && error.to_string().contains("not in this build"),
                "{error}"
            );
        }
        let error = refusal("lightstream://localhost", Some(TlsMode::On)).await;
        assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
    }

    #[tokio::test]
    async fn nobody_there_is_unavailable_and_names_the_peer() {
        let free = Listener::bind(
            &Location::parse("lightstream://127.0.0.1:0")
                .unwrap()
                .location,
            None,
        )
        .await
        .unwrap();
        let url = free.location().to_string();
        drop(free);
        for url in [url.as_str(), "lightstream+unix:///nonexistent/x.sock"] {
            let error = refusal(url, None).await;
            assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
            assert!(
                error.is_retryable() && error.to_string().contains(url),
                "{error}"
            );
        }
    }
}
