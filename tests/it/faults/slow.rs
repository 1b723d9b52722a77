//! Clients that take rows slowly, or not at all, cost a server little memory.

use std::time::Duration;

use futures::{StreamExt, stream};
use lightstream_core::Client;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_tests::isolated::isolated;
use lightstream_tests::process::memory_bytes;
use lightstream_tests::servers::{becomes_idle, options, serve};
use lightstream_tests::tables::Useless;

/// Clients that take one batch of a table without end, and then nothing.
const CLIENTS: usize = 200;

/// What each of them may cost, its own side included, which runs in this process too.
const BYTES_EACH: u64 = 1 << 20;

#[test]
fn clients_that_take_nothing_cost_a_server_little_memory() {
    isolated(
        "faults::slow::clients_that_take_nothing_cost_a_server_little_memory",
        take_nothing(),
    );
}

async fn take_nothing() {
    let server = serve(Useless::Endless).await;
    let client = Client::connect(&server.url(), options(&[])).await.unwrap();
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let before = memory_bytes();
    let readers = stream::iter(0..CLIENTS).then(|_| async {
        let mut reader = client.read(&plan.partitions[0]);
        assert!(reader.next().await.unwrap().unwrap().num_rows() > 0);
        reader
    });
    let readers: Vec<_> = readers.collect().await;
    // Until nothing goes out any more: every connection is full.
    let mut sent = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = server.stats().bytes_sent;
        if now == sent {
            break;
        }
        sent = now;
    }
    let grown = memory_bytes().saturating_sub(before);
    println!("{CLIENTS} clients that take nothing: {sent} bytes sent, memory grew by {grown}");
    assert!(
        grown <= CLIENTS as u64 * BYTES_EACH,
        "memory grew by {grown}"
    );
    assert_eq!(server.stats().active_scans, CLIENTS as u64);
    drop(readers);
    becomes_idle(&server).await;
}
