//! `lightstream_core._native`: the transport core from Python. Arrow data crosses as PyCapsules alone, so no other
//! package's version has to match.

mod arguments;
mod asyncio;
mod batch;
mod capsule;
mod client;
mod credentials;
mod errors;
mod exit;
mod expr;
mod factory;
mod incoming;
mod options;
mod partition;
mod reader;
mod rows;
mod runtime;
mod scan;
mod schema;
mod serve;
mod shape;
mod stream;
mod table;
mod types;

/// The native part of `lightstream_core`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::batch::PyBatch;
    #[pymodule_export]
    use crate::client::{_client, _portable, PyClient, connect, connect_async};
    #[pymodule_export]
    use crate::exit::end;
    #[pymodule_export]
    use crate::expr::PyExpr;
    #[pymodule_export]
    use crate::partition::{_partition, PyPartition};
    #[pymodule_export]
    use crate::reader::PyReader;
    #[pymodule_export]
    use crate::scan::PyScan;
    #[pymodule_export]
    use crate::schema::{PyField, PySchema};
    #[pymodule_export]
    use crate::serve::{PyServer, serve};
    #[pymodule_export]
    use crate::table::PyTable;
}
