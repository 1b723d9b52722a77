//! Errors of the core as Python exceptions. The classes are Python's own, in `_errors.py`.

use std::error::Error as _;

use lightstream_core::{Error, ErrorCode};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

static RAISE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn make(py: Python<'_>, error: &Error, message: String) -> PyResult<PyErr> {
    let detail = error.detail();
    let make = RAISE.get_or_try_init(py, || -> PyResult<_> {
        let module = py.import("lightstream_core._errors")?;
        Ok(module.getattr("_make")?.unbind())
    })?;
    let place = PyDict::new(py);
    place.set_item("retryable", detail.retryable)?;
    place.set_item("table", detail.table.as_deref())?;
    place.set_item("peer", detail.peer.as_deref())?;
    place.set_item("partition", detail.partition)?;
    place.set_item("unit", detail.unit)?;
    let made = make
        .bind(py)
        .call((error.code().as_str(), message), Some(&place))?;
    Ok(PyErr::from_value(made))
}

/// The exception for an error, with the words of its causes.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let words = source.to_string();
        if !message.contains(&words) {
            message.push_str(": ");
            message.push_str(&words);
        }
        cause = source.source();
    }
    make(py, error, message).unwrap_or_else(|failed| failed)
}

/// The core's errors where Python's are wanted.
pub(crate) trait IntoPython<T> {
    /// The value, or the exception for the error.
    ///
    /// # Errors
    /// The exception for the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPython<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}

/// An error of the core for what Python code raised: one of ours keeps its kind.
pub(crate) fn from_python(py: Python<'_>, raised: &PyErr) -> Error {
    let value = raised.value(py);
    let code = value
        .getattr("code")
        .and_then(|code| code.extract::<String>())
        .ok()
        .and_then(|code| {
            ErrorCode::ALL
                .into_iter()
                .find(|known| known.as_str() == code)
        })
        .filter(|_| is_ours(py, value));
    match code {
        Some(code) => Error::new(code, value.to_string()).with_retryable(false),
        None => Error::internal(described(py, raised)),
    }
}

/// Class and message of what Python code raised.
pub(crate) fn described(py: Python<'_>, raised: &PyErr) -> String {
    format!("{}: {}", name(&raised.get_type(py)), raised.value(py))
}

fn is_ours(py: Python<'_>, value: &Bound<'_, PyAny>) -> bool {
    let class = py
        .import("lightstream_core._errors")
        .and_then(|module| module.getattr("LightstreamError"));
    class.is_ok_and(|class| value.is_instance(&class).unwrap_or(false))
}

fn name(class: &Bound<'_, PyType>) -> String {
    class
        .name()
        .map_or_else(|_| "an exception".to_owned(), |name| name.to_string())
}
