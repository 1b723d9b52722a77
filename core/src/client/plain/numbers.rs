//! The numbers that batches of several streams have: each one once, from 0 on, without a gap.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::protocol::ipc::SEQUENCE_KEY;

/// The numbers that have come, in whatever order.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Every number below has come.
    next: u64,
    /// What has come beyond.
    beyond: BTreeSet<u64>,
    numbering: Numbering,
}

impl Numbers {
    /// Notes what has come.
    ///
    /// # Errors
    /// `data_loss` for a number that has come before, and where only some batches have one.
    pub(super) fn add(&mut self, number: Option<u64>) -> Result<()> {
        self.numbering.add(number)?;
        let Some(number) = number else {
            return Ok(());
        };
        if number < self.next || !self.beyond.insert(number) {
            return Err(repeated(number));
        }
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        Ok(())
    }

    /// Checks, once all streams have ended, that nothing is missing.
    ///
    /// # Errors
    /// `data_loss` for a gap.
    pub(super) fn check_end(&self) -> Result<()> {
        if self.beyond.is_empty() {
            Ok(())
        } else {
            Err(missing(self.next))
        }
    }
}

/// Whether batches have numbers: all have, or none.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    is_numbered: Option<bool>,
}

impl Numbering {
    /// Notes whether a batch has a number.
    ///
    /// # Errors
    /// `data_loss` where it is with others the other way.
    pub(super) fn add(&mut self, number: Option<u64>) -> Result<()> {
        if *self.is_numbered.get_or_insert(number.is_some()) == number.is_some() {
            return Ok(());
        }
        Err(Error::data_loss(format!(
            "some batches have a number ({SEQUENCE_KEY}) and others none"
        )))
    }
}

/// The number that should have come.
pub(super) fn missing(number: u64) -> Error {
    Error::data_loss(format!(
        "batch {number} ({SEQUENCE_KEY}) is missing: there are batches beyond it"
    ))
}

/// A number that should not have come.
pub(super) fn repeated(number: u64) -> Error {
    Error::data_loss(format!(
        "batch {number} ({SEQUENCE_KEY}) has come twice, or after one that follows it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(numbers: &[Option<u64>]) -> Result<()> {
        let mut seen = Numbers::default();
        for number in numbers {
            seen.add(*number)?;
        }
        seen.check_end()
    }

    #[test]
    fn each_number_comes_once_in_whatever_order() {
        end_of(&[]).unwrap();
        end_of(&[None, None]).unwrap();
        end_of(&[Some(2), Some(0), Some(1), Some(3)]).unwrap();
        for (numbers, why) in [
            (&[Some(0), Some(2)][..], "batch 1"),
            (&[Some(1)], "batch 0"),
            (&[Some(0), Some(0)], "twice"),
            (&[Some(2), Some(2)], "twice"),
            (&[Some(0), None], "others none"),
            (&[None, Some(0)], "others none"),
        ] {
            let error = end_of(numbers).unwrap_err();
            assert_eq!(error.code(), crate::ErrorCode::DataLoss);
            assert!(
                !error.is_retryable() && error.to_string().contains(why),
                "{error}"
            );
        }
    }
}
