//! Integration tests of the DataFusion crate, linked once.

mod serve_catalog;
mod serve_files;
mod serve_filters;
mod serve_paths;
mod serve_providers;
mod serving;
