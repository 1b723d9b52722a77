//! Tables that a Python callable makes anew for each scan.
//!
//! Python is entered in threads of its own and only while rows are pulled: no thread that drives connections ever waits
//! for its lock.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ArrowError;
use async_trait::async_trait;
use futures::StreamExt;
use lightstream_core::server::{RowSource, RowStream};
use lightstream_core::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tokio::sync::Semaphore;

use crate::capsule;
use crate::errors::from_python;
use crate::exit;

/// A callable that returns an Arrow stream or array.
pub(crate) struct Factory(Arc<Py<PyAny>>);

impl Factory {
    pub(crate) fn new(callable: Py<PyAny>) -> Self {
        Self(Arc::new(callable))
    }
}

type Reader = Box<dyn RecordBatchReader + Send>;

/// A stream that another part of the program makes, which may enter Python when asked and when dropped.
struct Foreign(Option<Reader>);

impl Foreign {
    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let next = self.0.as_mut()?.next()?;
        Some(next.map_err(|error| failed(&error)))
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

fn failed(error: &ArrowError) -> Error {
    let message = match error {
        // Whatever the maker of the rows said, without arrow's own words around it.
        ArrowError::CDataInterface(message) => message.clone(),
        other => other.to_string(),
    };
    Error::internal(format!(
        "the rows of the table could not be made: {message}"
    ))
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

fn call(callable: &Py<PyAny>) -> Result<Reader> {
    let made = Python::try_attach(|py| {
        let made = callable.bind(py).call0().and_then(|made| rows_of(&made)?.ok_or_else(|| {
            PyTypeError::new_err(
                "what makes a table must return something with __arrow_c_stream__ or __arrow_c_array__",
            )
        }));
        made.map_err(|raised| {
            from_python(py, &raised).context("the rows of the table could not be made")
        })
    });
    made.ok_or_else(ending)?
}

/// The rows of anything that exports an Arrow stream or array; `None` where it does neither.
///
/// # Errors
/// What the object raises.
pub(crate) fn rows_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Reader>> {
    if let Some(stream) = capsule::stream_of(value)? {
        return Ok(Some(Box::new(stream)));
    }
    let Some(batch) = capsule::batch_of(value)? else {
        return Ok(None);
    };
    let schema = batch.schema();
    let batches = [Ok(batch)].into_iter();
    Ok(Some(Box::new(arrow_array::RecordBatchIterator::new(
        batches, schema,
    ))))
}

#[async_trait]
impl RowSource for Factory {
    async fn open(&self) -> Result<RowStream> {
        let callable = Arc::clone(&self.0);
        let opened = in_python(move || {
            call(&callable).map(|reader| {
                let schema = reader.schema();
                (schema, Foreign(Some(reader)))
            })
        });
        let (schema, foreign) = opened.await??;
        let batches = futures::stream::try_unfold(foreign, |mut foreign| async move {
            let pulled = in_python(move || foreign.next().map(|batch| (batch, foreign)));
            match pulled.await? {
                None => Ok(None),
                Some((batch, foreign)) => Ok(Some((batch?, foreign))),
            }
        });
        Ok(RowStream {
            schema,
            batches: batches.boxed(),
        })
    }
}
