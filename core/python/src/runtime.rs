//! The one tokio runtime of this process, and waiting in it: without Python's lock, and so that Ctrl-C is heard.
//!
//! Nothing here outlives a fork: threads do not, so what was made before one is refused and never dropped after it.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use lightstream_core::{Error, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use tokio::runtime::Runtime;

use crate::errors::to_python;
use crate::exit;

/// Signals are looked for this often while something is awaited.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Threads that drive connections. Rows are decoded in the threads that want them.
const WORKERS: usize = 2;

/// Threads that wait for Python end after so long without work.
const IDLE_THREAD: Duration = Duration::from_secs(1);

struct Process {
    id: u32,
    runtime: Runtime,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

fn forked() -> Error {
    Error::unimplemented(
        "this process was forked from one that used lightstream_core, and threads do not outlive a fork: start \
         processes with the methods \"spawn\" or \"forkserver\" instead",
    )
}

/// The runtime, made when it is first wanted.
///
/// # Errors
/// `unimplemented` in a process that was forked after the runtime was made.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    let process = match PROCESS.get() {
        Some(process) => process,
        None => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .thread_keep_alive(IDLE_THREAD)
                .thread_name("lightstream")
                .enable_all()
                .build()
                .map_err(|error| {
                    Error::resource_exhausted("no threads could be started").with_source(error)
                })?;
            let id = std::process::id();
            PROCESS.get_or_init(|| Process { id, runtime })
        }
    };
    if process.id == std::process::id() {
        Ok(&process.runtime)
    } else {
        Err(forked())
    }
}

/// Whether this process was forked after the runtime was made.
pub(crate) fn is_forked() -> bool {
    PROCESS
        .get()
        .is_some_and(|process| process.id != std::process::id())
}

/// A value that belongs to the process that made it.
#[derive(Debug)]
pub(crate) struct Owned<T>(ManuallyDrop<T>);

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// The value.
    ///
    /// # Errors
    /// `unimplemented` in a process that was forked since.
    pub(crate) fn get(&self) -> Result<&T> {
        if is_forked() {
            Err(forked())
        } else {
            Ok(&self.0)
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // Sockets and their registrations are shared with the parent, and locks may be held by threads that are gone.
        if is_forked() {
            return;
        }
        // What is dropped may want to cancel something in the runtime.
        let _entered = runtime().ok().map(Runtime::enter);
        // SAFETY: the value is not used again, as this is its owner's end.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// Whether this thread has run Python code, so that signals may be for it.
fn is_python_thread() -> bool {
    // SAFETY: may be called from any thread, attached to the interpreter or not.
    unsafe { !pyo3::ffi::PyGILState_GetThisThreadState().is_null() }
}

/// Why waiting ended without what was awaited.
enum Interruption {
    Raised(PyErr),
    Ending,
}

/// Waits in this thread, without Python's lock. Errors that come as the interpreter ends are not brought back to it.
fn wait_detached<T: Send>(
    py: Python<'_>,
    runtime: &Runtime,
    future: impl Future<Output = Result<T>> + Send,
) -> Result<Result<T>, Interruption> {
    py.detach(|| {
        let done = runtime.block_on(interruptible(future, true));
        if !matches!(done, Ok(Ok(_))) {
            exit::stay_where_ending();
        }
        done
    })
}

async fn interruptible<T>(
    future: impl Future<Output = T>,
    with_signals: bool,
) -> Result<T, Interruption> {
    let mut future = pin!(future);
    loop {
        tokio::select! {
            biased;
            done = &mut future => return Ok(done),
            () = tokio::time::sleep(SIGNAL_INTERVAL) => {
                if exit::is_ending() {
                    return Err(Interruption::Ending);
                }
                if with_signals {
                    match Python::try_attach(|py| py.check_signals()) {
                        None => return Err(Interruption::Ending),
                        Some(checked) => checked.map_err(Interruption::Raised)?,
                    }
                }
            }
        }
    }
}

fn ending() -> Error {
    Error::cancelled("the interpreter is ending")
}

/// Waits for something without Python's lock. Signals are answered within 100 ms; what they raise ends the waiting,
/// and what was awaited is dropped.
///
/// # Errors
/// Those of what is awaited, and what a signal raises.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = Result<T>> + Send,
) -> PyResult<T> {
    let runtime = runtime().map_err(|error| to_python(py, &error))?;
    match wait_detached(py, runtime, future) {
        Ok(done) => done.map_err(|error| to_python(py, &error)),
        Err(Interruption::Raised(raised)) => Err(raised),
        Err(Interruption::Ending) => Err(to_python(py, &ending())),
    }
}

/// Waits where Python may not even be known, as in the callbacks of Arrow's C interface: in a thread that holds
/// Python's lock it is given up for the time. An interrupt comes back to Python soon after.
///
/// # Errors
/// Those of what is awaited, and `cancelled` after a signal.
pub(crate) fn wait_anywhere<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let runtime = runtime()?;
    let done = if is_python_thread() {
        Python::try_attach(|py| wait_detached(py, runtime, future))
            .unwrap_or(Err(Interruption::Ending))
    } else {
        // Python's lock is left alone: who holds it may be waiting for this very thread.
        runtime.block_on(interruptible(future, false))
    };
    match done {
        Ok(done) => done,
        Err(Interruption::Ending) => Err(ending()),
        Err(Interruption::Raised(raised)) => Err(interrupted(runtime, &raised)),
    }
}

/// The error for code that knows no exceptions. It hides what was raised, so an interrupt is made again a little later:
/// at once it would hit Python while it prints this error.
fn interrupted(runtime: &Runtime, raised: &PyErr) -> Error {
    let is_interrupt =
        Python::try_attach(|py| raised.is_instance_of::<PyKeyboardInterrupt>(py)).unwrap_or(false);
    if is_interrupt {
        runtime.spawn(async {
            tokio::time::sleep(SIGNAL_INTERVAL).await;
            if !exit::is_ending() {
                // The signal itself, so that a system call that waits hears it too.
                // SAFETY: no memory is involved; the process is this one.
                unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
            }
        });
    }
    Error::cancelled(format!("a signal ended the read: {raised}"))
}
