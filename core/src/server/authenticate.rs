//! Who a client is: asked when a connection opens, and held against each of its requests.

use std::time::SystemTime;

use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::secret::Secret;

/// What a client shows when it connects.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Its bearer token, where it has one.
    pub token: Option<Secret>,
}

/// Whom a server takes a client for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// A name that tells it from others. Tickets are good for the subject that they were given to, and no other.
    pub subject: String,
    /// From then on the client must show new credentials; `None` for never.
    pub expires: Option<SystemTime>,
}

impl Identity {
    /// Refuses requests of an identity that has ended.
    pub(super) fn check(&self, now: SystemTime) -> Result<()> {
        match self.expires {
            Some(expires) if expires <= now => Err(Error::unauthenticated(
                "the credentials shown on this connection have expired",
            )),
            _ => Ok(()),
        }
    }
}

/// Decides who may connect.
pub trait Authenticator: Send + Sync + 'static {
    /// Whose the credentials are.
    ///
    /// # Errors
    /// `unauthenticated` for credentials that are missing, wrong or expired; its text is shown to the client.
    fn authenticate<'a>(&'a self, credentials: &'a Credentials) -> BoxFuture<'a, Result<Identity>>;
}
