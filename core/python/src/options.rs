//! Options as Python gives them: names with text, numbers, truth values or time spans, to what the core reads.

use std::collections::BTreeMap;
use std::time::Duration;

use lightstream_core::transport::Location;
use lightstream_core::{Options, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::arguments;

/// Options by name, as the core reads them.
pub(crate) type OptionMap = BTreeMap<String, String>;

/// Options that are never written down, as in a pickled partition: who needs them takes them from its own environment.
const SECRETS: &[&str] = &["token", "password", "username"];

/// Options whose numbers are seconds.
const SECONDS: &[&str] = &[
    "connect_timeout",
    "read_timeout",
    "timeout",
    "retry_backoff",
];

fn seconds(name: &str, seconds: f64) -> PyResult<String> {
    let duration = Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyTypeError::new_err(format!("option {name:?}: {error}")))?;
    // A digit below the finest unit would be lost.
    Ok(format!(
        "{}.{:09}s",
        duration.as_secs(),
        duration.subsec_nanos()
    ))
}

fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(value.to_string());
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().to_string());
    }
    let is_number = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    if is_number && SECONDS.contains(&name) {
        return seconds(name, value.extract()?);
    }
    if is_number {
        return Ok(value.str()?.to_string());
    }
    if let Ok(total) = value.call_method0("total_seconds") {
        return seconds(name, total.extract()?);
    }
    Err(PyTypeError::new_err(format!(
        "option {name:?} takes text, a number, True, False or a timedelta, not {}",
        value.get_type().name()?
    )))
}

/// Options from keywords, and below them those of a mapping. None stands for an option that is not set.
///
/// # Errors
/// `TypeError` for what is no mapping, and for values of other types. Names and values are checked by [`parse`].
pub(crate) fn collect(
    storage_options: Option<&Bound<'_, PyAny>>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<OptionMap> {
    let mut options = OptionMap::new();
    if let Some(mapping) = storage_options {
        for item in arguments::items("storage_options", mapping)? {
            let (name, value) = arguments::named("storage_options", &item?)?;
            if !value.is_none() {
                options.insert(name.clone(), text(&name, &value)?);
            }
        }
    }
    for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
        let name: String = name.extract()?;
        if !value.is_none() {
            options.insert(name.clone(), text(&name, &value)?);
        }
    }
    Ok(options)
}

/// The options as the core has them.
///
/// # Errors
/// `invalid_argument` for a name that is no option or a value that it does not take.
pub(crate) fn parse(options: &OptionMap) -> Result<Options> {
    Options::from_map(options)
}

/// These options, and below them those in a URL's query, but no secrets.
///
/// # Errors
/// `invalid_argument` for a URL that cannot be understood.
pub(crate) fn portable(url: &str, options: &OptionMap) -> Result<OptionMap> {
    let mut all: OptionMap = Location::parse(url)?.options.into_iter().collect();
    all.extend(options.clone());
    all.retain(|name, _| !SECRETS.contains(&name.as_str()) && !name.starts_with("header."));
    Ok(all)
}
