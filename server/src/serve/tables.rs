//! The tables to serve: found by name and folder, opened, and looked into once so that what is wrong with them is
//! said at the start.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::config::SessionConfig;
use datafusion::execution::context::SessionContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use lightstream_core::protocol::ipc::encode_schema;
use lightstream_core::protocol::statistics::Precision;
use lightstream_core::server::{Catalog, MappedIpcTable, ServerBuilder, Table};
use lightstream_core::{Error, Result};
use lightstream_datafusion::serve::{DataFusionCatalog, ScanMemory, register_path};

use crate::args::TableArg;
use crate::exit::{Failure, Outcome, code};

/// Extensions of files that are tables.
const DATA_EXTENSIONS: [&str; 8] = [
    "parquet", "csv", "ndjson", "jsonl", "json", "arrow", "feather", "arrows",
];

/// Folders within folders that are searched for data files: more than a hive-partitioned table has levels.
const SEARCH_DEPTH: usize = 16;

/// A table and what is known of it.
pub struct OpenTable {
    pub name: String,
    pub rows: Precision,
    pub columns: usize,
}

/// The tables of a server, opened.
pub struct Tables {
    described: Vec<OpenTable>,
    /// Arrow IPC files, which the core serves by itself.
    mapped: Vec<(String, Arc<dyn Table>)>,
    rest: DataFusionCatalog,
    query_memory: Arc<dyn MemoryPool>,
}

/// Bytes that queries may hold.
#[derive(Debug, Clone, Copy)]
pub struct QueryMemory {
    /// All of them.
    pub together: Option<u64>,
    /// Each of them.
    pub of_each: Option<u64>,
}

impl Tables {
    /// Opens the tables named, and those that lie in a folder.
    pub async fn open(
        named: &[TableArg],
        folder: Option<&Path>,
        memory: QueryMemory,
    ) -> Outcome<Self> {
        let context = session(memory)?;
        let rest = DataFusionCatalog::new(context.clone());
        let mut tables = Self {
            described: Vec::new(),
            mapped: Vec::new(),
            rest,
            query_memory: Arc::clone(&context.runtime_env().memory_pool),
        };
        for (name, path) in sources(named, folder)? {
            // Formats are read by libraries that may panic on damaged files.
            let context = context.clone();
            let (table, location) = (name.clone(), path.clone());
            let opening = tokio::spawn(async move { open(&context, &table, &location).await });
            let opened = match opening.await {
                Ok(opened) => opened,
                Err(error) => Err(Error::data_loss(format!(
                    "{} cannot be read: {error}",
                    path.display()
                ))),
            };
            let described = match opened {
                Ok(Some(table)) => {
                    let described = describe(&name, table.as_ref()).await;
                    tables.mapped.push((name.clone(), table));
                    described
                }
                Ok(None) => match tables.rest.table(&name).await {
                    Ok(Some(table)) => describe(&name, table.as_ref()).await,
                    Ok(None) => Err(Error::internal(
                        "a table that was registered cannot be found",
                    )),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            tables.described.push(described.map_err(|error| {
                let failure =
                    Failure::from(error).context(format!("table {name:?} at {}", path.display()));
                // A file that cannot be opened is no server that does not answer.
                failure.recoded(&[code::UNREACHABLE, code::DENIED], code::FAILED)
            })?);
        }
        Ok(tables)
    }

    /// The tables by name.
    pub fn iter(&self) -> impl Iterator<Item = &OpenTable> {
        self.described.iter()
    }

    /// The memory that queries over them share.
    pub fn query_memory(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.query_memory)
    }

    /// A server of these tables.
    pub fn served_by(self, builder: ServerBuilder) -> ServerBuilder {
        let builder = self
            .mapped
            .into_iter()
            .fold(builder, |builder, (name, table)| {
                builder.shared_table(name, table)
            });
        builder.catalog(self.rest)
    }
}

/// A session that serves files with the types they have.
fn session(memory: QueryMemory) -> Outcome<SessionContext> {
    let mut config = SessionConfig::new();
    // By default text and binary of Parquet files would come as views.
    config
        .options_mut()
        .execution
        .parquet
        .schema_force_view_types = false;
    let bytes = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    if let Some(limit) = memory.of_each {
        config.set_extension(Arc::new(ScanMemory(bytes(limit))));
    }
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(limit) = memory.together {
        runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(bytes(limit))));
    }
    let runtime = runtime.build_arc().map_err(|error| {
        Failure::failed("the memory of queries cannot be managed").with_source(error)
    })?;
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

/// Opens an Arrow IPC file; anything else becomes a table of the session.
async fn open(context: &SessionContext, name: &str, path: &Path) -> Result<Option<Arc<dyn Table>>> {
    if is_ipc(path) {
        return Ok(Some(Arc::new(MappedIpcTable::open(path)?)));
    }
    register_path(context, name, path).await?;
    Ok(None)
}

/// Whether this is a single Arrow IPC file or stream, by its extension or else by how it starts.
fn is_ipc(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    match data_extension(path) {
        Some("arrow" | "feather" | "arrows") => true,
        Some(_) => false,
        None => {
            let mut start = [0; 8];
            let has_start = File::open(path)
                .and_then(|mut file| file.read_exact(&mut start))
                .is_ok();
            // A file starts with its name, a stream with a continuation marker and the length of its schema.
            has_start
                && (start.starts_with(b"ARROW1")
                    || (start.starts_with(&[0xff; 4]) && start[7] < 0x80))
        }
    }
}

async fn describe(name: &str, table: &dyn Table) -> Result<OpenTable> {
    let info = table.describe(name, None).await?;
    // What cannot be sent is better known now than at the first scan.
    encode_schema(&info.schema)?;
    Ok(OpenTable {
        name: name.to_owned(),
        rows: info.statistics.rows,
        columns: info.schema.fields().len(),
    })
}

/// The names and paths of all tables, each name once.
fn sources(named: &[TableArg], folder: Option<&Path>) -> Outcome<BTreeMap<String, PathBuf>> {
    let mut sources: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut add = |name: String, path: PathBuf| {
        if let Some(other) = sources.get(&name) {
            let (one, two) = (other.display(), path.display());
            return Err(Failure::usage(format!(
                "two tables have the name {name:?}: {one} and {two}"
            )));
        }
        sources.insert(name, path);
        Ok(())
    };
    for table in named {
        add(table.name.clone(), table.path.clone())?;
    }
    let Some(folder) = folder else {
        return Ok(sources);
    };
    let found = in_folder(folder)?;
    if found.is_empty() && named.is_empty() {
        let extensions = DATA_EXTENSIONS.join(", .");
        return Err(Failure::usage(format!(
            "--dir {}: no data file (.{extensions}) is there",
            folder.display()
        )));
    }
    for (name, path) in found {
        add(name, path)?;
    }
    Ok(sources)
}

/// The data files and folders of data files right in a folder, each with its stem.
fn in_folder(folder: &Path) -> Outcome<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for path in entries(folder)
        .map_err(|error| Failure::io(format!("--dir {}", folder.display()), error))?
    {
        let stem = if path.is_dir() {
            path.file_name().filter(|_| has_data(&path, SEARCH_DEPTH))
        } else {
            path.file_stem().filter(|_| data_extension(&path).is_some())
        };
        let Some(stem) = stem else { continue };
        let name = stem.to_str().ok_or_else(|| {
            Failure::usage(format!(
                "--dir: {} is no UTF-8, so it cannot be the name of a table",
                path.display()
            ))
        })?;
        found.push((name.to_owned(), path));
    }
    Ok(found)
}

/// What lies in a folder, in the order of names. What starts with `.` or `_` is for others than readers of tables.
fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            || path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"_"));
        if !is_hidden {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn has_data(folder: &Path, depth: usize) -> bool {
    let Ok(paths) = entries(folder) else {
        return false;
    };
    paths.iter().any(|path| match path.is_dir() {
        true => depth > 0 && has_data(path, depth - 1),
        false => data_extension(path).is_some(),
    })
}

fn data_extension(path: &Path) -> Option<&'static str> {
    let extension = path.extension().and_then(OsStr::to_str)?;
    DATA_EXTENSIONS
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(extension))
}
