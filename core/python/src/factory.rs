//! Tables that a Python callable makes anew for each scan.
//!
//! Python is entered in threads of its own and only while rows are pulled: no thread that drives connections ever waits
//! for its lock.

use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use futures::StreamExt;
use lightstream_core::server::{RowSource, RowStream};
use lightstream_core::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tokio::sync::Semaphore;

use crate::errors::from_python;
use crate::exit;
use crate::incoming::{Fault, Incoming};

/// A callable that returns an Arrow stream or array.
pub(crate) struct Factory(Arc<Py<PyAny>>);

impl Factory {
    pub(crate) fn new(callable: Py<PyAny>) -> Self {
        Self(Arc::new(callable))
    }
}

/// A stream that another part of the program makes, which may enter Python when asked and when dropped.
struct Foreign(Option<Incoming>);

impl Foreign {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(rows) = &mut self.0 else {
            return Ok(None);
        };
        rows.next().map_err(|fault| match fault {
            Fault::Broken(error) => unmade(error),
            Fault::Raised(raised) => {
                Python::try_attach(|py| unmade(from_python(py, &raised))).unwrap_or_else(ending)
            }
        })
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let reader = self.0.take();
        if let Ok(runtime) = crate::runtime::runtime() {
            runtime.spawn_blocking(move || exit::drop_inside(reader));
        } else {
            std::mem::forget(reader);
        }
    }
}

fn unmade(error: Error) -> Error {
    error.context("the rows of the table could not be made")
}

fn ending() -> Error {
    Error::cancelled("the interpreter that makes the rows is ending")
}

/// So many callables run at the same time: half of the threads that may wait, so that others find one.
static RUNNING: Semaphore = Semaphore::const_new(256);

/// Runs something of a callable's, which may take its time.
async fn in_python<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let running = RUNNING.acquire().await.map_err(|_| ending())?;
    exit::in_thread(move || {
        // Until it is done, whether or not somebody still waits for it.
        let _running = running;
        run()
    })
    .await
}

fn call(callable: &Py<PyAny>) -> Result<Incoming> {
    let made = Python::try_attach(|py| {
        let made = callable.bind(py).call0().and_then(|made| Incoming::of(&made)?.ok_or_else(|| {
            PyTypeError::new_err(
                "what makes a table must return something with __arrow_c_stream__ or __arrow_c_array__",
            )
        }));
        made.map_err(|raised| unmade(from_python(py, &raised)))
    });
    made.ok_or_else(ending)?
}

#[async_trait]
impl RowSource for Factory {
    async fn open(&self) -> Result<RowStream> {
        let callable = Arc::clone(&self.0);
        let opened = in_python(move || {
            call(&callable).map(|rows| {
                let schema = Arc::clone(rows.schema());
                (schema, Foreign(Some(rows)))
            })
        });
        let (schema, foreign) = opened.await??;
        let batches = futures::stream::try_unfold(foreign, |mut foreign| async move {
            let pulled = in_python(move || (foreign.next(), foreign));
            let (next, foreign) = pulled.await?;
            Ok(next?.map(|batch| (batch, foreign)))
        });
        Ok(RowStream {
            schema,
            batches: batches.boxed(),
        })
    }
}
