//! The tables of a server as a DataFusion catalog.
//!
//! Knows names; a table is described when a query uses it, so ten thousand tables cost no more than their names.

mod bare_names;
mod names;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;
use lightstream_core::{Client, Error, ErrorCode, Options};

use self::names::{Names, UNQUALIFIED_SCHEMA};
use crate::convert::error;
use crate::table::{LightstreamTable, table_type};

/// The catalog under which [`register_lightstream`] registers.
const DEFAULT_CATALOG: &str = "lightstream";

/// Registers every table of a server: as the catalog `lightstream`, and by bare name in the session's default schema.
///
/// A table `flights` is then `lightstream.public.flights` and `flights`; `sales.orders` is `lightstream.sales.orders`
/// and `"sales.orders"`; of `europe.sales.orders` the schema is `"europe.sales"`. Names are listed here, once; a table
/// is described each time a query is planned that uses it. A table that comes into being later is found by its full
/// name at once, and listed and found by its bare name after [`LightstreamCatalog::refresh`].
///
/// # Errors
/// If the session has a catalog `lightstream` already, or a table under one of the bare names, nothing is registered
/// and the error names it: use [`register_lightstream_as`]. Otherwise a core [`Error`]: `invalid_argument` for a URL
/// that is none or that names a table, `unavailable` where nobody answers.
///
/// # Cancellation
/// Dropping the future leaves the session as it was.
pub async fn register_lightstream(
    ctx: &SessionContext,
    url: &str,
    options: Options,
) -> Result<Arc<LightstreamCatalog>> {
    let catalog = Arc::new(LightstreamCatalog::connect(url, options).await?);
    refuse_catalog_clash(ctx, DEFAULT_CATALOG)?;
    bare_names::register(ctx, &catalog)?;
    ctx.register_catalog(
        DEFAULT_CATALOG,
        Arc::clone(&catalog) as Arc<dyn CatalogProvider>,
    );
    Ok(catalog)
}

/// Registers every table of a server as a catalog of the given name, and nothing else.
///
/// ```no_run
/// # use datafusion::prelude::SessionContext;
/// # use lightstream_datafusion::{Options, register_lightstream_as};
/// # async fn example(ctx: &SessionContext) -> datafusion::error::Result<()> {
/// register_lightstream_as(ctx, "north", "lightstream://north:7654", Options::default()).await?;
/// register_lightstream_as(ctx, "south", "lightstream://south:7654", Options::default()).await?;
/// let both = "SELECT * FROM north.public.flights UNION ALL SELECT * FROM south.public.flights";
/// ctx.sql(both).await?.show().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`register_lightstream`]; the clash is with a catalog of the given name.
///
/// # Cancellation
/// Dropping the future leaves the session as it was.
pub async fn register_lightstream_as(
    ctx: &SessionContext,
    name: &str,
    url: &str,
    options: Options,
) -> Result<Arc<LightstreamCatalog>> {
    let catalog = Arc::new(LightstreamCatalog::connect(url, options).await?);
    refuse_catalog_clash(ctx, name)?;
    ctx.register_catalog(name, Arc::clone(&catalog) as Arc<dyn CatalogProvider>);
    Ok(catalog)
}

fn refuse_catalog_clash(ctx: &SessionContext, name: &str) -> Result<()> {
    if ctx.catalog(name).is_some() {
        return Err(DataFusionError::Configuration(format!(
            "the session has a catalog {name:?} already: choose another name with register_lightstream_as"
        )));
    }
    Ok(())
}

/// The tables of a server, by schema.
#[derive(Clone)]
pub struct LightstreamCatalog {
    client: Client,
    names: Arc<RwLock<Names>>,
}

impl LightstreamCatalog {
    /// Connects to a server and lists its tables, without registering them anywhere.
    ///
    /// # Errors
    /// A core [`Error`]: `invalid_argument` for a URL that is none or that names a table, `unavailable` where nobody
    /// answers.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let client = Client::connect(url, options)
            .await
            .map_err(error::external)?;
        if let Some(table) = client.table_name() {
            let failure = Error::invalid_argument(
                "a whole server is registered, but the URL names a table: leave it out, or use LightstreamTable::connect",
            );
            return Err(error::of_table(&client, table, failure));
        }
        let catalog = Self {
            client,
            names: Arc::default(),
        };
        catalog.refresh().await?;
        Ok(catalog)
    }

    /// The client that the tables are read through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Lists the server's tables anew.
    ///
    /// # Errors
    /// A core [`Error`] if the server cannot be asked; the names known before stay.
    ///
    /// # Cancellation
    /// If the future is dropped, the names known before stay.
    pub async fn refresh(&self) -> Result<()> {
        let entries = self.client.tables("").await.map_err(|failure| {
            error::external(
                failure
                    .with_peer(self.client.location().to_string())
                    .context("listing tables"),
            )
        })?;
        let names = Names::new(entries);
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(())
    }

    fn with_names<T>(&self, read: impl FnOnce(&Names) -> T) -> T {
        read(&self.names.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Describes a table by the name the server knows it under; `None` where there is none.
    async fn describe(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match LightstreamTable::try_new(self.client.clone(), name).await {
            Ok(table) => Ok(Some(Arc::new(table))),
            Err(failure) => match error::lightstream_error(&failure).map(Error::code) {
                Some(ErrorCode::NotFound) => Ok(None),
                _ => Err(failure),
            },
        }
    }
}

impl fmt::Debug for LightstreamCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LightstreamCatalog")
            .field("location", &self.client.location().to_string())
            .finish_non_exhaustive()
    }
}

impl CatalogProvider for LightstreamCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.with_names(Names::schemas)
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.with_names(|names| names.has_schema(name)).then(|| {
            Arc::new(RemoteSchema {
                catalog: self.clone(),
                schema: name.to_owned(),
            }) as Arc<dyn SchemaProvider>
        })
    }
}

/// One schema of a server.
#[derive(Debug)]
struct RemoteSchema {
    catalog: LightstreamCatalog,
    schema: String,
}

#[async_trait]
impl SchemaProvider for RemoteSchema {
    fn table_names(&self) -> Vec<String> {
        self.catalog
            .with_names(|names| names.tables_of(&self.schema))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        // A name that is not listed may have come into being since.
        let known = self
            .catalog
            .with_names(|names| names.full_name(&self.schema, name));
        let full_name = match known {
            Some(full_name) => full_name,
            None if self.schema == UNQUALIFIED_SCHEMA => name.to_owned(),
            None => format!("{}.{name}", self.schema),
        };
        self.catalog.describe(&full_name).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let known = self
            .catalog
            .with_names(|names| names.kind(&self.schema, name));
        match known {
            Some(kind) => Ok(Some(table_type(kind))),
            None => Ok(self.table(name).await?.map(|table| table.table_type())),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog
            .with_names(|names| names.full_name(&self.schema, name).is_some())
    }
}
