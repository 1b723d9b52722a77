//! DataFusion's errors as the core's: which code each is worth.
//!
//! Nothing is dropped: the error of DataFusion stays below as the source.

use std::any::Any;
use std::error::Error as StdError;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::object_store;
use lightstream_core::{Error, ErrorCode};
use parquet::errors::ParquetError;

/// The error of an attempt that failed within DataFusion.
pub(super) fn core_error(attempted: &str, error: DataFusionError) -> Error {
    let (code, retryable) = worth(&error);
    Error::new(code, format!("{attempted}: {}", error.strip_backtrace()))
        .with_retryable(retryable)
        .with_source(error)
}

/// The error of an attempt to read an object.
pub(super) fn store_error(attempted: &str, error: object_store::Error) -> Error {
    let (code, retryable) = store_worth(&error);
    Error::new(code, format!("{attempted}: {error}"))
        .with_retryable(retryable)
        .with_source(error)
}

/// The error of code that panicked on what it read.
pub(super) fn panic_error(attempted: &str, panic: &(dyn Any + Send)) -> Error {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    Error::data_loss(format!(
        "{attempted}: DataFusion panicked, as it may on damaged data: {said}"
    ))
}

fn worth(error: &DataFusionError) -> (ErrorCode, bool) {
    let mut below: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(cause) = below {
        if let Some(cause) = cause.downcast_ref::<Error>() {
            return (cause.code(), cause.is_retryable());
        }
        if let Some(cause) = cause.downcast_ref::<object_store::Error>() {
            return store_worth(cause);
        }
        below = cause.source();
    }
    let code = match error.find_root() {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_) => ErrorCode::InvalidArgument,
        DataFusionError::NotImplemented(_) => ErrorCode::Unimplemented,
        DataFusionError::ResourcesExhausted(_) => ErrorCode::ResourceExhausted,
        DataFusionError::ArrowError(error, _) => arrow_worth(error),
        DataFusionError::ParquetError(error) => parquet_worth(error),
        // A task that panicked was reading something that it could not bear.
        DataFusionError::ExecutionJoin(error) if error.is_panic() => ErrorCode::DataLoss,
        DataFusionError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ErrorCode::DataLoss
        }
        DataFusionError::IoError(_) => return (ErrorCode::Unavailable, true),
        _ => ErrorCode::Internal,
    };
    (code, false)
}

fn parquet_worth(error: &ParquetError) -> ErrorCode {
    match error {
        ParquetError::NYI(_) => ErrorCode::Unimplemented,
        _ => ErrorCode::DataLoss,
    }
}

fn arrow_worth(error: &ArrowError) -> ErrorCode {
    match error {
        ArrowError::NotYetImplemented(_) => ErrorCode::Unimplemented,
        ArrowError::MemoryError(_) => ErrorCode::ResourceExhausted,
        // What an expression of the caller did to the data.
        ArrowError::CastError(_)
        | ArrowError::ComputeError(_)
        | ArrowError::DivideByZero
        | ArrowError::ArithmeticOverflow(_) => ErrorCode::InvalidArgument,
        ArrowError::CsvError(_)
        | ArrowError::JsonError(_)
        | ArrowError::IpcError(_)
        | ArrowError::ParseError(_)
        | ArrowError::ParquetError(_)
        | ArrowError::IoError(..)
        | ArrowError::InvalidArgumentError(_) => ErrorCode::DataLoss,
        _ => ErrorCode::Internal,
    }
}

fn store_worth(error: &object_store::Error) -> (ErrorCode, bool) {
    match error {
        object_store::Error::NotFound { .. } => (ErrorCode::NotFound, false),
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => (ErrorCode::PermissionDenied, false),
        object_store::Error::InvalidPath { .. }
        | object_store::Error::UnknownConfigurationKey { .. } => {
            (ErrorCode::InvalidArgument, false)
        }
        object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => {
            (ErrorCode::Unimplemented, false)
        }
        object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => {
            (ErrorCode::Expired, false)
        }
        _ => (ErrorCode::Unavailable, true),
    }
}
