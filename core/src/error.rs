//! The one error type of the core: what was attempted, where, why it failed and whether trying again can help.
//!
//! Secrets never stand in an error: nothing here prints options or tokens.

use std::fmt;
use std::time::Duration;

/// What kind of failure an [`Error`] is. The names are those that travel on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The request cannot be right, whatever the state of the server.
    InvalidArgument,
    /// The table, path or snapshot named does not exist.
    NotFound,
    /// No credentials, or ones that are not accepted.
    Unauthenticated,
    /// The credentials are good but do not grant this.
    PermissionDenied,
    /// Understood, but not built into this server, client or build.
    Unimplemented,
    /// A limit of the server or client is reached; later it may fit.
    ResourceExhausted,
    /// A ticket, plan or snapshot that is no longer held.
    Expired,
    /// The peer cannot be reached, or went away.
    Unavailable,
    /// A time limit passed.
    DeadlineExceeded,
    /// The caller gave up.
    Cancelled,
    /// Bytes are missing or wrong: a stream that ended early, or malformed data.
    DataLoss,
    /// A fault in the software itself.
    Internal,
}

impl ErrorCode {
    /// Every code, in wire order.
    pub const ALL: [ErrorCode; 12] = [
        ErrorCode::InvalidArgument,
        ErrorCode::NotFound,
        ErrorCode::Unauthenticated,
        ErrorCode::PermissionDenied,
        ErrorCode::Unimplemented,
        ErrorCode::ResourceExhausted,
        ErrorCode::Expired,
        ErrorCode::Unavailable,
        ErrorCode::DeadlineExceeded,
        ErrorCode::Cancelled,
        ErrorCode::DataLoss,
        ErrorCode::Internal,
    ];

    /// The name of the code as it stands on the wire and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InvalidArgument => "invalid_argument",
            ErrorCode::NotFound => "not_found",
            ErrorCode::Unauthenticated => "unauthenticated",
            ErrorCode::PermissionDenied => "permission_denied",
            ErrorCode::Unimplemented => "unimplemented",
            ErrorCode::ResourceExhausted => "resource_exhausted",
            ErrorCode::Expired => "expired",
            ErrorCode::Unavailable => "unavailable",
            ErrorCode::DeadlineExceeded => "deadline_exceeded",
            ErrorCode::Cancelled => "cancelled",
            ErrorCode::DataLoss => "data_loss",
            ErrorCode::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The underlying cause of an [`Error`].
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// What was done before an [`Error`] was given up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// How many attempts have failed since something last came of one.
    pub count: u32,
    /// Time from the start of the first of them to the end of the last.
    pub elapsed: Duration,
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.count == 1 {
            "attempt"
        } else {
            "attempts"
        };
        write!(f, "{} {noun} in {:.1?}", self.count, self.elapsed)
    }
}

/// What every kind of [`Error`] carries.
#[derive(Debug, Default)]
pub struct ErrorDetail {
    /// What was attempted and why it failed.
    pub message: String,
    /// The table concerned, where known.
    pub table: Option<String>,
    /// The index of the partition concerned, where known.
    pub partition: Option<u64>,
    /// The unit within the partition, where known.
    pub unit: Option<u64>,
    /// The peer, as a location without secrets, where known.
    pub peer: Option<String>,
    /// Whether the same request may succeed when made again.
    pub retryable: bool,
    /// How long to wait before that, where the peer has said.
    pub retry_after: Option<Duration>,
    /// How often it was tried and for how long, where it was tried again or could have been.
    pub attempts: Option<Attempts>,
    /// The cause below, where there is one.
    pub source: Option<Source>,
}

macro_rules! errors {
    ($($variant:ident, $make:ident, $retryable:literal, $doc:literal;)*) => {
        /// A failure of the core: one variant for each [`ErrorCode`], each carrying an [`ErrorDetail`].
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $(#[doc = $doc] $variant(Box<ErrorDetail>),)*
        }

        impl Error {
            $(
                #[doc = $doc]
                pub fn $make(message: impl Into<String>) -> Self {
                    Error::$variant(Box::new(ErrorDetail {
                        message: message.into(),
                        retryable: $retryable,
                        ..ErrorDetail::default()
                    }))
                }
            )*

            /// An error of the given code, as when it comes off the wire.
            pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
                match code {
                    $(ErrorCode::$variant => Self::$make(message),)*
                }
            }

            /// The kind of failure.
            pub fn code(&self) -> ErrorCode {
                match self {
                    $(Error::$variant(_) => ErrorCode::$variant,)*
                }
            }

            /// What is known of the failure.
            pub fn detail(&self) -> &ErrorDetail {
                match self {
                    $(Error::$variant(detail) => detail,)*
                }
            }

            fn detail_mut(&mut self) -> &mut ErrorDetail {
                match self {
                    $(Error::$variant(detail) => detail,)*
                }
            }
        }
    };
}

errors! {
    InvalidArgument, invalid_argument, false, "The request cannot be right, whatever the state of the server.";
    NotFound, not_found, false, "The table, path or snapshot named does not exist.";
    Unauthenticated, unauthenticated, false, "No credentials, or ones that are not accepted.";
    PermissionDenied, permission_denied, false, "The credentials are good but do not grant this.";
    Unimplemented, unimplemented, false, "Understood, but not built into this server, client or build.";
    ResourceExhausted, resource_exhausted, false, "A limit of the server or client is reached.";
    Expired, expired, false, "A ticket, plan or snapshot that is no longer held.";
    Unavailable, unavailable, true, "The peer cannot be reached, or went away.";
    DeadlineExceeded, deadline_exceeded, false, "A time limit passed.";
    Cancelled, cancelled, false, "The caller gave up.";
    DataLoss, data_loss, false, "Bytes are missing or wrong: a stream that ended early, or malformed data.";
    Internal, internal, false, "A fault in the software itself.";
}

impl Error {
    /// Whether the same request may succeed when made again, on this peer or another.
    pub fn is_retryable(&self) -> bool {
        self.detail().retryable
    }

    /// Says whether trying again can help.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.detail_mut().retryable = retryable;
        self
    }

    /// Says when trying again can help.
    #[must_use]
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.detail_mut().retry_after = Some(pause);
        self
    }

    /// Names the table, unless one is named already.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.detail_mut().table.get_or_insert_with(|| table.into());
        self
    }

    /// Names the partition, unless one is named already.
    #[must_use]
    pub fn with_partition(mut self, partition: u64) -> Self {
        self.detail_mut().partition.get_or_insert(partition);
        self
    }

    /// Names the unit within the partition, unless one is named already.
    #[must_use]
    pub fn with_unit(mut self, unit: u64) -> Self {
        self.detail_mut().unit.get_or_insert(unit);
        self
    }

    /// Names the peer, unless one is named already.
    #[must_use]
    pub fn with_peer(mut self, peer: impl Into<String>) -> Self {
        self.detail_mut().peer.get_or_insert_with(|| peer.into());
        self
    }

    /// Says how often it was tried; of several counts the last one stays.
    #[must_use]
    pub fn with_attempts(mut self, attempts: Attempts) -> Self {
        self.detail_mut().attempts = Some(attempts);
        self
    }

    /// Keeps the cause below.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.detail_mut().source = Some(source.into());
        self
    }

    /// Puts more words behind the message.
    #[must_use]
    pub(crate) fn followed_by(mut self, more: impl fmt::Display) -> Self {
        let detail = self.detail_mut();
        detail.message = format!("{}; {more}", detail.message);
        self
    }

    /// Puts what was attempted in front of the message.
    #[must_use]
    pub fn context(mut self, attempted: impl fmt::Display) -> Self {
        let detail = self.detail_mut();
        detail.message = format!("{attempted}: {}", detail.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.detail();
        write!(f, "{}: {}", self.code(), detail.message)?;
        let mut place = Vec::new();
        if let Some(table) = &detail.table {
            place.push(format!("table {table:?}"));
        }
        if let Some(partition) = detail.partition {
            place.push(format!("partition {partition}"));
        }
        if let Some(unit) = detail.unit {
            place.push(format!("unit {unit}"));
        }
        if let Some(peer) = &detail.peer {
            place.push(format!("peer {peer}"));
        }
        if let Some(attempts) = detail.attempts {
            place.push(attempts.to_string());
        }
        if !place.is_empty() {
            write!(f, " ({})", place.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.detail().source.as_ref().map(|source| &**source as _)
    }
}

/// The result of everything in the core that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_makes_an_error_of_its_own_kind() {
        for code in ErrorCode::ALL {
            assert_eq!(Error::new(code, "x").code(), code);
        }
    }

    #[test]
    fn the_first_place_named_stays() {
        let error = Error::data_loss("the stream ended early")
            .with_table("flights")
            .with_table("other")
            .with_partition(3)
            .with_peer("lightstream://127.0.0.1:7654");
        assert_eq!(
            error.to_string(),
            "data_loss: the stream ended early (table \"flights\", partition 3, peer lightstream://127.0.0.1:7654)"
        );
    }
}
