//! Integration tests of the core, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod credentials;
mod filter_conformance;
mod filter_properties;
mod filter_sql;
mod grants;
mod ipc_corruption;
mod ipc_framing;
mod ipc_golden;
mod ipc_limits;
mod ipc_payloads;
mod lifetimes;
mod limits;
mod metrics;
mod offsets;
mod plain;
mod planned_scans;
mod proto;
mod replicas;
mod retries;
mod round_trips;
mod scans;
mod security;
mod stream_tables;
mod tls;
mod traces;
