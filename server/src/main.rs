//! The `lightstream` command.
//!
//! Reads the command line and turns failures into exit codes; what each command does stands in a file of its own.

mod args;
mod cat;
mod exit;
mod list;
mod output;
mod serve;
mod signals;
mod terminal;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use self::args::{Command, CommandLine};
use self::exit::{Failure, Outcome};
use self::signals::Signals;

/// Threads of a command that reads from one server.
const CLIENT_THREADS: usize = 2;

/// How long an interrupted command may take to end by itself.
const CLEAN_UP: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    match start(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let report = failure.report();
            if !report.is_empty() {
                terminal::print_error(&report);
            }
            ExitCode::from(failure.code())
        }
    }
}

fn start(command: Command) -> Outcome {
    log_to_stderr()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if !matches!(command, Command::Serve(_)) {
        runtime.worker_threads(CLIENT_THREADS);
    }
    let runtime = runtime.enable_all().build().map_err(|error| {
        Failure::failed(format!("the async runtime could not be started: {error}"))
    })?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(*args).await,
            Command::Ls(args) => until_signal(list::ls(args)).await,
            Command::Schema(args) => until_signal(list::schema(args)).await,
            Command::Head(args) => until_signal(cat::head(args)).await,
            Command::Cat(args) => until_signal(cat::cat(args)).await,
            Command::Ping(args) => until_signal(list::ping(args)).await,
        }
    });
    // A thread may be stuck in a write to a pipe that nobody reads.
    runtime.shutdown_background();
    outcome
}

fn log_to_stderr() -> Outcome {
    let wanted = std::env::var("LIGHTSTREAM_LOG").unwrap_or_else(|_| "warn".to_owned());
    let level: tracing_subscriber::filter::LevelFilter = wanted.parse().map_err(|_| {
        Failure::usage(format!(
            "environment variable LIGHTSTREAM_LOG does not take the value {wanted:?}: \
             expected off, error, warn, info, debug or trace"
        ))
    })?;
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// Runs a command to its end, or until a signal comes. It runs apart, since a write to a pipe may block its thread.
async fn until_signal(command: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    let mut signals = Signals::listen()?;
    let mut task = tokio::spawn(command);
    tokio::select! {
        done = &mut task => done.unwrap_or_else(|error| Err(Failure::failed(format!("a fault in this command: {error}")))),
        signal = signals.next() => {
            task.abort();
            let _ = tokio::time::timeout(CLEAN_UP, &mut task).await;
            output::remove_partial();
            Err(Failure::interrupted(signal))
        }
    }
}
