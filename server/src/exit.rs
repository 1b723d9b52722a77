//! How a command ends: what is printed of a failure, and which exit code it is worth.
//!
//! Prints no backtrace and no secret: messages come from errors, which hold none.

use std::error::Error as StdError;
use std::fmt::Display;

use lightstream_core::{Error, ErrorCode};

/// The exit codes, which scripts rely on.
pub mod code {
    /// Anything that has no code of its own.
    pub const FAILED: u8 = 1;
    /// Options, URLs, columns, SQL or paths that cannot be right.
    pub const USAGE: u8 = 2;
    /// A table, snapshot, path or file that is not there.
    pub const NOT_FOUND: u8 = 3;
    /// Credentials that are missing, wrong or not enough.
    pub const DENIED: u8 = 4;
    /// A server that does not answer.
    pub const UNREACHABLE: u8 = 5;
    /// Data that is damaged or incomplete.
    pub const DATA_LOSS: u8 = 6;
    /// Added to the number of the signal that ended a command.
    pub const SIGNAL: u8 = 128;
}

type Source = Box<dyn StdError + Send + Sync>;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    source: Option<Source>,
}

/// The result of a command, or of a part of one.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure without a code of its own.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(code::FAILED, message)
    }

    /// The command was not given what it needs.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(code::USAGE, message)
    }

    /// A signal ended the command. Nothing is printed: whoever sent it knows.
    pub fn interrupted(signal: u8) -> Self {
        Self::new(code::SIGNAL + signal, "")
    }

    fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            source: None,
        }
    }

    /// A local file could not be read or written.
    pub fn io(attempted: impl Display, error: std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => code::NOT_FOUND,
            _ => code::FAILED,
        };
        Self::new(code, format!("{attempted}: {error}"))
    }

    /// Keeps the cause below.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same failure with another code in place of `from`.
    #[must_use]
    pub fn recoded(mut self, from: &[u8], to: u8) -> Self {
        if from.contains(&self.code) {
            self.code = to;
        }
        self
    }

    /// Puts what was attempted in front of the message.
    #[must_use]
    pub fn context(mut self, attempted: impl Display) -> Self {
        self.message = format!("{attempted}: {}", self.message);
        self
    }

    /// The code that the process ends with.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The failure and its causes, a line each; empty where there is nothing to say.
    pub fn report(&self) -> String {
        if self.message.is_empty() {
            return String::new();
        }
        let mut said = format!("error: {}", self.message);
        let mut below: Option<&(dyn StdError + 'static)> =
            self.source.as_ref().map(|source| &**source as _);
        while let Some(cause) = below {
            let text = cause.to_string();
            // Many errors repeat their cause in their own text.
            if !text.is_empty() && !said.contains(&text) {
                said.push_str("\n  caused by: ");
                said.push_str(&text);
            }
            below = cause.source();
        }
        said
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.code() {
            ErrorCode::InvalidArgument => code::USAGE,
            ErrorCode::NotFound => code::NOT_FOUND,
            ErrorCode::Unauthenticated | ErrorCode::PermissionDenied => code::DENIED,
            ErrorCode::Unavailable => code::UNREACHABLE,
            // No connection or no sign of life in time, as opposed to the user's own time limit.
            ErrorCode::DeadlineExceeded if error.is_retryable() => code::UNREACHABLE,
            ErrorCode::DataLoss => code::DATA_LOSS,
            _ => code::FAILED,
        };
        Self::new(code, error.to_string()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        let code = |error: Error| Failure::from(error).code();
        for (kind, expected) in ErrorCode::ALL
            .into_iter()
            .zip([2, 3, 4, 4, 1, 1, 1, 5, 1, 1, 6, 1])
        {
            assert_eq!(code(Error::new(kind, "x")), expected, "{kind}");
        }
        assert_eq!(
            code(Error::deadline_exceeded("silent").with_retryable(true)),
            5
        );
    }

    #[test]
    fn causes_are_told_once() {
        let error = Error::data_loss("batch 3: bad offsets").with_source("bad offsets");
        let outer = Error::internal("reading t").with_source(error);
        let report = Failure::from(outer).report();
        assert_eq!(
            report,
            "error: internal: reading t\n  caused by: data_loss: batch 3: bad offsets"
        );
    }
}
