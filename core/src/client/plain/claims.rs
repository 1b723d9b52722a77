//! Who reads the rows of a source, which are there once: the partitions of one plan, each once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::as_they_come::Lanes;
use crate::error::{Error, Result};
use crate::protocol::plan::Partition;

/// The partitions that have begun to be read.
#[derive(Default)]
struct Begun {
    /// The ticket that all of them have.
    ticket: Vec<u8>,
    indices: BTreeSet<usize>,
    /// How many are being read.
    readers: usize,
}

/// What has been read, or is being read, of a source.
#[derive(Default)]
pub(super) struct Claims(Mutex<Begun>);

impl Claims {
    /// Begins to read a partition of a plan of so many.
    ///
    /// # Errors
    /// `expired` where it, or another plan, has been read.
    pub(super) fn begin(
        self: &Arc<Self>,
        lanes: &Arc<Lanes>,
        partition: &Partition,
        partitions: usize,
    ) -> Result<Claim> {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.indices.is_empty() {
            begun.ticket.clone_from(&partition.ticket);
        }
        if begun.ticket != partition.ticket || !begun.indices.insert(partition.index) {
            return Err(Error::expired(
                "a plain stream gives its rows once, and a scan has taken them: connect again for what the writer sends then",
            ));
        }
        begun.readers += 1;
        Ok(Claim {
            claims: Arc::clone(self),
            lanes: Arc::clone(lanes),
            partitions,
        })
    }
}

/// A partition that is being read.
pub(super) struct Claim {
    claims: Arc<Claims>,
    lanes: Arc<Lanes>,
    partitions: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut begun = self.claims.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.readers -= 1;
        if begun.readers == 0 && begun.indices.len() == self.partitions {
            // Nobody will read on: the writer is not to wait for that.
            drop(self.lanes.take_all());
        }
    }
}
