//! Translation between DataFusion and the core: filters, schemas, statistics, orders and errors.
//!
//! Nothing here waits, connects or reads rows.

pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod ordering;
pub(crate) mod schema;
pub(crate) mod statistics;
