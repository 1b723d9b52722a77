//! How requests ended, by what was asked for.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::ErrorCode;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Outcome {
    Finished,
    /// The client asked for it.
    Cancelled,
    /// The client went, or was given up.
    Abandoned,
    Failed(ErrorCode),
}

impl Outcome {
    /// The outcome in a word: an error by its code.
    pub(in crate::server) fn as_str(self) -> &'static str {
        match self {
            Outcome::Finished => "finished",
            Outcome::Cancelled => "cancelled",
            Outcome::Abandoned => "abandoned",
            Outcome::Failed(code) => code.as_str(),
        }
    }
}

/// How often something ended how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcomes {
    /// To the end.
    pub finished: u64,
    /// Because the client asked for it.
    pub cancelled: u64,
    /// Because the client went, or was given up.
    pub abandoned: u64,
    /// With an error, by its code. Codes that never occurred are left out.
    pub failed: Vec<(ErrorCode, u64)>,
}

impl Outcomes {
    /// With an error, whichever.
    pub fn failures(&self) -> u64 {
        self.failed.iter().map(|(_, count)| count).sum()
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Finished => &mut self.finished,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Abandoned => &mut self.abandoned,
            Outcome::Failed(code) => {
                match self.failed.iter_mut().find(|(known, _)| *known == code) {
                    Some((_, count)) => *count += 1,
                    None => self.failed.push((code, 1)),
                }
                return;
            }
        };
        *count += 1;
    }
}

/// Outcomes by a name, of which there are few.
#[derive(Debug, Default)]
pub(super) struct Requests(Mutex<BTreeMap<&'static str, Outcomes>>);

impl Requests {
    pub(super) fn count(&self, request: &'static str, outcome: Outcome) {
        // Plain numbers, sound after every statement.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.entry(request).or_default().count(outcome);
    }

    pub(super) fn snapshot(&self) -> Vec<(&'static str, Outcomes)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|(name, outcomes)| (*name, outcomes.clone()))
            .collect()
    }
}
