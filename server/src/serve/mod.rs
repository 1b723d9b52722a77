//! The `serve` command: opens tables, listens, and drains when a signal comes.

mod addresses;
mod http;
mod metrics;
mod tables;

use std::fmt::Write as _;
use std::path::Path;

use lightstream_core::protocol::ticket::TicketKey;
use lightstream_core::server::{Server, ServerLimits, TlsFiles, TokenFile};
use tokio::signal::unix::Signal;
use tokio::task::JoinSet;

use self::addresses::Protection;
use self::http::HttpListener;
use self::metrics::Metrics;
use self::tables::{QueryMemory, Tables};
use crate::args::ServeArgs;
use crate::exit::{Failure, Outcome, code};
use crate::list::rows_text;
use crate::signals::{Signals, hang_ups};
use crate::terminal::{one_line, print, print_error};

pub async fn run(args: ServeArgs) -> Outcome {
    let urls = addresses::check(
        &args.listen,
        Protection {
            has_certificate: args.tls_cert.is_some(),
            asks_who: args.token_file.is_some() || args.tls_client_ca.is_some(),
            insecure: args.insecure,
        },
    )?;
    if let Some(address) = &args.http {
        http::check(address, args.insecure)?;
    }
    let key = args
        .ticket_key_file
        .as_deref()
        .map(ticket_key)
        .transpose()?;
    let tokens = args
        .token_file
        .as_ref()
        .map(TokenFile::try_new)
        .transpose()?;
    let memory = QueryMemory {
        together: args.memory_limit,
        of_each: args.scan_memory_limit,
    };
    let tables = Tables::open(&args.table, args.dir.as_deref(), memory).await?;
    if args.check {
        return print(&described(&tables));
    }
    let mut signals = Signals::listen()?;
    let hang_ups = hang_ups()?;
    let mut builder = Server::builder().limits(limits(&args));
    for url in &args.advertise {
        builder = builder.advertise(url);
    }
    for url in &args.peer {
        builder = builder.peer(url);
    }
    if let Some(key) = key {
        builder = builder.ticket_key(key);
    }
    if let Some(tokens) = tokens {
        builder = builder.authenticator(tokens);
    }
    if let Some(files) = certificate(&args) {
        builder = builder.tls(files);
    }
    let mut said = String::new();
    if !args.quiet {
        said = format!(
            "transport security: {}\n{}",
            security(&args),
            described(&tables)
        );
    }
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let monitors = match &args.http {
        Some(address) => Some(HttpListener::bind(address).await?),
        None => None,
    };
    let query_memory = tables.query_memory();
    // A place that is taken is no server that does not answer.
    let listening = tables.served_by(builder).listen_all(&urls).await;
    let server = listening
        .map_err(|error| Failure::from(error).recoded(&[code::UNREACHABLE], code::FAILED))?;
    let mut addresses = addresses::announced(server.locations());
    // Monitors are answered until the server has drained.
    let mut monitoring = JoinSet::new();
    if let Some(monitors) = monitors {
        let _ = writeln!(addresses, "metrics http://{}/metrics", monitors.address());
        let metrics = Metrics {
            stats: server.stats_reader(),
            query_memory,
        };
        monitoring.spawn(monitors.serve(metrics));
    }
    // Whoever started this may have closed its output; that is no reason to stop serving.
    let _ = print(&format!("{addresses}{said}"));
    let signal = until_signal(&server, &mut signals, hang_ups).await;
    drain(server, &args, signal, &mut signals).await
}

fn limits(args: &ServeArgs) -> ServerLimits {
    let mut limits = ServerLimits::default();
    if let Some(most) = args.max_connections {
        limits.max_connections = most;
    }
    if let Some(most) = args.max_scans {
        limits.max_scans = most;
    }
    if let Some(keepalive) = args.keepalive {
        limits.keepalive = keepalive;
    }
    limits
}

fn certificate(args: &ServeArgs) -> Option<TlsFiles> {
    Some(TlsFiles {
        cert: args.tls_cert.clone()?,
        key: args.tls_key.clone()?,
        client_ca: args.tls_client_ca.clone(),
    })
}

/// What protects connections and asks who clients are, in words.
fn security(args: &ServeArgs) -> String {
    let tls = match (&args.tls_cert, &args.tls_client_ca) {
        (None, _) => "no TLS",
        (Some(_), None) => "TLS 1.3",
        (Some(_), Some(_)) => "TLS 1.3 with client certificates",
    };
    let tokens = if args.token_file.is_some() {
        ", tokens"
    } else {
        ""
    };
    format!("{tls}{tokens}")
}

/// Waits for a signal to end. Until then files are read again with each SIGHUP.
async fn until_signal(server: &Server, signals: &mut Signals, mut hang_ups: Signal) -> u8 {
    loop {
        tokio::select! {
            signal = signals.next() => return signal,
            Some(()) = hang_ups.recv() => {
                if let Err(error) = server.reload() {
                    print_error(&Failure::from(error).context("SIGHUP").report());
                }
            }
        }
    }
}

/// Lets scans under way finish, for as long as there is patience or until a second signal.
async fn drain(server: Server, args: &ServeArgs, signal: u8, signals: &mut Signals) -> Outcome {
    if !args.quiet {
        let scans = server.stats().active_scans;
        print_error(&format!(
            "signal {signal}: {scans} scans under way may finish within {:?}; a second signal ends them",
            args.drain
        ));
    }
    tokio::select! {
        finished = server.shutdown(args.drain) => {
            if !finished && !args.quiet {
                print_error("scans that were still under way were ended");
            }
            Ok(())
        }
        signal = signals.next() => Err(Failure::interrupted(signal)),
    }
}

/// A line for each table.
fn described(tables: &Tables) -> String {
    let mut text = String::new();
    for table in tables.iter() {
        let rows = rows_text(table.rows);
        let _ = writeln!(
            text,
            "table {}: {rows} rows, {} columns",
            one_line(&table.name),
            table.columns
        );
    }
    text
}

fn ticket_key(file: &Path) -> Outcome<TicketKey> {
    let named = || format!("--ticket-key-file {}", file.display());
    let secret = std::fs::read(file).map_err(|error| Failure::io(named(), error))?;
    TicketKey::from_secret(&secret).map_err(|error| Failure::from(error).context(named()))
}
