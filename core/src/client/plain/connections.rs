//! Opens the connections of plain mode, from this side or by waiting for the other.
//!
//! Knows nothing of what goes over them.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::transport::{
    self, ByteStream, Listener, Location, Opened, Security, Timing, TlsFiles, TlsServer,
};

/// How the peer, or its parallel connections, are met.
pub(super) struct Connections {
    location: Location,
    security: Security,
    /// Wait for so many instead of connecting.
    listen: Option<u32>,
    timing: Timing,
    /// Longest wait for a peer to come, where that is said.
    timeout: Option<Duration>,
}

impl Connections {
    /// What the options say.
    ///
    /// # Errors
    /// `invalid_argument` for several hosts to listen at.
    pub(super) fn try_new(location: Location, options: &Options) -> Result<Self> {
        if options.listen.is_some()
            && matches!(&location.address, transport::Address::Hosts(hosts) if hosts.len() != 1)
        {
            return Err(Error::invalid_argument(format!(
                "{location} names several hosts to listen at"
            )));
        }
        Ok(Self {
            location,
            security: options.into(),
            listen: options.listen,
            timing: options.into(),
            timeout: options.connect_timeout,
        })
    }

    /// The connections that rows come over. Cancel safe.
    ///
    /// # Errors
    /// Those of [`transport::connect`]; where it listens `unavailable` for a place that is taken, and `deadline_exceeded`
    /// where the option `connect_timeout` is set and nobody comes for so long.
    pub(super) async fn readers(&self) -> Result<Vec<ByteStream>> {
        match self.listen {
            Some(count) => self.accept(count).await,
            None => Ok(vec![self.connect().await?]),
        }
    }

    /// The connections that rows are sent over: so many, unless it listens. Cancel safe.
    ///
    /// # Errors
    /// As [`Connections::readers`].
    pub(super) async fn writers(&self, count: u32) -> Result<Vec<ByteStream>> {
        if let Some(count) = self.listen {
            return self.accept(count).await;
        }
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(self.connect().await?);
        }
        Ok(streams)
    }

    async fn connect(&self) -> Result<ByteStream> {
        transport::connect(&self.location, &self.security, self.timing).await
    }

    async fn accept(&self, count: u32) -> Result<Vec<ByteStream>> {
        let tls = match (&self.security.cert, &self.security.key) {
            (Some(cert), Some(key)) => Some(Arc::new(TlsServer::try_new(TlsFiles {
                cert: cert.clone(),
                key: key.clone(),
                client_ca: self.security.ca.clone(),
            })?)),
            _ => None,
        };
        let listener = Listener::bind(&self.location, self.security.mode, tls.as_ref()).await?;
        let listener = listener.with_keepalive(self.timing.keepalive);
        tracing::info!(at = %listener.location(), count, "waiting for connections");
        let mut streams = Vec::new();
        while streams.len() < count as usize {
            let next = next_of(&listener);
            let next = match self.timeout {
                None => next.await,
                Some(timeout) => tokio::time::timeout(timeout, next).await.unwrap_or_else(|_| {
                    Err(Error::deadline_exceeded(format!(
                        "{} of {count} peers had connected when nobody came for {timeout:?} (option connect_timeout)",
                        streams.len()
                    )))
                }),
            };
            streams.push(next?);
        }
        Ok(streams)
    }
}

async fn next_of(listener: &Listener) -> Result<ByteStream> {
    match listener.accept().await?.open().await? {
        Opened::Ready(stream) => Ok(stream),
        Opened::NotSecure(stream) => Err(Error::unavailable(format!(
            "{} speaks no TLS, which is wanted here",
            stream.peer
        ))
        .with_retryable(false)),
    }
}
