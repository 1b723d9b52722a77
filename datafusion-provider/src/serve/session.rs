//! The settings under which served tables are planned.
//!
//! Everything else of the caller's session stays: catalogs, functions, optimizer rules, object stores, memory limits.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use lightstream_core::Result;

use super::errors::core_error;
use super::scan_memory::{ScanMemory, Share};

/// The session with plans of one partition, each of whose file scans reads its files in order.
pub(super) fn in_order(state: &SessionState) -> Result<SessionState> {
    derive(state, Some(1))
}

/// The session with as many partitions as the caller set.
pub(super) fn in_parallel(state: &SessionState) -> Result<SessionState> {
    derive(state, None)
}

fn derive(state: &SessionState, target_partitions: Option<usize>) -> Result<SessionState> {
    // DataFusion remembers listings without end: a file that was replaced since would be read by its old size.
    let shared = state.runtime_env();
    let mut runtime = RuntimeEnvBuilder::from_runtime_env(shared).with_object_list_cache_limit(0);
    if let Some(limit) = state.config().get_extension::<ScanMemory>() {
        let share = Share::of(&shared.memory_pool, *limit);
        runtime = runtime.with_memory_pool(Arc::new(share));
    }
    let runtime = runtime
        .build()
        .map_err(|error| core_error("preparing a session", error))?;
    let mut config = state.config().clone();
    let options = config.options_mut();
    // Else building the session would put an empty catalog in place of the caller's default one.
    options.catalog.create_default_catalog_and_schema = false;
    // Sibling partitions would take files from one another.
    options.execution.enable_file_stream_work_stealing = false;
    if let Some(target_partitions) = target_partitions {
        options.execution.target_partitions = target_partitions;
        // Statistics of files are read by `units`, once.
        options.execution.collect_statistics = false;
        options.execution.split_file_groups_by_statistics = false;
        options.optimizer.enable_round_robin_repartition = false;
        options.optimizer.repartition_file_scans = false;
        options.optimizer.preserve_file_partitions = 0;
    }
    Ok(SessionStateBuilder::new_from_existing(state.clone())
        .with_config(config)
        .with_runtime_env(Arc::new(runtime))
        .build())
}
