//! Tables that are the same in every process, and servers of them in processes of their own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringViewArray,
};
use datafusion::arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

/// Rows of a batch, and of a unit, of [`large_rows`].
const ROWS_EACH: i64 = 256;

/// The table of every memory table and IPC file: batches of 4 MiB, each a unit of its own when served.
pub fn large_rows(batches: i64) -> Vec<RecordBatch> {
    (0..batches)
        .map(|batch| {
            let ids = batch * ROWS_EACH..(batch + 1) * ROWS_EACH;
            let payload = ids.clone().map(|id| {
                let mut payload = vec![batch as u8; 16 << 10];
                payload[..8].copy_from_slice(&id.to_le_bytes());
                payload
            });
            let payload: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(payload).unwrap());
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
            RecordBatch::try_from_iter([("id", ids), ("payload", payload)]).unwrap()
        })
        .collect()
}

/// Writes batches as an Arrow IPC file.
pub fn write_ipc(path: &Path, batches: &[RecordBatch]) {
    let mut writer =
        FileWriter::try_new(std::fs::File::create(path).unwrap(), &batches[0].schema()).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

/// Small rows with these ids. Text is of the type that it has when read from Parquet.
pub fn small_rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let texts: ArrayRef = Arc::new(
        ids.clone()
            .map(|id| (id % 7 != 0).then(|| format!("row {id}")))
            .collect::<StringViewArray>(),
    );
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("text", texts, true)]).unwrap()
}

/// Writes batches as a Parquet file with so many rows in each row group.
pub fn write_parquet(path: &Path, batches: &[RecordBatch], group_rows: usize) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

/// What a fixture serves, and how.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// The secret that its tickets are sealed with.
    pub key: String,
    /// How long they are good, in milliseconds.
    pub lifetime_ms: u64,
    /// Serves [`large_rows`] of so many batches as `memory`.
    pub memory_batches: i64,
    /// Serves this file as `ipc`.
    pub ipc: Option<PathBuf>,
    /// Serves these folders of Parquet files under these names.
    pub parquet: Vec<(String, PathBuf)>,
}

/// A server in a process of its own, which ends with this value.
pub struct FixtureServer {
    url: String,
    child: Child,
    _until_closed: ChildStdin,
}

impl Fixture {
    /// Starts a process of the program that serves fixtures, at a new port.
    pub fn start(&self, program: &str) -> FixtureServer {
        let mut command = Command::new(program);
        command.args([
            &self.key,
            &self.lifetime_ms.to_string(),
            &self.memory_batches.to_string(),
        ]);
        command.arg(self.ipc.as_deref().unwrap_or(Path::new("-")));
        command.args(
            self.parquet
                .iter()
                .map(|(name, folder)| format!("{name}={}", folder.display())),
        );
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        assert!(
            url.starts_with("lightstream://"),
            "the fixture did not start: {url:?}"
        );
        let until_closed = child.stdin.take().unwrap();
        FixtureServer {
            url: url.trim().to_owned(),
            child,
            _until_closed: until_closed,
        }
    }
}

impl FixtureServer {
    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for FixtureServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
