//! TCP.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

use super::{ByteStream, HostPort, Timing, tls};
use crate::error::{Error, Result};

/// Probes that the other machine may leave unanswered.
const KEEPALIVE_PROBES: u32 = 3;

const BACKLOG: u32 = 1024;

/// What a connection within one machine has on its way, where the system allows it: by itself the system lets several MiB
/// pile up, which have left the caches when they are read. Other connections need as much as their network has room for,
/// and that the system finds out.
const LOCAL_SEND_BUFFER_BYTES: usize = 384 << 10;

/// Connects to the first host that answers, over TLS where it is to be secured.
pub(super) async fn connect(
    hosts: &[HostPort],
    secured: Option<&tls::Secured<'_>>,
    timing: Timing,
) -> Result<ByteStream> {
    let deadline = Instant::now() + timing.connect;
    let mut failures = Vec::new();
    let mut addresses = VecDeque::new();
    for host in hosts {
        match tokio::net::lookup_host((host.host.as_str(), host.port)).await {
            Ok(found) => addresses.extend(found.map(|address| (host, address))),
            Err(error) => {
                failures.push(format!("{host}: the name cannot be resolved: {error}"));
            }
        }
    }
    while let Some((host, address)) = addresses.pop_front() {
        // What swallows everything must leave time for those after it.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                set_up(&stream, timing.keepalive)?;
                let peer = address.to_string();
                let Some(secured) = secured else {
                    return Ok(halves(stream, peer));
                };
                let stream = tls::connect(stream, &host.host, secured).await?;
                let (read, write) = tokio::io::split(stream);
                return Ok(ByteStream {
                    read: Box::new(read),
                    write: Box::new(write),
                    peer,
                    subject: None,
                });
            }
            Ok(Err(error)) => failures.push(format!("{address}: {error}")),
            Err(_) => failures.push(format!("{address}: no answer within {share:?}")),
        }
    }
    Err(Error::unavailable(format!(
        "no connection: {}",
        failures.join("; ")
    )))
}

pub(super) async fn bind(host: &HostPort) -> Result<TcpListener> {
    let cannot = |error: std::io::Error| {
        Error::unavailable(format!("cannot listen at {host}: {error}")).with_source(error)
    };
    let addresses = tokio::net::lookup_host((host.host.as_str(), host.port))
        .await
        .map_err(cannot)?;
    let mut last = None;
    for address in addresses {
        let socket = if address.is_ipv4() {
            tokio::net::TcpSocket::new_v4()
        } else {
            tokio::net::TcpSocket::new_v6()
        };
        let bound = socket.and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        });
        match bound {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(cannot(last.unwrap_or_else(|| {
        std::io::Error::from(std::io::ErrorKind::AddrNotAvailable)
    })))
}

/// The next connection, and who is at the other end.
pub(super) async fn accept(
    listener: &TcpListener,
    keepalive: Duration,
) -> Result<(TcpStream, String)> {
    let (stream, address) = listener.accept().await.map_err(|error| {
        Error::unavailable("a connection could not be accepted").with_source(error)
    })?;
    let is_local = stream
        .local_addr()
        .is_ok_and(|own| own.ip() == address.ip());
    if is_local && super::most_send_buffer_bytes() >= LOCAL_SEND_BUFFER_BYTES {
        super::set_send_buffer(SockRef::from(&stream), LOCAL_SEND_BUFFER_BYTES);
    }
    set_up(&stream, keepalive)?;
    Ok((stream, address.to_string()))
}

/// Idle connections are probed after so long: what lies between does not forget them, and a machine that is gone is noticed.
fn set_up(stream: &TcpStream, keepalive: Duration) -> Result<()> {
    let socket = SockRef::from(stream);
    socket
        .set_tcp_nodelay(true)
        .and_then(|()| {
            socket.set_tcp_keepalive(
                &TcpKeepalive::new()
                    .with_time(keepalive)
                    .with_interval((keepalive / 6).max(Duration::from_secs(1)))
                    .with_retries(KEEPALIVE_PROBES),
            )
        })
        .map_err(|error| {
            Error::unavailable("the connection could not be set up").with_source(error)
        })
}

/// A connection without TLS.
pub(super) fn halves(stream: TcpStream, peer: String) -> ByteStream {
    let (read, write) = stream.into_split();
    ByteStream {
        read: Box::new(read),
        write: Box::new(write),
        peer,
        subject: None,
    }
}
