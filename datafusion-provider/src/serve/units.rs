//! What the files of a snapshot are cut into: units, and partitions made of runs of them.
//!
//! Looks at files alone, never at what is asked of them, so that every request on a snapshot has the same units.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::Statistics as DfStatistics;
use datafusion::common::stats::Precision as DfPrecision;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingTable, PartitionedFile};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::SessionState;
use datafusion::object_store::ObjectMeta;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use lightstream_core::protocol::statistics::{Precision, Statistics};
use lightstream_core::server::{ScanPartition, share_out};
use lightstream_core::{Error, Result};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use super::errors::{core_error, panic_error};
use super::snapshot::{self, Snapshot};
use super::statistics;

/// Files whose layout is remembered before all are forgotten.
const REMEMBERED_FILES: usize = 100_000;

/// A fixed range of source rows.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// The position of its file in the snapshot.
    pub file: usize,
    /// Which row group of how many it is; `None` for a whole file.
    pub row_group: Option<(usize, usize)>,
    /// How many rows it has, where that is known.
    pub rows: Precision,
    /// How many bytes it is worth when partitions are balanced.
    pub bytes: u64,
}

/// What the footer of a file says.
#[derive(Debug)]
struct Layout {
    row_groups: Vec<(u64, u64)>,
    statistics: Arc<DfStatistics>,
}

/// Footers that were read before, by store and path.
#[derive(Debug, Default)]
pub(super) struct LayoutCache(Mutex<HashMap<(String, String), KnownLayout>>);

/// A layout, the state of the file that it was read from, and the schema that its statistics are of.
#[derive(Debug)]
struct KnownLayout {
    meta: ObjectMeta,
    schema: SchemaRef,
    layout: Arc<Layout>,
}

impl LayoutCache {
    fn find(
        &self,
        key: &(String, String),
        meta: &ObjectMeta,
        schema: &SchemaRef,
    ) -> Option<Arc<Layout>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known
            .get(key)
            .filter(|known| known.meta == *meta && known.schema == *schema)?;
        Some(Arc::clone(&known.layout))
    }

    fn keep(&self, key: (String, String), known: KnownLayout) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED_FILES {
            all.clear();
        }
        all.insert(key, known);
    }
}

/// How a snapshot is cut.
pub(super) struct Cut {
    /// All units, in the table's order.
    pub units: Vec<Unit>,
    /// What is known of all rows.
    pub statistics: Statistics,
}

/// Cuts a snapshot into units.
pub(super) async fn cut(
    table: &ListingTable,
    snapshot: &Snapshot,
    state: &SessionState,
    cache: &LayoutCache,
) -> Result<Cut> {
    if table
        .options()
        .format
        .downcast_ref::<ParquetFormat>()
        .is_none()
    {
        return Ok(whole_files(snapshot));
    }
    let concurrency = state
        .config_options()
        .execution
        .meta_fetch_concurrency
        .get();
    let reads: Vec<_> = snapshot
        .files
        .iter()
        .map(|file| layout(table, snapshot, file, state, cache).boxed())
        .collect();
    let layouts: Vec<Arc<Layout>> = stream::iter(reads)
        .buffered(concurrency)
        .try_collect()
        .await?;
    let mut units = Vec::new();
    let mut known = Vec::with_capacity(layouts.len());
    for (index, (layout, file)) in layouts.iter().zip(&snapshot.files).enumerate() {
        let count = layout.row_groups.len();
        units.extend(
            layout
                .row_groups
                .iter()
                .enumerate()
                .map(|(row_group, &(rows, bytes))| Unit {
                    file: index,
                    row_group: Some((row_group, count)),
                    rows: Precision::Exact(rows),
                    bytes,
                }),
        );
        // This adds what is known of partition columns.
        let file = file.clone().with_statistics(Arc::clone(&layout.statistics));
        known.extend(file.statistics);
    }
    let schema = table.schema();
    let mut statistics =
        match DfStatistics::try_merge_iter(known.iter().map(|known| &**known), &schema) {
            Ok(merged) if !known.is_empty() => statistics::statistics(&merged, &schema),
            _ => Statistics::default(),
        };
    statistics.rows = rows(&units);
    statistics.bytes = bytes(&units);
    Ok(Cut { units, statistics })
}

fn whole_files(snapshot: &Snapshot) -> Cut {
    let units = snapshot
        .files
        .iter()
        .enumerate()
        .map(|(file, listed)| Unit {
            file,
            row_group: None,
            rows: Precision::Absent,
            bytes: listed.object_meta.size,
        });
    let units: Vec<_> = units.collect();
    let statistics = Statistics {
        rows: rows(&units),
        bytes: bytes(&units),
        columns: Vec::new(),
    };
    Cut { units, statistics }
}

async fn layout(
    table: &ListingTable,
    snapshot: &Snapshot,
    file: &PartitionedFile,
    state: &SessionState,
    cache: &LayoutCache,
) -> Result<Arc<Layout>> {
    let meta = &file.object_meta;
    let url = snapshot
        .scan
        .as_ref()
        .map(|scan| scan.object_store_url.as_str().to_owned())
        .unwrap_or_default();
    let key = (url, meta.location.as_ref().to_owned());
    let schema = table.schema();
    if let Some(layout) = cache.find(&key, meta, &schema) {
        return Ok(layout);
    }
    let read = AssertUnwindSafe(read_layout(table, snapshot, file, state))
        .catch_unwind()
        .await;
    let read = read.unwrap_or_else(|panic| {
        Err(panic_error(
            &format!("reading the footer of {:?}", snapshot::file(meta)),
            panic.as_ref(),
        ))
    });
    let layout = match read {
        Ok(layout) => Arc::new(layout),
        Err(error) => {
            snapshot::check_unchanged(snapshot.store.as_ref(), meta).await?;
            return Err(error);
        }
    };
    let known = KnownLayout {
        meta: meta.clone(),
        schema,
        layout: Arc::clone(&layout),
    };
    cache.keep(key, known);
    Ok(layout)
}

async fn read_layout(
    table: &ListingTable,
    snapshot: &Snapshot,
    file: &PartitionedFile,
    state: &SessionState,
) -> Result<Layout> {
    let meta = &file.object_meta;
    let attempted = format!("reading the footer of {:?}", snapshot::file(meta));
    let hint = table
        .options()
        .format
        .downcast_ref::<ParquetFormat>()
        .and_then(ParquetFormat::metadata_size_hint);
    let metadata = DFParquetMetadata::new(snapshot.store.as_ref(), meta)
        .with_metadata_size_hint(hint)
        .with_file_metadata_cache(Some(
            state.runtime_env().cache_manager.get_file_metadata_cache(),
        ))
        .with_page_index_policy(Some(PageIndexPolicy::Skip))
        .fetch_metadata()
        .await
        .map_err(|error| core_error(&attempted, error))?;
    let count = |number: i64| {
        u64::try_from(number).map_err(|_| {
            Error::data_loss(format!(
                "{attempted}: a row group of {number} rows or bytes"
            ))
        })
    };
    let row_groups = metadata.row_groups().iter();
    let row_groups =
        row_groups.map(|group| Ok((count(group.num_rows())?, count(group.total_byte_size())?)));
    let row_groups = row_groups.collect::<Result<Vec<_>>>()?;
    let columns = table.schema().fields().len() - table.options().table_partition_cols.len();
    let file_schema = table.schema().project(&(0..columns).collect::<Vec<_>>());
    let file_schema = Arc::new(file_schema.map_err(|error| core_error(&attempted, error.into()))?);
    let mut statistics =
        DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &file_schema)
            .unwrap_or_else(|_| DfStatistics::new_unknown(&file_schema));
    for (field, column) in file_schema
        .fields()
        .iter()
        .zip(&mut statistics.column_statistics)
    {
        if has_old_bounds(&metadata, field.name()) {
            column.min_value = DfPrecision::Absent;
            column.max_value = DfPrecision::Absent;
        }
    }
    Ok(Layout {
        row_groups,
        statistics: Arc::new(statistics),
    })
}

/// Whether bounds of bytes were written by the rule of old, which compared them as signed.
fn has_old_bounds(metadata: &ParquetMetaData, column: &str) -> bool {
    metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns())
        .any(|chunk| {
            chunk
                .column_path()
                .parts()
                .first()
                .is_some_and(|root| root == column)
                && matches!(
                    chunk.column_type(),
                    PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY
                )
                && chunk
                    .statistics()
                    .is_some_and(|known| known.is_min_max_deprecated())
        })
}

/// The runs of units that make up the partitions.
pub(super) fn runs(units: &[Unit], max_partitions: Option<u32>) -> Vec<Range<usize>> {
    let bytes: Vec<u64> = units.iter().map(|unit| unit.bytes).collect();
    share_out(&bytes, max_partitions)
}

/// What is known of a run of units.
pub(super) fn partition(units: &[Unit]) -> ScanPartition {
    ScanPartition {
        rows: rows(units),
        bytes: bytes(units),
        units: units.len() as u64,
        resumable: true,
    }
}

fn rows(units: &[Unit]) -> Precision {
    let known = units.iter().try_fold(0, |sum, unit| match unit.rows {
        Precision::Exact(rows) => Some(u64::saturating_add(sum, rows)),
        _ => None,
    });
    known.map_or(Precision::Absent, Precision::Exact)
}

fn bytes(units: &[Unit]) -> Precision {
    Precision::Inexact(
        units
            .iter()
            .map(|unit| unit.bytes)
            .fold(0, u64::saturating_add),
    )
}
