//! Everything that needs a server and an engine, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod provider_catalog;
mod provider_errors;
mod provider_plans;
mod provider_pushdown;
mod provider_queries;
mod provider_support;
mod serve_catalog;
mod serve_files;
mod serve_filters;
mod serve_over_wire;
mod serve_paths;
mod serve_providers;
mod serving;
