//! The `lightstream` command as a user runs it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;
mod logs;
mod looking;
mod monitors;
mod plain;
mod protected;
mod reading;
mod replicas;
mod serving;
mod signals;
