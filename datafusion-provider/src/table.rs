//! A remote table as a DataFusion [`TableProvider`].
//!
//! Describes itself and hands scans on; what is asked of the server is in `scan`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use lightstream_core::protocol::table::{TableInfo, TableKind};
use lightstream_core::{Client, Error, Options};

use crate::convert::{error, filter, statistics};
use crate::scan;

/// A table of a remote server.
///
/// Schema and abilities are those the table had when it was described; each query is planned at the server anew and
/// sees the newest rows, unless the option `snapshot` pins them. Should the schema change meanwhile, queries fail with
/// the difference until the table is described again.
///
/// ```no_run
/// use std::sync::Arc;
/// use datafusion::prelude::SessionContext;
/// use lightstream_datafusion::{LightstreamTable, Options};
///
/// # async fn example() -> datafusion::error::Result<()> {
/// let table = LightstreamTable::connect("lightstream://127.0.0.1:7654/flights", Options::default()).await?;
/// let ctx = SessionContext::new();
/// ctx.register_table("flights", Arc::new(table))?;
/// ctx.sql("SELECT carrier, avg(arr_delay) FROM flights WHERE month = 7 GROUP BY carrier").await?.show().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LightstreamTable {
    client: Client,
    info: Arc<TableInfo>,
}

impl LightstreamTable {
    /// Connects to a server and describes the table that the URL names.
    ///
    /// # Errors
    /// A core [`Error`] (see [`lightstream_error`](crate::lightstream_error)): `invalid_argument` for a URL that is
    /// none or names no table, `not_found` where there is no such table, `unavailable` where nobody answers.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let client = Client::connect(url, options)
            .await
            .map_err(error::external)?;
        let Some(name) = client.table_name().map(str::to_owned) else {
            return Err(error::external(
                Error::invalid_argument(
                    "the URL names a server but no table: append its name, as in lightstream://host:7654/flights, or \
                     register all of them with register_lightstream",
                )
                .with_peer(client.location().to_string()),
            ));
        };
        Self::try_new(client, name).await
    }

    /// Describes a table of a server that is connected to already. Names are case-sensitive.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn try_new(client: Client, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let snapshot = client.options().snapshot.clone();
        let info = client
            .describe(&name, snapshot.as_deref())
            .await
            .map_err(|failure| error::of_table(&client, &name, failure))?;
        Ok(Self {
            client,
            info: Arc::new(info),
        })
    }

    /// The client that the table is read through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What the server said of the table when it was described.
    pub fn info(&self) -> &TableInfo {
        &self.info
    }

    /// Whether every query reads the snapshot that was described.
    pub(crate) fn is_pinned(&self) -> bool {
        self.client.options().snapshot.is_some()
    }

    /// What the server can be asked to apply of a filter.
    pub(crate) fn conjunct(&self, filter: &Expr) -> Option<filter::Conjunct> {
        filter::conjunct(
            filter,
            &self.info.schema,
            self.info.capabilities.exact_filters,
        )
    }
}

impl fmt::Debug for LightstreamTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LightstreamTable")
            .field("location", &self.client.location().to_string())
            .field("table", &self.info.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for LightstreamTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.info.schema)
    }

    fn table_type(&self) -> TableType {
        table_type(self.info.kind)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        scan::plan(self, state, projection.map(Vec::as_slice), filters, limit).await
    }

    async fn scan_with_args<'a>(
        &self,
        state: &dyn Session,
        args: ScanArgs<'a>,
    ) -> Result<ScanResult> {
        let filters = args.filters().unwrap_or_default();
        Ok(
            scan::plan(self, state, args.projection(), filters, args.limit())
                .await?
                .into(),
        )
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| filter::pushdown(self.conjunct(filter).as_ref()))
            .collect())
    }

    /// Estimates, unless a snapshot is pinned: a scan may see newer rows. The scan itself knows better.
    fn statistics(&self) -> Option<Statistics> {
        let known = statistics::statistics(&self.info.statistics, &self.info.schema);
        Some(if self.is_pinned() {
            known
        } else {
            known.to_inexact()
        })
    }
}

/// What DataFusion calls the kind of table.
pub(crate) fn table_type(kind: TableKind) -> TableType {
    match kind {
        TableKind::Table => TableType::Base,
        TableKind::View => TableType::View,
    }
}
