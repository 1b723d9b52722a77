//! The `serve` command: opens tables, listens, and drains when a signal comes.

mod addresses;
mod tables;

use std::fmt::Write as _;
use std::path::Path;

use lightstream_core::protocol::ticket::TicketKey;
use lightstream_core::server::Server;

use self::tables::Tables;
use crate::args::ServeArgs;
use crate::exit::{Failure, Outcome, code};
use crate::list::rows_text;
use crate::signals::Signals;
use crate::terminal::{one_line, print, print_error};

pub async fn run(args: ServeArgs) -> Outcome {
    let urls = addresses::check(&args.listen, args.insecure)?;
    let key = args
        .ticket_key_file
        .as_deref()
        .map(ticket_key)
        .transpose()?;
    let tables = Tables::open(&args.table, args.dir.as_deref()).await?;
    if args.check {
        return print(&described(&tables));
    }
    let mut signals = Signals::listen()?;
    let mut builder = Server::builder();
    if let Some(key) = key {
        builder = builder.ticket_key(key);
    }
    let mut said = String::new();
    if !args.quiet {
        said = format!("transport security: no TLS\n{}", described(&tables));
    }
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    // A place that is taken is no server that does not answer.
    let listening = tables.served_by(builder).listen_all(&urls).await;
    let server = listening
        .map_err(|error| Failure::from(error).recoded(&[code::UNREACHABLE], code::FAILED))?;
    // Whoever started this may have closed its output; that is no reason to stop serving.
    let _ = print(&format!(
        "{}{said}",
        addresses::announced(server.locations())
    ));
    let signal = signals.next().await;
    drain(server, &args, signal, &mut signals).await
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
