//! The tables of a session by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::TableType;
use lightstream_core::Result;
use lightstream_core::protocol::table::{TableEntry, TableKind};
use lightstream_core::server::{Catalog, Table};

use super::errors::core_error;
use super::file_table::FileTable;
use super::provider_table::ProviderTable;
use super::units::LayoutCache;

/// What DataFusion puts beside the tables of a catalog to describe them.
const INFORMATION_SCHEMA: &str = "information_schema";

/// Everything that a [`SessionContext`] knows, as a catalog to serve: the tables of all its catalogs and schemas, and
/// the results of read-only queries in its SQL.
///
/// A table of Parquet, CSV, NDJSON or Arrow IPC files is cut into partitions that any process over the same files can
/// read, resume and stripe, and has a snapshot that lasts for as long as its files do. Every other table is read as one
/// partition.
///
/// Tables of the default schema go by their own names, others as `schema.table` or `catalog.schema.table`. A name is
/// looked for as a whole first, then cut at its dots. Names are case-sensitive.
///
/// ```
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// use datafusion::prelude::{ParquetReadOptions, SessionContext};
/// use lightstream_core::server::Catalog;
/// use lightstream_datafusion::serve::DataFusionCatalog;
///
/// let context = SessionContext::new();
/// context.register_parquet("flights", "flights.parquet", ParquetReadOptions::default()).await?;
/// let catalog = DataFusionCatalog::new(context);
/// let info = catalog.table("flights").await?.ok_or("no such table")?.describe("flights", None).await?;
/// # Ok(())
/// # }
/// ```
pub struct DataFusionCatalog {
    context: SessionContext,
    layouts: Arc<LayoutCache>,
}

impl DataFusionCatalog {
    /// Serves the tables that the session has now and those that it is given later.
    pub fn new(context: SessionContext) -> Self {
        Self {
            context,
            layouts: Arc::default(),
        }
    }

    fn defaults(&self) -> (String, String) {
        let state = self.context.state_ref();
        let state = state.read();
        let catalog = &state.config_options().catalog;
        (
            catalog.default_catalog.clone(),
            catalog.default_schema.clone(),
        )
    }

    fn schema(&self, catalog: &str, schema: &str) -> Option<Arc<dyn SchemaProvider>> {
        if schema == INFORMATION_SCHEMA {
            return None;
        }
        self.context.catalog(catalog)?.schema(schema)
    }

    /// What the names of a schema's tables start with.
    fn prefix(&self, catalog: &str, schema: &str) -> String {
        let (default_catalog, default_schema) = self.defaults();
        match (catalog == default_catalog, schema == default_schema) {
            (true, true) => String::new(),
            (true, false) => format!("{schema}."),
            (false, _) => format!("{catalog}.{schema}."),
        }
    }

    /// What a name may mean, likeliest first.
    fn meanings(&self, name: &str) -> Vec<Meaning> {
        let (default_catalog, default_schema) = self.defaults();
        let mut meanings = Vec::new();
        let mut add = |catalog: &str, schema: &str, table: &str| {
            if let Some(provider) = self.schema(catalog, schema) {
                meanings.push(Meaning {
                    listed_name: self.prefix(catalog, schema) + table,
                    schema: provider,
                    table: table.to_owned(),
                });
            }
        };
        add(&default_catalog, &default_schema, name);
        for (schema, table) in cuts(name, self.schema_names(&default_catalog)) {
            add(&default_catalog, &schema, table);
        }
        for (catalog, rest) in cuts(name, self.context.catalog_names()) {
            for (schema, table) in cuts(rest, self.schema_names(&catalog)) {
                add(&catalog, &schema, table);
            }
        }
        meanings
    }

    fn schema_names(&self, catalog: &str) -> Vec<String> {
        let catalog = self.context.catalog(catalog);
        catalog.map_or_else(Vec::new, |catalog| catalog.schema_names())
    }

    /// The likeliest of what a name may mean that is there.
    fn meaning(&self, name: &str) -> Option<Meaning> {
        let mut meanings = self.meanings(name).into_iter();
        meanings.find(|meaning| meaning.schema.table_exist(&meaning.table))
    }

    async fn provider(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(Meaning { schema, table, .. }) = self.meaning(name) else {
            return Ok(None);
        };
        let found = schema.table(&table).await;
        found.map_err(|error| core_error("looking for a table", error).with_table(name))
    }

    /// Every name that passes, with what it stands for.
    fn names(
        &self,
        passes: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, (Arc<dyn SchemaProvider>, String)> {
        let mut names = BTreeMap::new();
        for catalog_name in self.context.catalog_names() {
            let Some(catalog) = self.context.catalog(&catalog_name) else {
                continue;
            };
            for schema_name in catalog.schema_names() {
                let prefix = self.prefix(&catalog_name, &schema_name);
                let Some(schema) = served_schema(catalog.as_ref(), &schema_name) else {
                    continue;
                };
                for table in schema.table_names() {
                    let name = format!("{prefix}{table}");
                    if passes(&name) {
                        // Of two tables of one name the shorter prefix is found.
                        let rank = prefix.len();
                        let held =
                            names
                                .entry(name)
                                .or_insert((rank, Arc::clone(&schema), table.clone()));
                        if rank < held.0 {
                            *held = (rank, Arc::clone(&schema), table);
                        }
                    }
                }
            }
        }
        names
            .into_iter()
            .map(|(name, (_, schema, table))| (name, (schema, table)))
            .collect()
    }
}

/// What follows each of these starts and a dot, the shortest start first. The starts that there are get tried, not the
/// dots, of which a client may send any number.
fn cuts(name: &str, starts: Vec<String>) -> Vec<(String, &str)> {
    let mut cuts: Vec<_> = starts
        .into_iter()
        .filter_map(|start| {
            let rest = name.strip_prefix(start.as_str())?.strip_prefix('.')?;
            Some((start, rest))
        })
        .collect();
    cuts.sort_by_key(|(start, _)| start.len());
    cuts
}

/// A table that a name may stand for.
struct Meaning {
    schema: Arc<dyn SchemaProvider>,
    table: String,
    listed_name: String,
}

fn served_schema(catalog: &dyn CatalogProvider, name: &str) -> Option<Arc<dyn SchemaProvider>> {
    if name == INFORMATION_SCHEMA {
        None
    } else {
        catalog.schema(name)
    }
}

#[async_trait]
impl Catalog for DataFusionCatalog {
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TableEntry>> {
        let names =
            self.names(|name| name.starts_with(prefix) && after.is_none_or(|after| name > after));
        let mut entries = Vec::new();
        for (name, (schema, table)) in names.into_iter().take(limit) {
            // What a table is may be slow to find out, so only those of this page are asked.
            let table_type = schema.table_type(&table).await;
            match table_type
                .map_err(|error| core_error("listing tables", error).with_table(name.as_str()))?
            {
                Some(TableType::View) => entries.push(TableEntry {
                    name,
                    kind: TableKind::View,
                }),
                // One that has gone meanwhile stays listed, so that a short page means the last.
                _ => entries.push(TableEntry {
                    name,
                    kind: TableKind::Table,
                }),
            }
        }
        Ok(entries)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn Table>>> {
        let Some(provider) = self.provider(name).await? else {
            return Ok(None);
        };
        Ok(Some(
            match FileTable::try_new(&self.context, &provider, &self.layouts) {
                Some(files) => Arc::new(files),
                None => Arc::new(ProviderTable::of(&self.context, &provider)),
            },
        ))
    }

    async fn listed_name(&self, name: &str) -> Result<String> {
        let meaning = self.meaning(name);
        Ok(meaning.map_or_else(|| name.to_owned(), |meaning| meaning.listed_name))
    }

    async fn query(&self, sql: &str) -> Result<Arc<dyn Table>> {
        Ok(Arc::new(ProviderTable::query(&self.context, sql).await?))
    }
}
