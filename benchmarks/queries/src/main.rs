//! `queries`: DataFusion timed end to end over local tables, remote ones by Lightstream, and remote ones by Arrow Flight.
//!
//! It measures whole queries; what the transports alone can do is the business of `transport`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod client;
mod data;
mod flight;
mod messages;
mod query;
mod race;
mod report;
mod server;
mod system;
mod wide;

use clap::Parser;

use args::{Args, Role};

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let done = match &args.role {
        Some(Role::Serve { spec }) => server::run(spec),
        Some(Role::Client { spec }) => client::run(spec),
        None => race::run(&args),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("queries: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
