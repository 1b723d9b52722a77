//! Credentials that Python gives out, and those that it checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lightstream_core::client::TokenProvider;
use lightstream_core::server::{Authenticator, Credentials, Identity};
use lightstream_core::{Error, Result, Secret};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::described;
use crate::exit;

/// A callable that returns options with a token, or the token alone.
pub(crate) struct Provider(Arc<Py<PyAny>>);

/// A callable that is given a token or None, and returns whose it is.
pub(crate) struct Checker(Arc<Py<PyAny>>);

/// A callable, or None.
///
/// # Errors
/// `TypeError` for what cannot be called.
fn callable(
    name: &str,
    value: Option<Py<PyAny>>,
    py: Python<'_>,
) -> PyResult<Option<Arc<Py<PyAny>>>> {
    match value {
        Some(value) if !value.bind(py).is_callable() => Err(PyTypeError::new_err(format!(
            "{name} must be a callable, not {}",
            value.bind(py).get_type().name()?
        ))),
        value => Ok(value.map(Arc::new)),
    }
}

impl Provider {
    pub(crate) fn of(value: Option<Py<PyAny>>, py: Python<'_>) -> PyResult<Option<Arc<Self>>> {
        let found = callable("credential_provider", value, py)?;
        Ok(found.map(|callable| Arc::new(Self(callable))))
    }
}

impl Checker {
    pub(crate) fn of(value: Option<Py<PyAny>>, py: Python<'_>) -> PyResult<Option<Self>> {
        Ok(callable("authenticator", value, py)?.map(Self))
    }
}

/// Runs something that enters Python in a thread that may wait for it.
async fn in_python<T: Send + 'static>(
    run: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static,
) -> Result<T> {
    let entered = exit::in_thread(move || {
        Python::try_attach(|py| {
            run(py).map_err(|raised| Error::unauthenticated(described(py, &raised)))
        })
    });
    let ending = || Error::cancelled("the interpreter that knows the credentials is ending");
    entered.await?.ok_or_else(ending)?
}

fn token_of(given: &Bound<'_, PyAny>) -> PyResult<Secret> {
    let text = |token: String| match token.as_str() {
        "" => Err(PyValueError::new_err("the token is empty")),
        token => Ok(Secret::new(token)),
    };
    if let Ok(token) = given.cast::<PyString>() {
        return text(token.to_string());
    }
    let options: BTreeMap<String, String> = given.extract().map_err(|_| {
        PyTypeError::new_err("a credential provider returns a token, or a mapping that holds one")
    })?;
    match <[(String, String); 1]>::try_from(options.into_iter().collect::<Vec<_>>()) {
        Ok([(name, token)]) if name == "token" => text(token),
        _ => Err(PyValueError::new_err(
            "a credential provider returns a mapping that holds \"token\" and nothing else",
        )),
    }
}

impl TokenProvider for Provider {
    fn token(&self) -> BoxFuture<'_, Result<Secret>> {
        let callable = Arc::clone(&self.0);
        in_python(move |py| token_of(&callable.bind(py).call0()?))
            .map(|token| token.map_err(|error| error.context("the credential provider failed")))
            .boxed()
    }
}

impl Authenticator for Checker {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials) -> BoxFuture<'a, Result<Identity>> {
        let callable = Arc::clone(&self.0);
        let token = credentials.token.clone();
        in_python(move |py| {
            let token = token.as_ref().map(Secret::expose);
            let subject: String = callable.bind(py).call1((token,))?.extract()?;
            Ok(Identity {
                subject,
                ..Identity::default()
            })
        })
        .boxed()
    }
}
