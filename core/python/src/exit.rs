//! The end of the interpreter: from then on no thread of ours enters it, since it might never come back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use lightstream_core::{Error, Result};
use pyo3::prelude::*;

use crate::runtime::is_forked;

/// How long threads that are in the interpreter are waited for at its end.
const PATIENCE: Duration = Duration::from_millis(500);

const STEP: Duration = Duration::from_millis(2);

static ENDER: OnceLock<ThreadId> = OnceLock::new();
static IS_ENDING: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether the interpreter is about to end.
pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// Stays here for good where the interpreter is about to end, unless this is the thread that ends it. Threads that
/// outlive it must not come back to it, and whatever ended their work is nobody's concern any more.
pub(crate) fn stay_where_ending() {
    while is_ending() && ENDER.get() != Some(&std::thread::current().id()) {
        std::thread::park();
    }
}

/// Counts a thread among those that are in the interpreter.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs something that enters the interpreter, itself or through a callback, in a thread that Python does not know.
/// `None` where the interpreter is about to end: it is then not run.
pub(crate) fn inside<T>(run: impl FnOnce() -> T) -> Option<T> {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let _inside = Inside;
    if is_ending() { None } else { Some(run()) }
}

/// As [`inside`], in a thread of its own that may wait for Python: those that drive connections never do.
///
/// # Errors
/// `cancelled` where the interpreter is about to end, `internal` where the work panics.
pub(crate) async fn in_thread<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(move || inside(run))
        .await
        .map_err(|error| Error::internal("Python could not be called").with_source(error))?
        .ok_or_else(|| Error::cancelled("the interpreter that is asked is ending"))
}

/// Drops something whose end may enter the interpreter; leaves it be where the interpreter is about to end.
pub(crate) fn drop_inside<T>(value: T) {
    let mut value = Some(value);
    if inside(|| drop(value.take())).is_none() {
        std::mem::forget(value);
    }
}

/// Called once, by `atexit`, while Python is still whole.
#[pyfunction]
#[pyo3(name = "_end")]
pub(crate) fn end(py: Python<'_>) {
    if is_forked() {
        return;
    }
    let _ = ENDER.set(std::thread::current().id());
    IS_ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        crate::serve::stop_all();
        let start = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 && start.elapsed() < PATIENCE {
            std::thread::sleep(STEP);
        }
    });
}
