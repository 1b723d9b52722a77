//! Who a client is: asked when a connection opens, and held against each of its requests.

use std::time::SystemTime;

use futures::future::BoxFuture;

use super::grants::Grants;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// What a client shows when it connects.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Credentials {
    /// Its bearer token, or with a user name its password, where it has one.
    pub token: Option<Secret>,
    /// Its user name, where it has one.
    pub username: Option<String>,
    /// The subject of its certificate, as RFC 4514 writes it, where it has shown one that TLS has found to be good.
    pub certificate: Option<String>,
}

/// Whom a server takes a client for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// A name that tells it from others. Tickets are good for the subject that they were given to, and no other.
    pub subject: String,
    /// From then on the client must show new credentials; `None` for never.
    pub expires: Option<SystemTime>,
    /// What it may do; `None` for everything.
    pub grants: Option<Grants>,
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

    /// Whether it may see a table.
    pub(super) fn may_read(&self, table: &str) -> bool {
        let names = self.grants.as_ref().map(|grants| &grants.read);
        names.is_none_or(|names| names.contains(table))
    }

    /// Refuses to read a table that is not granted, whether there is one or not.
    pub(super) fn check_read(&self, table: &str) -> Result<()> {
        if self.may_read(table) {
            return Ok(());
        }
        Err(Error::permission_denied(format!(
            "{:?} may not read the table {table:?}",
            self.subject
        ))
        .with_table(table))
    }

    /// Whether it may read every table.
    pub(super) fn reads_all(&self) -> bool {
        self.grants
            .as_ref()
            .is_none_or(|grants| grants.read.are_all())
    }

    /// Refuses queries, which can read any table, to those that may not.
    pub(super) fn check_query(&self) -> Result<()> {
        if self.reads_all() {
            return Ok(());
        }
        Err(Error::permission_denied(format!(
            "{:?} may not query: that takes leave to read every table",
            self.subject
        )))
    }
}

/// Decides who may connect.
pub trait Authenticator: Send + Sync + 'static {
    /// Whose the credentials are.
    ///
    /// # Errors
    /// `unauthenticated` for credentials that are missing, wrong or expired; its text is shown to the client.
    fn authenticate<'a>(&'a self, credentials: &'a Credentials) -> BoxFuture<'a, Result<Identity>>;

    /// A number that changes when what was said of clients may no longer be so. Those that are connected are then
    /// looked at again with their next request. It is asked for each request, and must answer at once.
    fn version(&self) -> u64 {
        0
    }

    /// Takes up changes, where there is something to read again.
    ///
    /// # Errors
    /// Any; what was in force stays so.
    fn reload(&self) -> Result<()> {
        Ok(())
    }
}
