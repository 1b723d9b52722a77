//! Futures of the runtime as coroutines of asyncio.
//!
//! A coroutine that is cancelled drops its future. What came too late to be given is handed back, not lost; a loop that
//! has been closed since is no error.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use lightstream_core::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::task::AbortHandle;

use crate::errors::{IntoPython, to_python};
use crate::exit;
use crate::runtime::runtime;

type Begin = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What a coroutine calls once it runs: only then is anything sent.
#[pyclass(module = "lightstream_core._native", frozen)]
struct Start(Mutex<Option<Begin>>);

#[pymethods]
impl Start {
    fn __call__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let begin = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begin =
            begin.ok_or_else(|| PyRuntimeError::new_err("the coroutine was awaited before"))?;
        begin(py)
    }
}

/// Gives the outcome to whoever awaits it, or takes it back where nobody does.
type Finish = Box<dyn FnOnce(Option<Python<'_>>) -> Option<PyResult<Py<PyAny>>> + Send>;

/// Called in the thread of the loop.
#[pyclass(module = "lightstream_core._native", frozen)]
struct Completion {
    awaited: Py<PyAny>,
    finish: Mutex<Option<Finish>>,
}

impl Completion {
    fn take(&self) -> Option<Finish> {
        self.finish
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

#[pymethods]
impl Completion {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let Some(finish) = self.take() else {
            return Ok(());
        };
        let awaited = self.awaited.bind(py);
        if awaited.call_method0("done")?.is_truthy()? {
            finish(None);
            return Ok(());
        }
        match finish(Some(py)) {
            Some(Ok(value)) => awaited.call_method1("set_result", (value,))?,
            Some(Err(raised)) => awaited.call_method1("set_exception", (raised.value(py),))?,
            None => awaited.call_method0("cancel")?,
        };
        Ok(())
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        // The loop was closed before it came to this.
        if let Some(finish) = self.take() {
            finish(None);
        }
    }
}

/// Ends the work where the awaiting was cancelled.
#[pyclass(module = "lightstream_core._native", frozen)]
struct Cancel(AbortHandle);

#[pymethods]
impl Cancel {
    fn __call__(&self, awaited: &Bound<'_, PyAny>) -> PyResult<()> {
        if awaited.call_method0("cancelled")?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}

fn begin<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = Result<T>> + Send + 'static,
    give: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    take_back: impl FnOnce(T) + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let runtime = runtime().or_raise(py)?;
    let running = py.import("asyncio")?.call_method0("get_running_loop")?;
    let awaited = running.call_method0("create_future")?;
    let (in_loop, to_complete) = (running.unbind(), awaited.clone().unbind());
    let task = runtime.spawn(async move {
        let done = future.await;
        let finish: Finish = Box::new(move |py| match (py, done) {
            (Some(py), Ok(value)) => Some(give(py, value)),
            (Some(py), Err(error)) => Some(Err(to_python(py, &error))),
            (None, Ok(value)) => {
                take_back(value);
                None
            }
            (None, Err(_)) => None,
        });
        // Python's lock may be a while in coming: not in a thread that drives connections.
        tokio::task::spawn_blocking(move || {
            let mut held = Some((in_loop, to_complete, finish));
            let entered = exit::inside(|| {
                Python::try_attach(|py| {
                    if let Some((in_loop, awaited, finish)) = held.take() {
                        complete(py, &in_loop, awaited, finish);
                    }
                })
            });
            if entered.flatten().is_none() {
                std::mem::forget(held);
            }
        });
    });
    awaited.call_method1("add_done_callback", (Cancel(task.abort_handle()),))?;
    Ok(awaited.unbind())
}

fn complete(py: Python<'_>, in_loop: &Py<PyAny>, awaited: Py<PyAny>, finish: Finish) {
    let completion = Completion {
        awaited,
        finish: Mutex::new(Some(finish)),
    };
    // A loop that is closed refuses; dropping the completion takes the outcome back.
    if let Ok(completion) = Py::new(py, completion) {
        let _ = in_loop.call_method1(py, "call_soon_threadsafe", (completion,));
    }
}

/// A coroutine that awaits a future. Nothing is begun before it runs. What it gives is made with Python's lock;
/// `take_back` gets a value that came when nobody awaited it any more.
///
/// # Errors
/// Only those of Python itself.
pub(crate) fn coroutine<'py, T: Send + 'static>(
    py: Python<'py>,
    future: impl Future<Output = Result<T>> + Send + 'static,
    give: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    take_back: impl FnOnce(T) + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    static RUN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let run = RUN.get_or_try_init(py, || -> PyResult<_> {
        Ok(py
            .import("lightstream_core._coroutine")?
            .getattr("run")?
            .unbind())
    })?;
    let start: Begin = Box::new(move |py| begin(py, future, give, take_back));
    run.bind(py).call1((Start(Mutex::new(Some(start))),))
}

/// A coroutine whose value is made an object of Python.
///
/// # Errors
/// As [`coroutine`].
pub(crate) fn simple<'py, T, F>(py: Python<'py>, future: F) -> PyResult<Bound<'py, PyAny>>
where
    F: Future<Output = Result<T>> + Send + 'static,
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    let give = |py: Python<'_>, value: T| {
        use pyo3::IntoPyObjectExt;
        value.into_py_any(py)
    };
    coroutine(py, future, give, drop)
}
