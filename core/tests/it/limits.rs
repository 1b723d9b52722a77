//! What a server takes on at a time, and how long it waits for clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server, ServerLimits};
use lightstream_core::{Client, ErrorCode, Options};

const ROWS: i64 = 2_000_000;

fn table(rows: i64) -> MemoryTable {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    MemoryTable::try_new(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap()
}

async fn serve(change: impl FnOnce(&mut ServerLimits)) -> Server {
    let mut limits = ServerLimits::default();
    change(&mut limits);
    Server::builder()
        .table("large", table(ROWS))
        .table("small", table(10_000))
        .limits(limits)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap()
}

fn retries(count: u32) -> Options {
    Options::default()
        .with("retries", &count.to_string())
        .unwrap()
}

async fn sum(client: &Client, table: &str) -> lightstream_core::Result<i64> {
    // Not inline: each is a read of its own.
    let plan = client.plan(&ScanRequest::table(table)).await?;
    let mut sum = 0;
    for partition in &plan.partitions {
        let batches: Vec<RecordBatch> = client.read(partition).try_collect().await?;
        for batch in batches {
            let column = batch
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .unwrap();
            sum += column.values().iter().sum::<i64>();
        }
    }
    Ok(sum)
}

fn expected(rows: i64) -> i64 {
    rows * (rows - 1) / 2
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_scans_share_eight_places() {
    let server = serve(|limits| limits.max_scans = 8).await;
    let url = server.url();
    let failures = Arc::new(AtomicUsize::new(0));
    let scans = (0..500).map(|_| {
        let (url, failures) = (url.clone(), Arc::clone(&failures));
        tokio::spawn(async move {
            let client = Client::connect(&url, retries(0)).await.unwrap();
            match sum(&client, "small").await {
                Ok(sum) => assert_eq!(sum, expected(10_000)),
                Err(_) => {
                    failures.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
    });
    for scan in scans.collect::<Vec<_>>() {
        scan.await.unwrap();
    }
    assert_eq!(failures.load(Ordering::SeqCst), 0);
    until("scans are left", || server.stats().active_scans == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_waiting_scans_are_told_to_come_back_and_do() {
    let server = serve(|limits| {
        limits.max_scans = 1;
        limits.max_waiting_scans = 2;
    })
    .await;
    let url = server.url();
    let busy = Arc::new(AtomicUsize::new(0));
    let scans = (0..12).map(|_| {
        let (url, busy) = (url.clone(), Arc::clone(&busy));
        tokio::spawn(async move {
            let impatient = Client::connect(&url, retries(0)).await.unwrap();
            match sum(&impatient, "large").await {
                Ok(sum) => assert_eq!(sum, expected(ROWS)),
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
                    assert!(
                        error.is_retryable() && error.to_string().contains("busy"),
                        "{error}"
                    );
                    assert!(error.detail().retry_after.is_some());
                    busy.fetch_add(1, Ordering::SeqCst);
                }
            }
            let patient = Client::connect(&url, retries(10_000)).await.unwrap();
            assert_eq!(sum(&patient, "large").await.unwrap(), expected(ROWS));
        })
    });
    for scan in scans.collect::<Vec<_>>() {
        scan.await.unwrap();
    }
    assert!(busy.load(Ordering::SeqCst) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_goes_on_lets_small_ones_through() {
    let server = serve(|limits| limits.max_scans = 1).await;
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    let plan = client.plan(&ScanRequest::table("large")).await.unwrap();
    // One reader takes no rows, the other takes them as fast as they come, again and again.
    let mut idle = client.read(&plan.partitions[0]);
    let first = idle.next().await.unwrap().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let busy = {
        let client = client.clone();
        tokio::spawn(async move {
            let mut stopped = stopped;
            while stopped.try_recv().is_err() {
                assert_eq!(sum(&client, "large").await.unwrap(), expected(ROWS));
            }
        })
    };
    for _ in 0..20 {
        assert_eq!(sum(&client, "small").await.unwrap(), expected(10_000));
    }
    stop.send(()).unwrap();
    busy.await.unwrap();
    let rest: Vec<RecordBatch> = idle.try_collect().await.unwrap();
    let rows: usize = rest.iter().map(RecordBatch::num_rows).sum();
    assert!(rows + first.num_rows() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn stripes_of_one_partition_do_not_wait_for_each_other() {
    let server = serve(|limits| limits.max_scans = 1).await;
    let options = Options::default()
        .with("streams", "4")
        .unwrap()
        .with("prefetch_bytes", "1KiB")
        .unwrap();
    let client = Client::connect(&server.url(), options).await.unwrap();
    assert_eq!(sum(&client, "large").await.unwrap(), expected(ROWS));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_are_told_that_the_server_is_busy() {
    let server = serve(|limits| limits.max_connections = 4).await;
    let url = server.url();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(Client::connect(&url, retries(0)).await.unwrap());
    }
    let error = Client::connect(&url, retries(0)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
    assert!(
        error.is_retryable() && error.to_string().contains("busy"),
        "{error}"
    );
    let waiting = tokio::spawn({
        let url = url.clone();
        async move { Client::connect(&url, retries(1000)).await }
    });
    tokio::task::yield_now().await;
    held.clear();
    assert_eq!(
        sum(&waiting.await.unwrap().unwrap(), "small")
            .await
            .unwrap(),
        expected(10_000)
    );
}

/// What a raw connection gets until the server ends it.
fn until_ended(mut stream: TcpStream) -> Vec<u8> {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut got = Vec::new();
    // A reset ends it as well.
    match stream.read_to_end(&mut got) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it is never ended"),
        _ => got,
    }
}

fn dial(server: &Server) -> TcpStream {
    let url = server.url();
    TcpStream::connect(url.rsplit_once('/').unwrap().1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_say_nothing_or_say_it_slowly_are_given_up() {
    let server = serve(|limits| {
        limits.handshake_timeout = Duration::from_millis(500);
        limits.request_timeout = Duration::from_millis(500);
        limits.idle_timeout = Duration::from_millis(1500);
    })
    .await;
    let silent = dial(&server);
    let halfway = dial(&server);
    (&halfway).write_all(&[0, 200]).unwrap();
    // It says who it is one byte at a time, for ever.
    let slow = dial(&server);
    let mut writer = slow.try_clone().unwrap();
    std::thread::spawn(move || {
        let _ = writer.write_all(&[0, 255, 255, 0, 0]);
        while writer.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    for stream in [silent, halfway, slow] {
        let got = tokio::task::spawn_blocking(move || until_ended(stream))
            .await
            .unwrap();
        assert!(got.is_empty(), "{got:?}");
    }
    // A client that was idle for too long finds out, and connects anew.
    let client = Client::connect(&server.url(), retries(0)).await.unwrap();
    until("the idle connection is kept", || {
        server.stats().active_connections == 0
    })
    .await;
    assert_eq!(sum(&client, "small").await.unwrap(), expected(10_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_rows_is_given_up_and_can_go_on() {
    let server = serve(|limits| limits.send_timeout = Duration::from_millis(500)).await;
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    let request = ScanRequest::table("large");
    let plan = client.plan(&request).await.unwrap();
    let mut total = 0;
    for partition in &plan.partitions {
        let mut reader = client.read(partition);
        let mut batches = vec![reader.next().await.unwrap().unwrap()];
        until("the reader is never given up", || {
            server.stats().active_scans == 0
        })
        .await;
        batches.extend(reader.try_collect::<Vec<_>>().await.unwrap());
        for batch in batches {
            let column = batch
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .unwrap();
            total += column.values().iter().sum::<i64>();
        }
    }
    assert_eq!(total, expected(ROWS));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_strangers_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, "").unwrap();
    let server = Server::builder()
        .table("small", table(10))
        .authenticator(lightstream_core::server::TokenFile::try_new(&path).unwrap())
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let stranger = dial(&server);
    // A request of a megabyte is refused by its head alone.
    (&stranger).write_all(&[0, 0, 0, 16, 0]).unwrap();
    let got = tokio::task::spawn_blocking(move || until_ended(stranger))
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&got);
    assert!(text.contains("1048576"), "{text}");
}
