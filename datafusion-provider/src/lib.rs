//! Remote Lightstream servers as DataFusion tables, and DataFusion sessions as Lightstream servers (see [`serve`]).
//!
//! # What it is for
//!
//! A query that reads a table on another machine. The server is told which columns, rows and how many of them are
//! wanted and sends nothing else; its partitions become partitions of the DataFusion plan, so a scan is as parallel
//! as the query; a stream that ends has been confirmed row by row, and one that breaks is resumed or fails with an
//! error that says so. Nothing is cached and nothing is written to disk.
//!
//! # Every table of a server
//!
//! ```no_run
//! use datafusion::prelude::SessionContext;
//! use lightstream_datafusion::{Options, register_lightstream};
//!
//! # async fn example() -> datafusion::error::Result<()> {
//! let ctx = SessionContext::new();
//! register_lightstream(&ctx, "lightstream://127.0.0.1:7654", Options::default()).await?;
//! ctx.sql("SELECT count(*) FROM flights").await?.show().await?;
//! ctx.sql("SELECT count(*) FROM lightstream.public.flights").await?.show().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Several servers stand side by side under names of their own, with [`register_lightstream_as`]. For one table, under
//! whatever name, see [`LightstreamTable`]. Names are case-sensitive; SQL folds what is not quoted to lower case.
//!
//! # What the server does, and what DataFusion does
//!
//! | of a query | where it is done |
//! |---|---|
//! | columns | at the server, always |
//! | a filter that means the same on both sides | at the server alone |
//! | a filter of which the server can do a part | at the server in part, then in DataFusion |
//! | any other filter | in DataFusion |
//! | `LIMIT` | at the server for each partition, if it does every filter; then in DataFusion |
//! | `count(*)`, `min` and `max` without a filter | answered from statistics, where they are exact |
//! | joins, aggregates, sorts, windows | in DataFusion |
//!
//! `EXPLAIN` shows it: `LightstreamExec: location=…, table=…, snapshot=…, partitions=…, projection=[…], filters=[…]
//! (exact), limit=…`, without secrets.
//!
//! # Partitions and order
//!
//! A scan asks for `datafusion.execution.target_partitions` partitions, or as many as the option `partitions` says; if
//! more come, neighbours are read one after the other. Where the server knows the order of a table DataFusion is told,
//! for each partition, and leaves out sorts that it does not need.
//!
//! # Runtime
//!
//! Futures and streams must be polled within a tokio runtime that has I/O and time enabled, as DataFusion itself does.
//!
//! # Errors
//!
//! Failures of server and connection are `lightstream_core` errors within `DataFusionError::External`;
//! [`lightstream_error`] finds them again.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod catalog;
mod convert;
mod exec;
mod scan;
pub mod serve;
mod share;
mod stream;
mod table;

pub use catalog::{LightstreamCatalog, register_lightstream, register_lightstream_as};
pub use convert::error::lightstream_error;
pub use exec::LightstreamExec;
pub use lightstream_core::{Client, Options};
pub use table::LightstreamTable;
