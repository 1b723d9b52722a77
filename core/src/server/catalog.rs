//! Catalogs: tables by name, and one catalog in front of another.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;

use super::table::{Catalog, Table};
use crate::error::{Error, Result};
use crate::protocol::table::{TableEntry, TableKind};

/// Tables that were named one by one, in front of a catalog that there may be.
#[derive(Default)]
pub(super) struct NamedTables {
    pub(super) tables: BTreeMap<String, Arc<dyn Table>>,
    pub(super) rest: Option<Arc<dyn Catalog>>,
}

#[async_trait]
impl Catalog for NamedTables {
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TableEntry>> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let named = self
            .tables
            .range::<str, _>((start, Bound::Unbounded))
            .map(|(name, _)| name);
        let mut entries: Vec<TableEntry> = named
            .take_while(|name| name.starts_with(prefix))
            .take(limit)
            .map(|name| TableEntry {
                name: name.clone(),
                kind: TableKind::Table,
            })
            .collect();
        if let Some(rest) = &self.rest {
            entries.extend(rest.list(prefix, after, limit).await?);
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            entries.dedup_by(|a, b| a.name == b.name);
            entries.truncate(limit);
        }
        Ok(entries)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn Table>>> {
        match (self.tables.get(name), &self.rest) {
            (Some(table), _) => Ok(Some(Arc::clone(table))),
            (None, Some(rest)) => rest.table(name).await,
            (None, None) => Ok(None),
        }
    }

    async fn listed_name(&self, name: &str) -> Result<String> {
        match &self.rest {
            Some(rest) if !self.tables.contains_key(name) => rest.listed_name(name).await,
            _ => Ok(name.to_owned()),
        }
    }

    async fn query(&self, sql: &str) -> Result<Arc<dyn Table>> {
        match &self.rest {
            Some(rest) => rest.query(sql).await,
            None => Err(Error::unimplemented("this server answers no SQL queries")),
        }
    }
}
