//! Servers on this machine, and whole scans of their tables.

use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{Server, ServerStats, Table, TlsFiles};
use lightstream_core::{Client, Options, Result};

/// Where servers of tests listen.
pub const ANY_PORT: &str = "lightstream://127.0.0.1:0";

/// A server of one table named `t`.
pub async fn serve(table: impl Table) -> Server {
    Server::builder()
        .table("t", table)
        .listen(ANY_PORT)
        .await
        .unwrap()
}

/// A certificate of its own making for 127.0.0.1, and its key, in a folder.
pub fn certificate(folder: &Path) -> TlsFiles {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        client_ca: None,
    };
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    files
}

/// Options from names and values.
pub fn options(values: &[(&str, &str)]) -> Options {
    values
        .iter()
        .fold(Options::default(), |options, (name, value)| {
            options.with(name, value).unwrap()
        })
}

/// All rows of the table `t`, in order, over a client of its own.
pub async fn scan(url: &str, options: Options) -> Result<Vec<RecordBatch>> {
    let client = Client::new(url, options)?;
    let request = ScanRequest {
        ordered: true,
        ..ScanRequest::table("t")
    };
    client.scan(&request).await?.try_collect().await
}

/// Waits until the server is as it should be; panics after ten seconds.
pub async fn settles(server: &Server, what: &str, is_so: impl Fn(&ServerStats) -> bool) {
    let start = Instant::now();
    while !is_so(&server.stats()) {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "not so after ten seconds: {what}: {:?}",
            server.stats()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the server reads and holds nothing.
pub async fn becomes_idle(server: &Server) {
    settles(server, "no scans, no connections", |stats| {
        stats.active_scans == 0 && stats.active_connections == 0
    })
    .await;
}
