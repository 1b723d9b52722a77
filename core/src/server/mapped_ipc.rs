//! Arrow IPC files and streams, mapped into memory: what is sent comes straight from the mapping.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use memmap2::Mmap;
use sha2::{Digest, Sha256};

use super::batches::{BatchScan, BatchSource, TableState};
use super::history::History;
use super::table::{Scan, Table};
use crate::error::{Error, Result};
use crate::protocol::ipc::IpcIndex;
use crate::protocol::limits::DecodeLimits;
use crate::protocol::request::ScanRequest;
use crate::protocol::statistics::{Precision, Statistics};
use crate::protocol::table::TableInfo;

/// A table that is an Arrow IPC file or stream, mapped into memory.
///
/// A file put in its place is taken up by the next plan, while plans made before go on reading the file from before.
/// Each batch is checked once, when first read. The file must not be cut short or overwritten in place while it is
/// served; put another in its place by renaming. A change is seen before each batch and refused, yet one in the very
/// moment of reading ends the process, or leaves it with bytes that were never checked.
pub struct MappedIpcTable {
    path: PathBuf,
    limits: DecodeLimits,
    history: History<Mapped>,
}

struct Mapped {
    path: PathBuf,
    file: File,
    print: FilePrint,
    index: IpcIndex,
    /// Batches that have been checked. They hold no rows, only places in the mapping (compressed ones apart).
    checked: Vec<OnceLock<RecordBatch>>,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FilePrint {
    bytes: u64,
    modified_ns: u128,
}

impl FilePrint {
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            bytes: metadata.len(),
            modified_ns: modified.map_or(0, |since| since.as_nanos()),
        }
    }

    fn snapshot(self, path: &Path) -> String {
        let mut digest = Sha256::new();
        digest.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        digest.update([0]);
        digest.update(self.bytes.to_le_bytes());
        digest.update(self.modified_ns.to_le_bytes());
        digest
            .finalize()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Keeps a mapping for as long as a buffer points into it.
struct Mapping(Mmap);

fn map(file: &File) -> std::io::Result<Buffer> {
    // SAFETY: the mapping is private and read only. That the file stays as it is cannot be had from the system; what
    // follows from that stands in the documentation of `MappedIpcTable`. All that is read from it is checked first.
    let mapping = Mapping(unsafe { Mmap::map(file)? });
    let (start, length) = (mapping.0.as_ptr().cast_mut(), mapping.0.len());
    let start = NonNull::new(start).unwrap_or(NonNull::dangling());
    // SAFETY: the range is good for as long as the mapping, which the buffer keeps.
    Ok(unsafe { Buffer::from_custom_allocation(start, length, Arc::new(mapping)) })
}

fn open(path: &Path, limits: &DecodeLimits) -> Result<TableState<Mapped>> {
    let cannot = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", path.display());
        if error.kind() == std::io::ErrorKind::NotFound {
            Error::not_found(message)
        } else {
            Error::unavailable(message)
        }
        .with_source(error)
    };
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Error::invalid_argument(format!(
            "{} is not a file",
            path.display()
        )));
    }
    let print = FilePrint::of(&metadata);
    if print.bytes == 0 {
        return Err(Error::data_loss(format!(
            "{} is empty: not an Arrow IPC file or stream",
            path.display()
        )));
    }
    let bytes = map(&file).map_err(cannot)?;
    let index = IpcIndex::try_new(bytes, limits.clone()).map_err(|error| {
        error.context(format!("{} cannot be read as Arrow IPC", path.display()))
    })?;
    let checked = std::iter::repeat_with(OnceLock::new)
        .take(index.len())
        .collect();
    let mapped = Mapped {
        path: path.to_owned(),
        file,
        print,
        index,
        checked,
    };
    Ok(TableState::new(mapped, print.snapshot(path), Vec::new()))
}

impl MappedIpcTable {
    /// Opens an Arrow IPC file or stream and reads its metadata.
    ///
    /// # Errors
    /// `not_found` or `unavailable` where it cannot be opened, `data_loss` where it is malformed.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::open_with_limits(path, DecodeLimits::default())
    }

    /// The same with bounds on what is accepted.
    ///
    /// # Errors
    /// As [`MappedIpcTable::open`], and `resource_exhausted` beyond the limits.
    pub fn open_with_limits(path: impl Into<PathBuf>, limits: DecodeLimits) -> Result<Self> {
        let path = path.into();
        let history = History::new(open(&path, &limits)?);
        Ok(Self {
            path,
            limits,
            history,
        })
    }

    /// The state of that snapshot, or of the file that lies at the path now.
    fn state(&self, snapshot: Option<&str>) -> Result<Arc<TableState<Mapped>>> {
        if let (Some(_), Ok(state)) = (snapshot, self.history.at(snapshot)) {
            return Ok(state);
        }
        self.history.advance(|newest| {
            let now = std::fs::metadata(&self.path).map(|metadata| FilePrint::of(&metadata));
            let is_current = now.is_ok_and(|now| now == newest.source().print);
            if is_current {
                Ok(None)
            } else {
                open(&self.path, &self.limits).map(Some)
            }
        })?;
        self.history
            .at(snapshot)
            .map_err(|error| error.context(self.path.display()))
    }
}

impl BatchSource for Mapped {
    fn schema(&self) -> &SchemaRef {
        self.index.schema()
    }

    fn count(&self) -> usize {
        self.index.len()
    }

    fn rows(&self, batch: usize) -> u64 {
        self.index.rows(batch).unwrap_or(0)
    }

    fn bytes(&self, batch: usize) -> u64 {
        self.index
            .batches()
            .get(batch)
            .map_or(0, |batch| batch.body_bytes() as u64)
    }

    fn batch(&self, batch: usize) -> Result<RecordBatch> {
        // A mapping that reaches beyond the end of its file ends the process when read there.
        let now = self
            .file
            .metadata()
            .map(|metadata| FilePrint::of(&metadata));
        if !now.is_ok_and(|now| now == self.print) {
            return Err(Error::expired(format!(
                "{} was changed while it was read",
                self.path.display()
            )));
        }
        let checked = self
            .checked
            .get(batch)
            .ok_or_else(|| Error::internal("a batch beyond the end of a file"))?;
        if let Some(batch) = checked.get() {
            return Ok(batch.clone());
        }
        let decoded = self.index.batch(batch).map_err(|error| {
            error.context(format!(
                "batch {batch} of {} cannot be read",
                self.path.display()
            ))
        })?;
        Ok(checked.get_or_init(|| decoded).clone())
    }

    fn statistics(&self) -> Statistics {
        let count = self.index.len();
        Statistics {
            rows: Precision::Exact((0..count).map(|batch| self.rows(batch)).sum()),
            bytes: Precision::Inexact((0..count).map(|batch| self.bytes(batch)).sum()),
            columns: Vec::new(),
        }
    }
}

#[async_trait]
impl Table for MappedIpcTable {
    async fn describe(&self, name: &str, snapshot: Option<&str>) -> Result<TableInfo> {
        Ok(self.state(snapshot)?.describe(name))
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let state = self.state(request.snapshot.as_deref())?;
        Ok(Arc::new(BatchScan::try_new(state, request)?))
    }
}
