//! The token that a client shows to its server, and where the next one comes from once it is refused.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::secret::Secret;

/// Gives out tokens, such as one that calls an identity service.
///
/// It is asked once when a token is first needed, and again whenever a server has refused the last one. Several scans
/// that are refused at the same time ask once. It has as long as a connection may take (option `connect_timeout`); then its
/// future is dropped, and the request fails with `deadline_exceeded`.
pub trait TokenProvider: Send + Sync + 'static {
    /// A token that is good now.
    ///
    /// # Errors
    /// Any; the request that needed the token fails with it.
    fn token(&self) -> BoxFuture<'_, Result<Secret>>;
}

/// Reads a token from a file, without the line break at its end.
struct TokenFile(String);

impl TokenProvider for TokenFile {
    fn token(&self) -> BoxFuture<'_, Result<Secret>> {
        async move {
            let unreadable = |why: String| {
                Error::unauthenticated(format!(
                    "the token in {:?} (option token_file) {why}",
                    self.0
                ))
            };
            let path = self.0.clone();
            let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path))
                .await
                .map_err(|error| unreadable(format!("was not read: {error}")))?
                .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
            match text.trim() {
                "" => Err(unreadable("is empty".to_owned())),
                token => Ok(Secret::new(token)),
            }
        }
        .boxed()
    }
}

/// A token, and which one it is in the row of those that were given out.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    pub(super) token: Option<Secret>,
    number: u64,
}

/// The token in use, shared by all connections to a server.
pub(super) struct Credentials {
    provider: Option<Arc<dyn TokenProvider>>,
    issued: tokio::sync::Mutex<Option<Issued>>,
}

impl Credentials {
    /// A provider goes before the options, and `token` before `token_file`.
    pub(super) fn new(provider: Option<Arc<dyn TokenProvider>>, options: &Options) -> Self {
        let from_file = || {
            let path = options
                .token_file
                .clone()
                .filter(|_| options.token.is_none())?;
            Some(Arc::new(TokenFile(path)) as Arc<dyn TokenProvider>)
        };
        let provider = provider.or_else(from_file);
        let fixed = provider.is_none().then(|| Issued {
            token: options.password.clone().or(options.token.clone()),
            number: 0,
        });
        Self {
            provider,
            issued: tokio::sync::Mutex::new(fixed),
        }
    }

    /// The token to show.
    pub(super) async fn current(&self) -> Result<Issued> {
        let mut issued = self.issued.lock().await;
        if let Some(issued) = &*issued {
            return Ok(issued.clone());
        }
        let next = self.next(0).await?;
        Ok(issued.insert(next).clone())
    }

    async fn next(&self, number: u64) -> Result<Issued> {
        let token = match &self.provider {
            Some(provider) => Some(provider.token().await?),
            None => None,
        };
        Ok(Issued { token, number })
    }

    /// After a token was refused: whether there is another to try.
    pub(super) async fn renew(&self, refused: &Issued) -> Result<bool> {
        if self.provider.is_none() {
            return Ok(false);
        }
        let mut issued = self.issued.lock().await;
        let is_newer = issued
            .as_ref()
            .is_some_and(|issued| issued.number > refused.number);
        if is_newer {
            return Ok(true);
        }
        let next = self.next(refused.number + 1).await?;
        let is_another = next.token != refused.token;
        *issued = Some(next);
        Ok(is_another)
    }
}
