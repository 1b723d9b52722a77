//! `--http`: what a server is at, for monitors that speak HTTP. Nothing here gives rows or changes anything.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use lightstream_core::transport::Location;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::metrics::{self, Metrics};
use crate::exit::{Failure, Outcome};

/// Monitors served at a time; others wait.
const MOST_CONNECTIONS: usize = 64;

/// Longest wait for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest life of a connection, so that one that says nothing makes room.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a connection could not be accepted, as when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const PLAIN: &str = "text/plain; charset=utf-8";

/// Refuses an address that cannot be one, or that strangers could reach without having been asked for twice.
pub fn check(address: &str, insecure: bool) -> Outcome {
    let wrong = || {
        Failure::usage(format!(
            "--http takes an address and a port, as in 127.0.0.1:9090, not {address:?}"
        ))
    };
    let (_, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().map_err(|_| wrong())?;
    let parsed = Location::parse(&format!("lightstream+tcp://{address}")).map_err(|_| wrong())?;
    if parsed.table.is_some() || !parsed.options.is_empty() {
        return Err(wrong());
    }
    if parsed.location.is_local() || insecure {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--http {address}: other machines can reach this address, and whoever does sees the names of tables and what is \
         read of them: it takes neither TLS nor a token. Give a loopback address such as 127.0.0.1:9090, or add --insecure \
         on a network that you trust"
    )))
}

/// A place that monitors connect to.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpListener {
    /// Takes the address; port 0 takes a free one.
    pub async fn bind(address: &str) -> Outcome<Self> {
        let named = || format!("--http {address}");
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Failure::io(named(), error))?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::io(named(), error))?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers monitors until it is dropped.
    pub async fn serve(self, metrics: Metrics) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        // Dropping the set ends every connection.
        let mut connections = JoinSet::new();
        loop {
            // It is never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let metrics = metrics.clone();
                    connections.spawn(async move {
                        let _place = place;
                        let served =
                            tokio::time::timeout(CONNECTION_TIMEOUT, talk(stream, metrics));
                        if let Ok(Err(error)) = served.await {
                            tracing::debug!(%peer, %error, "a monitor was not answered");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of a monitor could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn talk(stream: TcpStream, metrics: Metrics) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &metrics);
        async move { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(method: &Method, path: &str, metrics: &Metrics) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut answer = text(
            StatusCode::METHOD_NOT_ALLOWED,
            PLAIN,
            "Only GET and HEAD are answered here.\n".to_owned(),
        );
        answer
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match path {
        "/metrics" => match metrics.text() {
            Ok(said) => text(StatusCode::OK, metrics::CONTENT_TYPE, said),
            Err(error) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                PLAIN,
                format!("the metrics cannot be written: {error}\n"),
            ),
        },
        "/health" if metrics.stats.is_draining() => text(
            StatusCode::SERVICE_UNAVAILABLE,
            PLAIN,
            "draining\n".to_owned(),
        ),
        "/health" => text(StatusCode::OK, PLAIN, "ok\n".to_owned()),
        _ => text(
            StatusCode::NOT_FOUND,
            PLAIN,
            "There is nothing here. /metrics and /health are answered.\n".to_owned(),
        ),
    }
}

fn text(status: StatusCode, content_type: &'static str, said: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(said)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_must_be_asked_for() {
        for address in ["0.0.0.0:9090", "[::]:9090", "10.0.0.1:0", "db.example:80"] {
            let failure = check(address, false).unwrap_err();
            assert_eq!(failure.code(), 2, "{address}");
            assert!(failure.report().contains("--insecure"), "{address}");
            check(address, true).unwrap();
        }
        for address in ["127.0.0.1:9090", "[::1]:0", "localhost:9090"] {
            check(address, false).unwrap();
        }
    }

    #[test]
    fn what_is_no_address_is_bad_usage() {
        for address in [
            "",
            "9090",
            "127.0.0.1",
            "127.0.0.1:x",
            "127.0.0.1:80/x",
            "a:1,b:2x",
        ] {
            assert_eq!(check(address, true).unwrap_err().code(), 2, "{address}");
        }
    }
}
