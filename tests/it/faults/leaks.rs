//! Streams that are read half and dropped leave nothing behind.

use futures::{StreamExt, stream};
use lightstream_core::Client;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_tests::isolated::isolated;
use lightstream_tests::process::{descriptors, memory_bytes, threads};
use lightstream_tests::servers::{becomes_idle, options, serve};
use lightstream_tests::tables::Useless;

/// Streams before anything is counted.
const WARM: usize = 500;

const STREAMS: usize = 10_000;

/// What memory may differ by: allocators give back when they please.
const SLACK_BYTES: u64 = 32 << 20;

#[test]
fn half_read_streams_leave_descriptors_threads_and_memory_where_they_were() {
    isolated(
        "faults::leaks::half_read_streams_leave_descriptors_threads_and_memory_where_they_were",
        read_half(),
    );
}

async fn read_half() {
    let server = serve(Useless::Endless).await;
    let client = Client::connect(&server.url(), options(&[])).await.unwrap();
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let half = |_| {
        let mut reader = client.read(&plan.partitions[0]);
        async move { reader.next().await.unwrap().unwrap().num_rows() }
    };
    // What is made once, such as threads for blocking work, is there after these.
    let _: Vec<usize> = stream::iter(0..WARM)
        .map(half)
        .buffer_unordered(20)
        .collect()
        .await;
    becomes_idle(&server).await;
    let before = (descriptors(), threads());
    let memory = memory_bytes();
    let read: Vec<usize> = stream::iter(0..STREAMS)
        .map(half)
        .buffer_unordered(20)
        .collect()
        .await;
    assert!(read.len() == STREAMS && read.iter().all(|&rows| rows > 0));
    becomes_idle(&server).await;
    let after = (descriptors(), threads());
    println!("{STREAMS} streams half read: (descriptors, threads) were {before:?}, are {after:?}");
    let grown = memory_bytes().saturating_sub(memory);
    println!("memory was {memory} bytes and grew by {grown}");
    assert_eq!(before, after);
    assert!(grown <= SLACK_BYTES, "memory grew by {grown} bytes");
    assert_eq!(server.stats().scans, (STREAMS + WARM) as u64);
}
