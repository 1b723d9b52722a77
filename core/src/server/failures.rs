//! Slows down those that show wrong credentials again and again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pause after a first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// After so long without a failure all is forgotten.
const MEMORY: Duration = Duration::from_secs(60);

/// Hosts that are remembered; the rest are all taken for one.
const MOST_HOSTS: usize = 10_000;

#[derive(Default)]
pub(super) struct Failures(Mutex<HashMap<String, (u32, Instant)>>);

impl Failures {
    /// Counts a failure of a peer, and says for how long its answer is to be held back.
    pub(super) fn pause_after(&self, peer: &str) -> Duration {
        let now = Instant::now();
        // The map is sound after every statement, so a panic elsewhere does not spoil it.
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MOST_HOSTS {
            hosts.retain(|_, (_, last)| now.duration_since(*last) < MEMORY);
        }
        let host = if hosts.len() < MOST_HOSTS || hosts.contains_key(host(peer)) {
            host(peer)
        } else {
            ""
        };
        let (count, last) = hosts.entry(host.to_owned()).or_insert((0, now));
        if now.duration_since(*last) >= MEMORY {
            *count = 0;
        }
        *last = now;
        let pause = FIRST_PAUSE.saturating_mul(1 << (*count).min(16));
        *count = count.saturating_add(1);
        pause.min(LONGEST_PAUSE)
    }
}

/// A peer without its port.
fn host(peer: &str) -> &str {
    peer.rsplit_once(':').map_or(peer, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_for_each_host_alone_and_has_an_end() {
        let failures = Failures::default();
        let pauses: Vec<_> = (1000..1020)
            .map(|port| failures.pause_after(&format!("10.0.0.1:{port}")))
            .collect();
        assert_eq!(pauses[..3], [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4]);
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE));
        assert_eq!(failures.pause_after("[::1]:5"), FIRST_PAUSE);
    }
}
