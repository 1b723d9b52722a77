//! Partitions that are read without their first rows, also where connections are lost meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ROWS: i64 = 2_000_000;

async fn serve() -> Server {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    Server::builder()
        .table("t", MemoryTable::try_new(vec![batch]).unwrap())
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap()
}

/// Passes on what both sides say, and loses each of the first `lost` connections after so many bytes of the server's.
async fn losing(server_url: &str, lost: usize, after: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("lightstream://{}", listener.local_addr().unwrap());
    let address = server_url.trim_start_matches("lightstream://").to_owned();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let mut left = if number < lost { after } else { usize::MAX };
            let far = TcpStream::connect(&address).await.unwrap();
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (near.into_split(), far.into_split());
            let forth =
                tokio::spawn(
                    async move { tokio::io::copy(&mut from_client, &mut to_server).await },
                );
            tokio::spawn(async move {
                let mut piece = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_server.read(&mut piece).await {
                    let passed = count.min(left);
                    if to_client.write_all(&piece[..passed]).await.is_err() {
                        break;
                    }
                    left -= passed;
                    if left == 0 {
                        break;
                    }
                }
                forth.abort();
            });
        }
    });
    (url, accepted)
}

async fn numbers(client: &Client, request: &ScanRequest, offset: u64) -> Vec<i64> {
    let plan = client.plan(request).await.unwrap();
    assert_eq!(plan.partitions.len(), 1);
    let reader = client.read_after(&plan.partitions[0], offset);
    let batches: Vec<RecordBatch> = reader.try_collect().await.unwrap();
    let columns = batches.iter().map(|batch| batch.column(0));
    columns
        .flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

fn request(limit: Option<u64>) -> ScanRequest {
    ScanRequest {
        limit,
        max_partitions: Some(1),
        ..ScanRequest::table("t")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_are_left_out_by_the_server() {
    let server = serve().await;
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    for (limit, offset) in [
        (None, 1),
        (None, 1_999_999),
        (None, 2_000_000),
        (None, u64::MAX),
        (Some(500_000), 499_990),
        (Some(500_000), 500_001),
        (Some(5), 3),
    ] {
        let before = server.stats().rows_sent;
        let end = limit.map_or(ROWS, |limit| limit as i64);
        let from = i64::try_from(offset).unwrap_or(ROWS);
        let found = numbers(&client, &request(limit), offset).await;
        assert_eq!(
            found,
            (from..end).collect::<Vec<_>>(),
            "{limit:?} from {offset}"
        );
        // What is few comes with its plan.
        if limit != Some(5) {
            assert_eq!(server.stats().rows_sent - before, found.len() as u64);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_taken_up_again_leaves_out_the_same_rows() {
    let server = serve().await;
    for (limit, offset) in [(None, 700_001), (Some(1_900_000), 300_000)] {
        for after in [900_000, 2_500_000, 5_000_000] {
            let (url, accepted) = losing(&server.url(), 2, after).await;
            let options = Options::default().with("retry_backoff", "1ms").unwrap();
            let client = Client::new(&url, options).unwrap();
            let end = limit.map_or(ROWS, |limit| limit as i64);
            let found = numbers(&client, &request(limit), offset).await;
            assert_eq!(found, (offset as i64..end).collect::<Vec<_>>(), "{after}");
            assert_eq!(accepted.load(Ordering::SeqCst), 3);
        }
    }
}
