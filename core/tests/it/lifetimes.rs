//! What a plan reads is held while it may be read and is being read, and no longer.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, ErrorCode, Options};

const LIFETIME: Duration = Duration::from_secs(1);

fn batches() -> Vec<RecordBatch> {
    let batch = |from: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 100_000));
        RecordBatch::try_from_iter([("n", numbers)]).unwrap()
    };
    (0..60).map(|index| batch(index * 100_000)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_outlives_its_time_while_it_is_read_and_is_freed_after() {
    let folder = tempfile::tempdir().unwrap();
    let table = Arc::new(MemoryTable::try_new(batches()).unwrap());
    // The buffers of a socket in the file system are far smaller than a partition.
    let url = format!("lightstream+unix://{}", folder.path().join("s").display());
    let server = Server::builder().shared_table("t", Arc::clone(&table) as _);
    let server = server.ticket_lifetime(LIFETIME).listen(&url).await.unwrap();
    let client = Client::connect(&url, Options::default()).await.unwrap();
    let request = ScanRequest {
        max_partitions: Some(3),
        ..ScanRequest::table("t")
    };
    let plan = client.plan(&request).await.unwrap();
    assert_eq!(plan.partitions.len(), 3);
    let mut first = client.read(&plan.partitions[0]);
    let mut read = vec![first.next().await.unwrap().unwrap()];
    table.replace(Vec::new()).unwrap();
    tokio::time::sleep(3 * LIFETIME).await;
    assert_eq!(server.stats().active_scans, 1);

    // Its ticket is over, but the plan is being read.
    let second = client.read(&plan.partitions[1]).try_collect::<Vec<_>>();
    let second = second.await.unwrap();
    read.extend(first.try_collect::<Vec<_>>().await.unwrap());
    read.extend(second);
    // The time counts anew from the last read.
    tokio::time::sleep(LIFETIME / 4).await;
    let third = client.read(&plan.partitions[2]).try_collect::<Vec<_>>();
    read.extend(third.await.unwrap());
    let whole = concat_batches(&plan.schema, &batches()).unwrap();
    assert_eq!(concat_batches(&plan.schema, &read).unwrap(), whole);

    tokio::time::sleep(2 * LIFETIME).await;
    let again = ScanRequest {
        snapshot: plan.snapshot,
        ..request
    };
    let error = client.plan(&again).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Expired, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_read_is_freed_without_another_request() {
    let table = Arc::new(MemoryTable::try_new(batches()).unwrap());
    let server = Server::builder().shared_table("t", Arc::clone(&table) as _);
    let server = server.ticket_lifetime(LIFETIME);
    let server = server.listen("lightstream://127.0.0.1:0").await.unwrap();
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    let held = client.plan(&ScanRequest::table("t")).await.unwrap();
    table.replace(Vec::new()).unwrap();
    let again = ScanRequest {
        snapshot: held.snapshot,
        ..ScanRequest::table("t")
    };
    client.plan(&again).await.unwrap();
    tokio::time::sleep(2 * LIFETIME).await;
    let error = client.plan(&again).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Expired, "{error}");
}
