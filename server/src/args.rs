//! The command line: every command, its options and its help.
//!
//! Only what works stands here, so that anything else is refused.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lightstream_core::transport::Location;

const EXIT_CODES: &str = "\
Exit codes:
  0 done   1 failed   2 bad usage   3 not found   4 unauthenticated or denied
  5 server unreachable   6 data damaged or incomplete

Options of a client stand in the URL, as in
  lightstream://127.0.0.1:7654/flights?read_timeout=5s&retries=0
or in environment variables, as in LIGHTSTREAM_READ_TIMEOUT=5s.
LIGHTSTREAM_LOG=error|warn|info|debug|trace says how much is logged on stderr (default warn).";

/// Serve tables to query engines, and look into remote ones.
#[derive(Debug, Parser)]
#[command(name = "lightstream", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Box<ServeArgs>),
    Ls(LsArgs),
    Schema(SchemaArgs),
    Head(HeadArgs),
    Cat(CatArgs),
    Ping(PingArgs),
}

/// Serve files as tables, until SIGINT or SIGTERM.
///
/// The first line on stdout is `listening on URL`, one line for each address; then come transport security and the
/// tables with their rows.
///
/// A signal ends it gently: no connection is accepted any more, scans under way may finish for as long as --drain says.
/// A second signal ends it at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lightstream serve --table flights=flights.parquet
  lightstream serve --table 'sales=/data/sales/*.parquet' --table codes=codes.csv
  lightstream serve --dir /data --listen lightstream://127.0.0.1:7654 --listen lightstream+unix:///run/data.sock
  lightstream serve --dir /data --listen lightstream://0.0.0.0 --tls-cert c.pem --tls-key k.pem --token-file t.toml
  lightstream serve --dir /data --ticket-key-file key --peer lightstream://b.example --advertise lightstream://a.example
  lightstream serve --dir /data --check")]
pub struct ServeArgs {
    /// Where to listen; port 0 takes a free one. May be given more than once.
    #[arg(
        long,
        value_name = "URL",
        default_value = "lightstream://127.0.0.1:7654"
    )]
    pub listen: Vec<String>,

    /// A table and its data: a Parquet, CSV, NDJSON or Arrow IPC file, or a folder, a glob or hive-partitioned
    /// folders of such files. May be given more than once.
    #[arg(long, value_name = "NAME=PATH", value_parser = TableArg::parse, required_unless_present = "dir")]
    pub table: Vec<TableArg>,

    /// Serve every data file and every folder of data files that lies directly in DIR, as a table named by its stem.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Seal tickets with the secret in this file (at least 32 bytes), so that servers that share it accept each
    /// other's. By default the key is the process's own.
    #[arg(long, value_name = "FILE")]
    pub ticket_key_file: Option<PathBuf>,

    /// Where clients reach this server, if that is not where it listens, as behind a proxy. May be given more than once.
    #[arg(long, value_name = "URL", value_parser = place)]
    pub advertise: Vec<String>,

    /// Another server that serves the same data with the same --ticket-key-file. Scans are spread over this server and its
    /// peers, and go on at the others where one is gone. Clients on other hosts follow where their option allowed_hosts
    /// says so. May be given more than once.
    #[arg(long, value_name = "URL", value_parser = place, requires = "ticket_key_file")]
    pub peer: Vec<String>,

    /// Who may connect and which tables they may read, as a TOML file: [[token]] entries with name, sha256 (of the
    /// token), read and write (lists of patterns such as \"sales.*\"), and optionally expires (as 2030-01-01T00:00:00Z).
    /// It is read again when it changes and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// The certificate to serve TLS with, as PEM, with those that lead to its authority. It is read again when it changes
    /// and on SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Serve only clients with a certificate that one of these authorities has signed (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Answer monitors at this address over HTTP: /metrics (for Prometheus) and /health (200, or 503 while draining).
    /// Port 0 takes a free one. It shows the names of tables to whoever reaches it.
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<String>,

    /// Most connections at a time; clients beyond it are told that the server is busy.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_connections: Option<usize>,

    /// Most partitions that are worked on at a time; others take turns with them.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_scans: Option<usize>,

    /// Probe a connection on which nothing goes after so long (1s or more), and give it up half as long again later where
    /// the other machine does not answer.
    #[arg(long, value_name = "DURATION", value_parser = keepalive)]
    pub keepalive: Option<Duration>,

    /// Memory that queries may use to sort, join and group, together; what does not fit goes to disk, or fails.
    #[arg(long, value_name = "SIZE", value_parser = lightstream_core::size)]
    pub memory_limit: Option<u64>,

    /// Memory that each query may use of that; others go on where one wants more.
    #[arg(long, value_name = "SIZE", value_parser = lightstream_core::size)]
    pub scan_memory_limit: Option<u64>,

    /// How long scans under way may go on after a signal.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = drain)]
    pub drain: Duration,

    /// Allow addresses that other machines can reach, without TLS and without a token.
    #[arg(long)]
    pub insecure: bool,

    /// Check tables, addresses and key, print the tables, and end without serving.
    #[arg(long)]
    pub check: bool,

    /// Print the addresses alone.
    #[arg(long)]
    pub quiet: bool,
}

/// List the tables of a server, one name a line.
///
/// A name that stands for a query is followed by a tab and `view`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lightstream ls lightstream://127.0.0.1:7654
  lightstream ls lightstream+unix:///run/data.sock --json")]
pub struct LsArgs {
    /// The server.
    pub url: String,

    /// Print JSON: {\"tables\": [{\"name\", \"kind\"}]}.
    #[arg(long)]
    pub json: bool,
}

/// Show the columns of a table: name, type, whether nulls may occur, and metadata where there is any.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lightstream schema lightstream://127.0.0.1:7654/flights
  lightstream schema 'lightstream+unix:///run/data.sock#flights' --json")]
pub struct SchemaArgs {
    /// The table.
    #[arg(value_name = "URL/TABLE")]
    pub url: String,

    /// Print JSON: {\"table\", \"snapshot\", \"rows\", \"rows_exact\", \"columns\": [{\"name\", \"type\", \"nullable\",
    /// \"metadata\"}]}.
    #[arg(long)]
    pub json: bool,
}

/// Show the first rows of a table, in its order.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lightstream head lightstream://127.0.0.1:7654/flights
  lightstream head lightstream://127.0.0.1:7654/flights -n 3 --json")]
pub struct HeadArgs {
    /// The table.
    #[arg(value_name = "URL/TABLE")]
    pub url: String,

    /// How many rows.
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: u64,

    /// Print JSON: {\"rows\": [{COLUMN: VALUE}]}.
    #[arg(long)]
    pub json: bool,
}

/// Print a table, or write it to a file, in its order.
///
/// Nothing is printed before the server has planned the scan and sent its first rows. A file appears under its name
/// only once it is whole; one that is there already is replaced.
///
/// Nulls are empty in CSV and null in NDJSON, where NaN and infinities are null too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lightstream cat lightstream://127.0.0.1:7654/flights --where \"month = 7 AND dest = 'LAX'\" --limit 100
  lightstream cat lightstream://127.0.0.1:7654/flights --columns carrier,arr_delay -o delays.parquet
  lightstream cat lightstream://127.0.0.1:7654/flights --format arrow | consumer-of-an-arrow-ipc-stream")]
pub struct CatArgs {
    /// The table.
    #[arg(value_name = "URL/TABLE")]
    pub url: String,

    /// The columns to print, in this order, separated by commas; names that hold commas or quotes are quoted as in
    /// CSV. A name that several columns have means all of them.
    #[arg(long, value_name = "A,B")]
    pub columns: Option<String>,

    /// Which rows to print: a condition in SQL.
    #[arg(long = "where", value_name = "SQL")]
    pub condition: Option<String>,

    /// Most rows to print.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,

    /// How to print them. By default what the extension of FILE says (.arrow and .feather: an IPC file; .arrows: an
    /// IPC stream; .parquet; .csv; .ndjson, .jsonl and .json), a table on a terminal, else CSV. `arrow` is a stream
    /// on standard output and in .arrows, else a file.
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// The file to write, in place of standard output; or where to send an Arrow stream: arrow+tcp://HOST:PORT,
    /// arrow+tls://HOST:PORT or arrow+unix:///PATH, to a reader that listens there, or with ?listen=1 to one that connects.
    #[arg(short, long, value_name = "FILE|URL")]
    pub output: Option<PathBuf>,

    /// Show no progress.
    #[arg(long)]
    pub quiet: bool,
}

/// Ask whether a server is there, and how long its answer takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lightstream ping lightstream://127.0.0.1:7654
  lightstream ping 'lightstream://db.example:7654?tls=off&connect_timeout=2s' --json")]
pub struct PingArgs {
    /// The server.
    pub url: String,

    /// Print JSON: {\"url\", \"round_trip_ms\"}.
    #[arg(long)]
    pub json: bool,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Arrow IPC
    Arrow,
    /// Parquet, compressed with zstd
    Parquet,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object a line
    Ndjson,
    /// A table for people
    Table,
}

/// A table to serve, as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableArg {
    pub name: String,
    pub path: PathBuf,
}

impl TableArg {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, path) = text
            .split_once('=')
            .ok_or("expected NAME=PATH, as in flights=flights.parquet")?;
        if name.is_empty() {
            return Err("the name before = is missing".to_owned());
        }
        if path.is_empty() {
            return Err("the path after = is missing".to_owned());
        }
        if path.contains("://") {
            return Err(format!(
                "{path:?} is a URL: this release serves local paths only"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            path: PathBuf::from(path),
        })
    }
}

/// The URL of a server alone.
fn place(text: &str) -> Result<String, String> {
    match Location::of_server(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.detail().message.clone()),
    }
}

fn positive(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number above 0"),
        Ok(number) => Ok(number),
    }
}

/// What the system's clock for such things can count.
fn keepalive(text: &str) -> Result<Duration, &'static str> {
    match lightstream_core::duration(text)? {
        after if after < Duration::from_secs(1) => Err("expected a duration of at least 1s"),
        after => Ok(after),
    }
}

/// A duration, of which there may be none.
fn drain(text: &str) -> Result<Duration, &'static str> {
    if matches!(text, "0" | "0s" | "0ms") {
        Ok(Duration::ZERO)
    } else {
        lightstream_core::duration(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }

    #[test]
    fn tables_are_split_at_the_first_equals_sign() {
        let table = TableArg::parse("a.b=/x/year=2024").unwrap();
        assert_eq!(
            (table.name.as_str(), table.path),
            ("a.b", PathBuf::from("/x/year=2024"))
        );
        for bad in ["a", "=x", "a=", "a=s3://b/c"] {
            assert!(TableArg::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_drain_may_be_zero() {
        assert_eq!(drain("0s"), Ok(Duration::ZERO));
        assert_eq!(drain("1.5m"), Ok(Duration::from_secs(90)));
        assert!(drain("soon").is_err());
    }
}
