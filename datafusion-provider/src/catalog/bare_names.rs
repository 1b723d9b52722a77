//! The tables of a server in the session's default schema, beside what stands there already.
//!
//! Local tables go first and stay writable; nothing is copied and nothing is described before it is used.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;

use super::LightstreamCatalog;
use super::names::Names;
use crate::table::table_type;

/// How many clashing names an error lists.
const CLASHES_NAMED: usize = 5;

/// Puts the names of a server over the session's default schema. A session without one is left alone.
pub(super) fn register(ctx: &SessionContext, catalog: &LightstreamCatalog) -> Result<()> {
    let state = ctx.state();
    let defaults = &state.config().options().catalog;
    let Some(session_catalog) = ctx.catalog(&defaults.default_catalog) else {
        return Ok(());
    };
    let Some(local) = session_catalog.schema(&defaults.default_schema) else {
        return Ok(());
    };

    let clashes: Vec<String> = catalog.with_names(|names| {
        names
            .whole()
            .filter(|name| local.table_exist(name))
            .map(|name| format!("{name:?}"))
            .collect()
    });
    if !clashes.is_empty() {
        let more = clashes.len().saturating_sub(CLASHES_NAMED);
        let listed = clashes[..clashes.len() - more].join(", ");
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        return Err(DataFusionError::Configuration(format!(
            "the session has tables of the same names as the server at {}: {listed}{more}; use register_lightstream_as, \
             which registers the catalog alone",
            catalog.client().location()
        )));
    }
    let layered = Arc::new(BareNames {
        local,
        remote: catalog.clone(),
    });
    session_catalog.register_schema(&defaults.default_schema, layered)?;
    Ok(())
}

/// A schema of the session with the names of a server behind its own.
#[derive(Debug)]
pub(super) struct BareNames {
    local: Arc<dyn SchemaProvider>,
    remote: LightstreamCatalog,
}

#[async_trait]
impl SchemaProvider for BareNames {
    fn owner_name(&self) -> Option<&str> {
        self.local.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        let mut all: BTreeSet<String> = self.local.table_names().into_iter().collect();
        self.remote
            .with_names(|names| all.extend(names.whole().map(str::to_owned)));
        all.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.local.table(name).await? {
            Some(table) => Ok(Some(table)),
            // Table functions and slips of the pen are looked up here too: no server is asked about those.
            None if self.is_remote(name) => self.remote.describe(name).await,
            None => Ok(None),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if let Some(kind) = self.local.table_type(name).await? {
            return Ok(Some(kind));
        }
        Ok(self
            .remote
            .with_names(|names| names.whole_kind(name))
            .map(table_type))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.local.table_exist(&name) && self.is_remote(&name) {
            return Err(DataFusionError::Configuration(format!(
                "{name:?} is a table of the server at {}: register under another name",
                self.remote.client().location()
            )));
        }
        self.local.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.local.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.local.table_exist(name) || self.is_remote(name)
    }
}

impl BareNames {
    fn is_remote(&self, name: &str) -> bool {
        self.remote
            .with_names(|names: &Names| names.whole_kind(name).is_some())
    }
}
