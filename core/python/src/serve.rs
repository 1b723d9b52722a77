//! Servers of tables that Python has.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lightstream_core::Error;
use lightstream_core::protocol::ticket::TicketKey;
use lightstream_core::server::{
    MappedIpcTable, MemoryTable, Server, ServerLimits, StatsReader, StreamTable, Table, TlsFiles,
    TokenFile,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments;
use crate::credentials::Checker;
use crate::errors::{IntoPython, to_python};
use crate::factory::Factory;
use crate::incoming::{Fault, Incoming};
use crate::runtime::{Owned, runtime, wait};

/// Connections are let go after so long even where a server is stopped at once: its places are free by then.
const AT_ONCE: Duration = Duration::from_millis(20);

/// None once it was stopped.
type Running = Owned<Mutex<Option<Server>>>;

/// All servers of this process, to be stopped at its end.
static SERVERS: Mutex<Vec<Weak<Running>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is sound after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops all servers: sockets that are files are removed.
pub(crate) fn stop_all() {
    let servers = std::mem::take(&mut *lock(&SERVERS));
    let Ok(runtime) = runtime() else { return };
    for server in servers.iter().filter_map(Weak::upgrade) {
        let taken = server.get().ok().and_then(|state| lock(state).take());
        if let Some(server) = taken {
            runtime.block_on(server.shutdown(AT_ONCE));
        }
    }
}

/// A running server. It ends when stopped, when a `with` block ends, or when nothing refers to it any more.
#[pyclass(name = "Server", module = "lightstream_core", frozen)]
pub(crate) struct PyServer {
    running: Arc<Running>,
    counted: StatsReader,
    urls: Vec<String>,
}

impl PyServer {
    fn new(server: Server) -> Self {
        let urls = server.locations().iter().map(ToString::to_string).collect();
        let counted = server.stats_reader();
        let running = Arc::new(Owned::new(Mutex::new(Some(server))));
        let mut all = lock(&SERVERS);
        all.retain(|server| server.strong_count() > 0);
        all.push(Arc::downgrade(&running));
        Self {
            running,
            counted,
            urls,
        }
    }
}

#[pymethods]
impl PyServer {
    /// The URL of the first place that it listens at, with the port that was taken.
    #[getter]
    fn url(&self) -> Option<&str> {
        self.urls.first().map(String::as_str)
    }

    /// The URLs of all places.
    #[getter]
    fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    /// What it has done since it started, by name. The numbers settle once `active_scans` is 0, and stay after it was
    /// stopped.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.running.get().or_raise(py)?;
        let stats = self.counted.stats();
        let answer = PyDict::new(py);
        for (name, value) in [
            ("connections", stats.connections),
            ("plans", stats.plans),
            ("scans", stats.scans),
            ("active_connections", stats.active_connections),
            ("active_scans", stats.active_scans),
            ("batches_sent", stats.batches_sent),
            ("rows_sent", stats.rows_sent),
            ("bytes_sent", stats.bytes_sent),
            ("errors", stats.errors),
        ] {
            answer.set_item(name, value)?;
        }
        Ok(answer)
    }

    /// Accepts no more connections, lets scans under way finish for `drain` seconds, then ends. Returns whether all of
    /// them finished. Stopping again does nothing.
    #[pyo3(signature = (drain=0.0))]
    fn stop(&self, py: Python<'_>, drain: f64) -> PyResult<bool> {
        let drain = Duration::try_from_secs_f64(drain)
            .map_err(|error| PyValueError::new_err(format!("drain: {error}")))?;
        let running = self.running.get().or_raise(py)?;
        let Some(server) = lock(running).take() else {
            return Ok(true);
        };
        wait(py, async { Ok(server.shutdown(drain.max(AT_ONCE)).await) })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.stop(py, 0.0).map(drop)
    }

    fn __repr__(&self) -> String {
        format!("Server({})", self.urls.join(", "))
    }
}

/// All rows of a stream, pulled without Python's lock.
fn in_memory(py: Python<'_>, mut rows: Incoming) -> PyResult<MemoryTable> {
    let schema = Arc::clone(rows.schema());
    let mut batches = Vec::new();
    loop {
        py.check_signals()?;
        match py.detach(|| rows.next()) {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => break,
            Err(Fault::Raised(raised)) => return Err(raised),
            Err(Fault::Broken(error)) => {
                let error = Error::invalid_argument(format!(
                    "the rows cannot be read: {}",
                    error.detail().message
                ));
                return Err(to_python(py, &error));
            }
        }
    }
    // Bounds of columns are computed: that takes a while.
    py.detach(|| MemoryTable::try_new_with_schema(schema, batches))
        .or_raise(py)
}

fn table(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Table>> {
    let py = value.py();
    if let Some(rows) = Incoming::of(value)? {
        return Ok(Arc::new(in_memory(py, rows)?));
    }
    let is_path = value.is_instance_of::<pyo3::types::PyString>() || value.hasattr("__fspath__")?;
    if is_path {
        let path: PathBuf = value.extract()?;
        return Ok(Arc::new(
            py.detach(|| MappedIpcTable::open(path)).or_raise(py)?,
        ));
    }
    if value.is_callable() {
        return Ok(Arc::new(StreamTable::new(Factory::new(
            value.clone().unbind(),
        ))));
    }
    Err(PyTypeError::new_err(format!(
        "table {name:?}: a table is something with __arrow_c_stream__ or __arrow_c_array__, the path of an Arrow IPC \
         file, or a callable that returns one of the first two, not {}",
        value.get_type().name()?
    )))
}

/// The files of a certificate.
///
/// # Errors
/// `invalid_argument` where one is given without those that it needs.
fn certificate(
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
) -> Result<Option<TlsFiles>, Error> {
    match (cert, key, client_ca) {
        (None, None, None) => Ok(None),
        (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles {
            cert,
            key,
            client_ca,
        })),
        (None, None, Some(_)) => Err(Error::invalid_argument(
            "tls_client_ca needs tls_cert and tls_key",
        )),
        (Some(_), None, _) => Err(Error::invalid_argument("tls_cert needs tls_key")),
        (None, Some(_), _) => Err(Error::invalid_argument("tls_key needs tls_cert")),
    }
}

/// Serves tables by name until it is stopped.
#[pyfunction]
#[pyo3(signature = (
    tables, *, listen=None, ticket_key=None, authenticator=None, token_file=None, tls_cert=None, tls_key=None,
    tls_client_ca=None, max_connections=None, max_scans=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn serve(
    py: Python<'_>,
    tables: &Bound<'_, PyAny>,
    listen: Option<&Bound<'_, PyAny>>,
    ticket_key: Option<Vec<u8>>,
    authenticator: Option<Py<PyAny>>,
    token_file: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_client_ca: Option<PathBuf>,
    max_connections: Option<Bound<'_, PyAny>>,
    max_scans: Option<Bound<'_, PyAny>>,
) -> PyResult<PyServer> {
    let mut limits = ServerLimits::default();
    if let Some(most) = arguments::narrow("max_connections", max_connections.as_ref(), 1)? {
        limits.max_connections = most;
    }
    if let Some(most) = arguments::narrow("max_scans", max_scans.as_ref(), 1)? {
        limits.max_scans = most;
    }
    let files = certificate(tls_cert, tls_key, tls_client_ca).or_raise(py)?;
    let checker = Checker::of(authenticator, py)?;
    if checker.is_some() && token_file.is_some() {
        return Err(arguments::refused(
            py,
            "authenticator and token_file both say who may connect: give one of them",
        ));
    }
    let urls: Vec<String> = match listen {
        None => vec!["lightstream://127.0.0.1:0".to_owned()],
        Some(one) => match one.extract::<String>() {
            Ok(url) => vec![url],
            Err(_) => one.extract().map_err(|_| {
                PyTypeError::new_err("listen is a URL, or a sequence of URLs, as text")
            })?,
        },
    };
    let mut builder = Server::builder().limits(limits);
    for item in arguments::items("tables", tables)? {
        let (name, value) = arguments::named("tables", &item?)?;
        if name.is_empty() {
            return Err(arguments::refused(
                py,
                "a table in tables has an empty name: nobody could ask for it",
            ));
        }
        builder = builder.shared_table(name.clone(), table(&name, &value)?);
    }
    if let Some(secret) = ticket_key {
        builder = builder.ticket_key(TicketKey::from_secret(&secret).or_raise(py)?);
    }
    if let Some(checker) = checker {
        builder = builder.authenticator(checker);
    }
    if let Some(path) = token_file {
        builder = builder.authenticator(TokenFile::try_new(path).or_raise(py)?);
    }
    if let Some(files) = files {
        builder = builder.tls(files);
    }
    let server = wait(py, async move {
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        builder.listen_all(&urls).await
    })?;
    Ok(PyServer::new(server))
}
