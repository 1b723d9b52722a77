//! `transport`: tables sent from one process to another by Lightstream, Arrow Flight and raw TCP, measured side by side.
//!
//! It measures transports alone; query engines are not its business.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod hosts;
mod matrix;
mod messages;
mod receiver;
mod report;
mod sender;
mod shapes;
mod systems;
mod verify;

use clap::Parser;
use lightstream_benchmarks::{Result, flight, machine, measure, output, process, random, raw_tcp};

use args::{Args, Role};

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let done = match &args.role {
        Some(Role::Sender { spec }) => sender::run(spec),
        Some(Role::Receiver { spec }) => receiver::run(spec),
        None => match &args.listen {
            Some(url) => hosts::listen(url),
            None => matrix::run(&args),
        },
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transport: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
