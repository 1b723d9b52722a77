//! Serves the tables of a `lightstream_tests::fixture::Fixture` until its standard input is closed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // For tests, where a panic is a finding.

use std::io::Read;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use lightstream_core::protocol::ticket::TicketKey;
use lightstream_core::server::{MappedIpcTable, MemoryTable, Server};
use lightstream_datafusion::serve::{DataFusionCatalog, register_path};
use lightstream_tests::fixture::large_rows;
use lightstream_tests::servers::ANY_PORT;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [key, lifetime_ms, memory_batches, ipc, parquet @ ..] = arguments.as_slice() else {
        panic!(
            "usage: serve_fixture KEY LIFETIME_MS MEMORY_BATCHES IPC_FILE|- [NAME=PARQUET_FOLDER]..."
        );
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(async {
        let memory = MemoryTable::try_new(large_rows(memory_batches.parse().unwrap())).unwrap();
        let mut server = Server::builder()
            .ticket_key(TicketKey::from_secret(key.as_bytes()).unwrap())
            .ticket_lifetime(Duration::from_millis(lifetime_ms.parse().unwrap()))
            .table("memory", memory.with_id("fixture").unwrap());
        if ipc != "-" {
            server = server.table("ipc", MappedIpcTable::open(ipc).unwrap());
        }
        let files = SessionContext::new();
        for table in parquet {
            let (name, folder) = table.split_once('=').expect("NAME=PARQUET_FOLDER");
            register_path(&files, name, folder).await.unwrap();
        }
        server
            .catalog(DataFusionCatalog::new(files))
            .listen(ANY_PORT)
            .await
            .unwrap()
    });
    println!("{}", server.url());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
