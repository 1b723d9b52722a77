//! Serving what DataFusion knows: any [`SessionContext`](datafusion::prelude::SessionContext) as a catalog of tables.
//!
//! DataFusion evaluates; how rows travel is the core's business.

mod catalog;
mod core_condition;
mod errors;
mod file_scan;
mod file_table;
mod filters;
mod partition_values;
mod paths;
mod plan_scan;
mod provider_table;
mod rows;
mod scan_memory;
mod session;
mod snapshot;
mod statistics;
mod units;

pub use catalog::DataFusionCatalog;
pub use paths::register_path;
pub use scan_memory::ScanMemory;
