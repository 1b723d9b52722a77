//! Core errors as DataFusion errors, and back.
//!
//! Adds table and peer where they are missing; never rewrites what went wrong.

use std::error::Error as StdError;

use datafusion::error::DataFusionError;
use lightstream_core::{Client, Error};

/// The error as DataFusion carries it. [`lightstream_error`] finds it again.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error as DataFusion carries it, naming the table and the server where the core did not.
pub(crate) fn of_table(client: &Client, table: &str, error: Error) -> DataFusionError {
    external(
        error
            .with_table(table)
            .with_peer(client.location().to_string()),
    )
}

/// The core's error behind a DataFusion error, however deep it lies; `None` where the failure came from elsewhere.
///
/// It says what kind of failure it was and whether trying again can help:
///
/// ```
/// # use datafusion::error::DataFusionError;
/// # use lightstream_core::{Error, ErrorCode};
/// # use lightstream_datafusion::lightstream_error;
/// # let failure = DataFusionError::External(Box::new(Error::unavailable("no answer"))).context("scan");
/// let error = lightstream_error(&failure).expect("it came from Lightstream");
/// assert_eq!(error.code(), ErrorCode::Unavailable);
/// assert!(error.is_retryable());
/// ```
pub fn lightstream_error(error: &DataFusionError) -> Option<&Error> {
    let mut cause: &(dyn StdError + 'static) = error;
    loop {
        if let Some(found) = cause.downcast_ref::<Error>() {
            return Some(found);
        }
        // A collection shows only its first error as its source, and that one may not be ours.
        if let Some(DataFusionError::Collection(errors)) = cause.downcast_ref::<DataFusionError>() {
            return errors.iter().find_map(lightstream_error);
        }
        cause = cause.source()?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_error_is_found_under_whatever_was_put_around_it() {
        let ours = || external(Error::expired("gone"));
        let wrapped = [
            ours(),
            ours().context("while planning"),
            DataFusionError::Shared(Arc::new(ours())),
            DataFusionError::Collection(vec![DataFusionError::Plan("other".into()), ours()]),
        ];
        for error in wrapped {
            assert_eq!(
                lightstream_error(&error).unwrap().code(),
                lightstream_core::ErrorCode::Expired,
                "{error:?}"
            );
        }
        assert!(lightstream_error(&DataFusionError::Plan("other".into())).is_none());
    }
}
