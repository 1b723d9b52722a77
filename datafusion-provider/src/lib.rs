//! Remote Lightstream servers as DataFusion tables, and DataFusion sessions as Lightstream servers.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod serve;
