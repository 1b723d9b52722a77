//! The servers that partitions are read from: the one that the user named, and those that it names for the same rows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::credentials::Credentials;
use super::following::Following;
use super::pool::Pool;
use crate::options::Options;
use crate::protocol::plan::Partition;
use crate::transport::{Location, Security};

/// Of the places that a server names for a partition no more are looked at.
const MOST_LOCATIONS: usize = 16;

/// No more servers are known at a time, nor more places remembered that are not followed.
const MOST_SERVERS: usize = 256;

pub(super) struct Servers {
    home: Arc<Pool>,
    options: Arc<Options>,
    security: Security,
    credentials: Arc<Credentials>,
    others: Mutex<Others>,
}

#[derive(Default)]
struct Others {
    pools: HashMap<Location, Arc<Pool>>,
    /// Of which it was told that they are not followed.
    refused: HashSet<String>,
}

impl Servers {
    pub(super) fn new(
        home: Location,
        options: Arc<Options>,
        credentials: Credentials,
    ) -> Arc<Self> {
        let credentials = Arc::new(credentials);
        Arc::new(Self {
            home: Pool::new(home, &options, Arc::clone(&credentials)),
            security: options.as_ref().into(),
            credentials,
            options,
            others: Mutex::default(),
        })
    }

    /// The server that the user named.
    pub(super) fn home(&self) -> &Arc<Pool> {
        &self.home
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        // Sound after every statement, so a panic elsewhere does not spoil it.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers that have a partition, in the order in which its own server names them. The one that the user named is
    /// always among them.
    pub(super) fn of(&self, partition: &Partition) -> Vec<Arc<Pool>> {
        let mut pools: Vec<Arc<Pool>> = Vec::new();
        let named = partition.locations.iter().take(MOST_LOCATIONS);
        for pool in named.filter_map(|url| self.named(url)) {
            if !pools.iter().any(|known| Arc::ptr_eq(known, &pool)) {
                pools.push(pool);
            }
        }
        if !pools.iter().any(|pool| Arc::ptr_eq(pool, &self.home)) {
            pools.push(Arc::clone(&self.home));
        }
        pools
    }

    /// The server at a place that another server named, if it may be followed.
    fn named(&self, url: &str) -> Option<Arc<Pool>> {
        let following = Following {
            home: self.home.location(),
            security: &self.security,
            allowed: self.options.allowed_hosts.as_ref(),
        };
        let mut others = self.others();
        let location = match following.check(url) {
            Ok(location) => location,
            Err(error) => {
                if others.refused.len() < MOST_SERVERS && others.refused.insert(url.to_owned()) {
                    tracing::warn!(server = %self.home.location(), %error, "a place is left alone");
                }
                return None;
            }
        };
        if location == *self.home.location() {
            return Some(Arc::clone(&self.home));
        }
        if let Some(pool) = others.pools.get(&location) {
            return Some(Arc::clone(pool));
        }
        if others.pools.len() >= MOST_SERVERS {
            others.pools.clear();
        }
        let pool = Pool::new(
            location.clone(),
            &self.options,
            Arc::clone(&self.credentials),
        );
        others.pools.insert(location, Arc::clone(&pool));
        Some(pool)
    }
}
