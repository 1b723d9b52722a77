//! Local paths as tables: a file, a folder of files, a glob, a folder of `key=value` folders.
//!
//! Goes by file names alone to tell formats apart.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::SessionState;
use datafusion::execution::context::SessionContext;
use futures::TryStreamExt;
use lightstream_core::{Error, Result};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use super::errors::core_error;
use super::session;

/// Registers a local path as a table of the default schema, whose schema is inferred from its files.
///
/// The path is a file, a folder of files, a folder of `key=value` folders, whose keys become columns, or a glob. All
/// files have one extension: `.parquet`, `.csv` (with a header), `.ndjson`, `.jsonl` or `.json` (one object a line), or
/// `.arrow` or `.feather`. A glob over folders stands for the files that match now, one over the files of a folder for
/// those that match when the table is scanned. Files that begin with `.` or `_` do not count.
///
/// # Errors
/// Each names the path. `not_found` where nothing is there; `invalid_argument` where no file or more than one kind of
/// files is there, or files of an extension that is not known; and whatever keeps their schema from being inferred.
pub async fn register_path(
    context: &SessionContext,
    name: &str,
    path: impl AsRef<Path>,
) -> Result<()> {
    let path = path.as_ref();
    let table = table_at(context, path)
        .await
        .map_err(|error| error.context(format!("{}", path.display())))?;
    // The name as it is, not as SQL would read it.
    let name = datafusion::common::TableReference::bare(name);
    let registered = context.register_table(name, Arc::new(table));
    registered
        .map(drop)
        .map_err(|error| core_error(&format!("{}: registering the table", path.display()), error))
}

async fn table_at(context: &SessionContext, path: &Path) -> Result<ListingTable> {
    let failed = |error| core_error("inferring the schema of the files", error);
    let state = session::in_order(&context.state())?;
    let urls = urls_of(path)?;
    let extension = only_extension(&state, &urls, path).await?;
    let format = format_of(&state, &extension)?;
    let options = ListingOptions::new(format).with_file_extension(extension);
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
    let config = config
        .infer_partitions_from_path(&state)
        .await
        .map_err(failed)?;
    let config = config.infer_schema(&state).await.map_err(failed)?;
    Ok(ListingTable::try_new(config)
        .map_err(failed)?
        .with_cache(None))
}

const WILDCARDS: [char; 3] = ['*', '?', '['];

/// A glob over folders is looked up here and now, since DataFusion only matches the names of files.
fn urls_of(path: &Path) -> Result<Vec<ListingTableUrl>> {
    let is_over_folders = path
        .parent()
        .and_then(Path::to_str)
        .is_some_and(|folder| folder.contains(WILDCARDS));
    let (true, false, Some(pattern)) = (is_over_folders, path.exists(), path.to_str()) else {
        return Ok(vec![url_of(path)?]);
    };
    let matches = glob::glob(pattern)
        .map_err(|error| Error::invalid_argument("the path is no glob").with_source(error))?;
    let mut urls = Vec::new();
    for found in matches {
        let found = found
            .map_err(|error| Error::not_found("a folder cannot be read").with_source(error))?;
        let name = found.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| !name.starts_with(['.', '_'])) {
            urls.push(url_of(&found)?);
        }
    }
    if urls.is_empty() {
        return Err(Error::not_found("no file matches"));
    }
    Ok(urls)
}

/// A path that exists is taken as it is, even with characters that a glob would have.
fn url_of(path: &Path) -> Result<ListingTableUrl> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::invalid_argument("the path is not UTF-8"))?;
    let url = match path.canonicalize() {
        Ok(found) => {
            let parts = found.components().filter_map(|part| match part {
                std::path::Component::Normal(part) => part.to_str(),
                _ => None,
            });
            let mut url = String::from("file://");
            for part in parts {
                url.push('/');
                url.extend(percent_encode(part.as_bytes(), NON_ALPHANUMERIC));
            }
            if found.is_dir() {
                url.push('/');
            }
            ListingTableUrl::parse(url)
        }
        Err(error) if !text.contains(WILDCARDS) => {
            let message = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    return Err(Error::not_found("there is no such file or folder"));
                }
                _ => format!("the path cannot be read: {error}"),
            };
            return Err(Error::not_found(message).with_source(error));
        }
        Err(_) => ListingTableUrl::parse(text),
    };
    url.map_err(|error| core_error("reading the path", error))
}

/// The extension that all files have.
async fn only_extension(
    state: &SessionState,
    urls: &[ListingTableUrl],
    path: &Path,
) -> Result<String> {
    let failed = |error| core_error("listing the files", error);
    let mut files = Vec::new();
    for url in urls {
        let store = state.runtime_env().object_store(url).map_err(failed)?;
        let listed = url
            .list_all_files(state, store.as_ref(), "")
            .await
            .map_err(failed)?;
        files.extend(listed.try_collect::<Vec<_>>().await.map_err(failed)?);
    }
    let names = files.iter().filter_map(|file| file.location.filename());
    let extensions: BTreeSet<String> = names
        .filter(|name| !name.starts_with(['.', '_']))
        .map(|name| {
            name.rsplit_once('.')
                .map(|(_, extension)| format!(".{extension}"))
                .unwrap_or_default()
        })
        .collect();
    let mut extensions = extensions.into_iter();
    match (extensions.next(), extensions.next()) {
        (None, _) if path.is_dir() => Err(Error::invalid_argument(
            "the folder holds no files: only those right in it or in key=value folders count",
        )),
        (None, _) => Err(Error::not_found("no file matches")),
        (Some(only), None) => Ok(only),
        (Some(first), Some(second)) => Err(Error::invalid_argument(format!(
            "files of one table have one extension, but here are {first:?} and {second:?}; a glob can choose"
        ))),
    }
}

fn format_of(state: &SessionState, extension: &str) -> Result<Arc<dyn FileFormat>> {
    let options = state.default_table_options();
    Ok(match extension.to_ascii_lowercase().as_str() {
        ".parquet" => Arc::new(ParquetFormat::new().with_options(options.parquet)),
        ".csv" => Arc::new(
            CsvFormat::default()
                .with_options(options.csv)
                .with_has_header(true),
        ),
        ".ndjson" | ".jsonl" | ".json" => {
            Arc::new(JsonFormat::default().with_options(options.json))
        }
        ".arrow" | ".feather" => Arc::new(ArrowFormat),
        _ => {
            return Err(Error::invalid_argument(format!(
                "{extension:?} is no extension that is known: .parquet, .csv, .ndjson, .jsonl, .json, .arrow, .feather"
            )));
        }
    })
}
