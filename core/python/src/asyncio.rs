//! Futures of the runtime as coroutines of asyncio.
//!
//! A coroutine that is cancelled drops its future. What came too late to be given is handed back, not lost; a loop that
//! has been closed since is no error.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use lightstream_core::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::task::AbortHandle;

use crate::errors::{IntoPython, to_python};
use crate::exit;
use crate::runtime::runtime;

type Begin = Box<dyn FnOnce(Python<'_>) -> PyResult<Pending> + Send>;

/// Makes the outcome an object of Python, or takes it back where nobody wants it any more.
type Finish = Box<dyn FnOnce(Option<Python<'_>>) -> Option<PyResult<Py<PyAny>>> + Send>;

/// What a coroutine calls once it runs: only then is anything sent.
#[pyclass(module = "lightstream_core._native", frozen)]
struct Start(Mutex<Option<Begin>>);

#[pymethods]
impl Start {
    fn __call__(&self, py: Python<'_>) -> PyResult<Pending> {
        let begin = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begin =
            begin.ok_or_else(|| PyRuntimeError::new_err("the coroutine was awaited before"))?;
        begin(py)
    }
}

/// How far the outcome of a future is on its way.
enum State {
    Waiting,
    Ready(Finish),
    Taken,
    Left,
}

/// The outcome of a future, shared by the runtime, the loop and the coroutine.
#[derive(Clone)]
struct Outcome(Arc<Mutex<State>>);

impl Outcome {
    fn replace(&self, state: State) -> State {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, state)
    }

    /// The runtime has the outcome. Returns whether somebody waits for it.
    fn arrive(&self, finish: Finish) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*current, State::Waiting) {
            *current = State::Ready(finish);
            return true;
        }
        drop(current);
        finish(None);
        false
    }

    /// Nobody waits any more.
    fn leave(&self) {
        if let State::Ready(finish) = self.replace(State::Left) {
            finish(None);
        }
    }
}

/// What a coroutine awaits.
#[pyclass(module = "lightstream_core._native", frozen)]
struct Pending {
    awaited: Py<PyAny>,
    outcome: Outcome,
    work: AbortHandle,
}

#[pymethods]
impl Pending {
    #[getter]
    fn awaited(&self, py: Python<'_>) -> Py<PyAny> {
        self.awaited.clone_ref(py)
    }

    /// The outcome, once awaited.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let outcome = match self.outcome.replace(State::Taken) {
            State::Ready(finish) => finish(Some(py)),
            _ => None,
        };
        outcome.unwrap_or_else(|| Err(PyRuntimeError::new_err("the outcome is not there")))
    }

    /// Ends the work, or takes back its outcome.
    fn leave(&self) {
        self.work.abort();
        self.outcome.leave();
    }
}

/// Called in the thread of the loop. Where the loop is closed before it comes to this, nobody waits any more.
#[pyclass(module = "lightstream_core._native", frozen)]
struct Wake {
    awaited: Py<PyAny>,
    outcome: Mutex<Option<Outcome>>,
}

#[pymethods]
impl Wake {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *outcome = None;
        let awaited = self.awaited.bind(py);
        if !awaited.call_method0("done")?.is_truthy()? {
            awaited.call_method1("set_result", (py.None(),))?;
        }
        Ok(())
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = outcome.take() {
            outcome.leave();
        }
    }
}

fn wake(py: Python<'_>, in_loop: &Py<PyAny>, awaited: Py<PyAny>, outcome: Outcome) {
    let wake = Wake {
        awaited,
        outcome: Mutex::new(Some(outcome)),
    };
    // A loop that is closed refuses.
    if let Ok(wake) = Py::new(py, wake) {
        let _ = in_loop.call_method1(py, "call_soon_threadsafe", (wake,));
    }
}

fn begin<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = Result<T>> + Send + 'static,
    give: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    take_back: impl FnOnce(T) + Send + 'static,
) -> PyResult<Pending> {
    let runtime = runtime().or_raise(py)?;
    let running = py.import("asyncio")?.call_method0("get_running_loop")?;
    let awaited = running.call_method0("create_future")?.unbind();
    let outcome = Outcome(Arc::new(Mutex::new(State::Waiting)));
    let (in_loop, to_wake, arriving) = (running.unbind(), awaited.clone_ref(py), outcome.clone());
    let work = runtime.spawn(async move {
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
        if !arriving.arrive(finish) {
            return;
        }
        // Python's lock may be a while in coming: not in a thread that drives connections.
        tokio::task::spawn_blocking(move || {
            let mut held = Some((in_loop, to_wake, arriving));
            exit::inside(|| {
                Python::try_attach(|py| {
                    if let Some((in_loop, awaited, outcome)) = held.take() {
                        wake(py, &in_loop, awaited, outcome);
                    }
                })
            });
            // Not let go where Python is about to end.
            std::mem::forget(held);
        });
    });
    Ok(Pending {
        awaited,
        outcome,
        work: work.abort_handle(),
    })
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
        let module = py.import("lightstream_core._coroutine")?;
        Ok(module.getattr("run")?.unbind())
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
