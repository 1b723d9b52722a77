//! Streams that are read half and dropped leave nothing behind.

use futures::{StreamExt, stream};
use lightstream_core::Client;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_tests::isolated::isolated;
use lightstream_tests::process::{descriptors, threads};
use lightstream_tests::servers::{becomes_idle, options, serve};
use lightstream_tests::tables::Useless;

const STREAMS: usize = 2000;

#[test]
fn half_read_streams_leave_descriptors_and_threads_where_they_were() {
    isolated(
        "faults::leaks::half_read_streams_leave_descriptors_and_threads_where_they_were",
        || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(read_half());
        },
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
    let _: Vec<usize> = stream::iter(0..50)
        .map(half)
        .buffer_unordered(20)
        .collect()
        .await;
    becomes_idle(&server).await;
    let before = (descriptors(), threads());
    let read: Vec<usize> = stream::iter(0..STREAMS)
        .map(half)
        .buffer_unordered(20)
        .collect()
        .await;
    assert!(read.len() == STREAMS && read.iter().all(|&rows| rows > 0));
    becomes_idle(&server).await;
    let after = (descriptors(), threads());
    println!("{STREAMS} streams half read: (descriptors, threads) were {before:?}, are {after:?}");
    assert_eq!(before, after);
    assert_eq!(server.stats().scans, STREAMS as u64 + 50);
}
