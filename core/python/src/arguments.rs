//! What callers of Python give, and errors that name the parameter.

use lightstream_core::Error;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyIterator};

use crate::errors::to_python;

fn kind(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.get_type().name()?.to_string())
}

/// An error of a parameter's value.
pub(crate) fn refused(py: Python<'_>, why: impl Into<String>) -> PyErr {
    to_python(py, &Error::invalid_argument(why))
}

/// A whole number of at least so many, or None.
///
/// # Errors
/// `TypeError` for what is no whole number, `invalid_argument` for one that is too small or too large.
pub(crate) fn number(
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
    least: u64,
) -> PyResult<Option<u64>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let py = value.py();
    let mistyped = || -> PyResult<PyErr> {
        Ok(PyTypeError::new_err(format!(
            "{name} is a whole number, not {}",
            kind(value)?
        )))
    };
    if value.is_instance_of::<PyBool>() {
        return Err(mistyped()?);
    }
    let out_of_range = || -> PyResult<PyErr> {
        Ok(refused(
            py,
            format!("{name} is {least} or more, not {}", value.str()?),
        ))
    };
    match value.extract::<u64>() {
        Ok(number) if number >= least => Ok(Some(number)),
        Ok(_) => Err(out_of_range()?),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => Err(out_of_range()?),
        Err(_) => Err(mistyped()?),
    }
}

/// The same for what is counted in narrower numbers.
///
/// # Errors
/// As [`number`].
pub(crate) fn narrow<T: TryFrom<u64>>(
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
    least: u64,
) -> PyResult<Option<T>> {
    let Some(number) = number(name, value, least)? else {
        return Ok(None);
    };
    let too_large = || match value {
        Some(value) => refused(value.py(), format!("{name} is too large: {number}")),
        None => PyTypeError::new_err(format!("{name} is too large: {number}")),
    };
    T::try_from(number).map(Some).map_err(|_| too_large())
}

/// The names and values of a mapping.
///
/// # Errors
/// `TypeError` for what is no mapping.
pub(crate) fn items<'py>(
    name: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyIterator>> {
    if !value.hasattr("items")? || !value.hasattr("__getitem__")? {
        return Err(PyTypeError::new_err(format!(
            "{name} is a mapping by name, not {}",
            kind(value)?
        )));
    }
    value.call_method0("items")?.try_iter()
}

/// An item of a mapping.
///
/// # Errors
/// `TypeError` for one whose name is no text.
pub(crate) fn named<'py>(
    name: &str,
    item: &Bound<'py, PyAny>,
) -> PyResult<(String, Bound<'py, PyAny>)> {
    let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
    let text = key.extract::<String>().map_err(|_| {
        let kind = kind(&key).unwrap_or_default();
        PyTypeError::new_err(format!("the names in {name} are text, not {kind}"))
    })?;
    Ok((text, value))
}
