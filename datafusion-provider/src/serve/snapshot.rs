//! The files of a listing table at one moment, and the name of that moment.
//!
//! The name derives from what is stored alone, so that another process over the same files gives the same one.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionState;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use lightstream_core::{Error, Result};
use sha2::{Digest, Sha256};

use super::errors::{core_error, store_error};

/// The files of a table at one moment.
pub(super) struct Snapshot {
    /// Names the moment.
    pub id: String,
    /// Every file, in the table's order, with the values of its partition columns.
    pub files: Vec<PartitionedFile>,
    /// How DataFusion scans them; `None` where there are none.
    pub scan: Option<FileScanConfig>,
    /// Where they are.
    pub store: Arc<dyn ObjectStore>,
}

/// Lists the files of a table.
pub(super) async fn take(table: &ListingTable, state: &SessionState) -> Result<Snapshot> {
    const ATTEMPTED: &str = "listing the files of a table";
    let url = table
        .table_paths()
        .first()
        .ok_or_else(|| Error::internal("a table of files without a path"))?;
    let store = state
        .runtime_env()
        .object_store(url)
        .map_err(|error| core_error(ATTEMPTED, error))?;
    // The scan knows more than a listing can be asked for: how expressions are adapted to the files, for one.
    let plan = table
        .scan(state, None, &[], None)
        .await
        .map_err(|error| core_error(ATTEMPTED, error))?;
    let scan = file_scan(plan.as_ref()).cloned();
    if scan.is_none() && !plan.is::<EmptyExec>() {
        return Err(Error::internal(format!(
            "{ATTEMPTED}: no scan of files but {}",
            plan.name()
        )));
    }
    let groups = scan.iter().flat_map(|scan| &scan.file_groups);
    let mut files: Vec<_> = groups.flat_map(|group| group.files()).cloned().collect();
    files.sort_by(|a, b| a.path().cmp(b.path()));
    for url in table.table_paths() {
        check_exists(url, &files, store.as_ref()).await?;
    }
    Ok(Snapshot {
        id: name(table, &files),
        scan: scan.filter(|_| !files.is_empty()),
        files,
        store,
    })
}

/// The scan of files that a node of a plan is.
pub(super) fn file_scan(plan: &dyn ExecutionPlan) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?
        .data_source()
        .downcast_ref::<FileScanConfig>()
}

/// A table of one file that is gone is not an empty table.
async fn check_exists(
    url: &ListingTableUrl,
    files: &[PartitionedFile],
    store: &dyn ObjectStore,
) -> Result<()> {
    if url.is_collection()
        || url.get_glob().is_some()
        || files.iter().any(|file| url.contains(file.path(), false))
    {
        return Ok(());
    }
    let found = store.head(url.prefix()).await;
    found
        .map(|_| ())
        .map_err(|error| store_error(&format!("looking for {:?}", url.prefix().as_ref()), error))
}

/// Fails with `expired` unless a file is still as it was listed.
pub(super) async fn check_unchanged(store: &dyn ObjectStore, listed: &ObjectMeta) -> Result<()> {
    let found = match store.head(&listed.location).await {
        Ok(found) => found,
        Err(datafusion::object_store::Error::NotFound { .. }) => {
            return Err(Error::expired(format!(
                "{:?} has been removed since the scan was planned",
                file(listed)
            )));
        }
        Err(error) => return Err(store_error(&format!("checking {:?}", file(listed)), error)),
    };
    let same_tag = match (&found.e_tag, &listed.e_tag) {
        (Some(found), Some(listed)) => found == listed,
        _ => true,
    };
    if found.size == listed.size && found.last_modified == listed.last_modified && same_tag {
        return Ok(());
    }
    Err(Error::expired(format!(
        "{:?} has changed since the scan was planned",
        file(listed)
    )))
}

/// The name of a file without the folders above, which are the server's own business.
pub(super) fn file(meta: &ObjectMeta) -> &str {
    meta.location.filename().unwrap_or_default()
}

fn name(table: &ListingTable, files: &[PartitionedFile]) -> String {
    let mut digest = Sha256::new();
    let mut add = |part: &str| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    add("lightstream files 1");
    for field in table.schema().fields() {
        add(field.name());
        add(&format!("{} {}", field.data_type(), field.is_nullable()));
    }
    add(&reading_options(table));
    let is_local = table.table_paths().iter().all(|url| url.scheme() == "file");
    for file in files {
        let meta = &file.object_meta;
        add(&relative(table, &meta.location));
        add(&meta.size.to_string());
        add(&format!(
            "{}.{:09}",
            meta.last_modified.timestamp(),
            meta.last_modified.timestamp_subsec_nanos()
        ));
        // That of a local file holds its inode, which no replica shares, and nothing else that is new.
        add(meta
            .e_tag
            .as_deref()
            .filter(|_| !is_local)
            .unwrap_or_default());
    }
    digest
        .finalize()
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// What makes other rows of the same bytes.
fn reading_options(table: &ListingTable) -> String {
    let format = table.options().format.as_ref();
    if let Some(csv) = format.downcast_ref::<CsvFormat>() {
        format!("csv {:?}", csv.options())
    } else if let Some(json) = format.downcast_ref::<JsonFormat>() {
        format!("json {:?}", json.options())
    } else {
        format.get_ext()
    }
}

/// The path of a file below the table's; of a table that is one file, its name.
fn relative(table: &ListingTable, location: &Path) -> String {
    for (index, url) in table.table_paths().iter().enumerate() {
        if let Some(segments) = url.strip_prefix(location) {
            let segments: Vec<_> = segments.collect();
            let below = segments.join("/");
            let below = if below.is_empty() {
                location.filename().unwrap_or_default().to_owned()
            } else {
                below
            };
            return format!("{index}/{below}");
        }
    }
    location.as_ref().to_owned()
}
