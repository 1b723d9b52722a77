//! Attempts that fail are made again where that can help, and the last error says what was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use async_trait::async_trait;
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::table::TableInfo;
use lightstream_core::server::{MemoryTable, Scan, Server, Table};
use lightstream_core::{Client, Error, ErrorCode, Options, Result};

/// Far above what anything here takes.
const CEILING: Duration = Duration::from_secs(30);

/// A table that cannot be planned the first few times.
struct Reluctant {
    rows: MemoryTable,
    refusals: usize,
    refusal: fn() -> Error,
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl Table for Reluctant {
    async fn describe(&self, name: &str, snapshot: Option<&str>) -> Result<TableInfo> {
        self.rows.describe(name, snapshot).await
    }

    async fn plan(&self, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.refusals {
            return Err((self.refusal)());
        }
        self.rows.plan(request).await
    }
}

fn rows() -> MemoryTable {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    MemoryTable::try_new(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap()
}

async fn serve(refusals: usize, refusal: fn() -> Error) -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let table = Reluctant {
        rows: rows(),
        refusals,
        refusal,
        asked: Arc::clone(&asked),
    };
    let server = Server::builder().table("t", table);
    (
        server.listen("lightstream://127.0.0.1:0").await.unwrap(),
        asked,
    )
}

fn connect(url: &str, values: &[(&str, &str)]) -> Client {
    let options = values
        .iter()
        .try_fold(Options::default(), |options, (name, value)| {
            options.with(name, value)
        });
    Client::new(url, options.unwrap()).unwrap()
}

const ASKED_FOR: Duration = Duration::from_millis(300);

fn busy() -> Error {
    Error::resource_exhausted("all seats are taken")
        .with_retryable(true)
        .with_retry_after(ASKED_FOR)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_asked_again_once_it_said() {
    let (server, asked) = serve(2, busy).await;
    let client = connect(&server.url(), &[("retry_backoff", "1us")]);
    let start = Instant::now();
    client.plan(&ScanRequest::table("t")).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert!(start.elapsed() >= 2 * ASKED_FOR, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_error_says_where_how_often_and_why() {
    let (server, asked) = serve(usize::MAX, busy).await;
    let client = connect(&server.url(), &[("retries", "2"), ("retry_backoff", "1us")]);
    let error = client.plan(&ScanRequest::table("t")).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    let attempts = error.detail().attempts.unwrap();
    assert_eq!(attempts.count, 3);
    assert!(attempts.elapsed >= 2 * ASKED_FOR, "{attempts}");
    let text = error.to_string();
    for said in [
        "all seats are taken",
        "table \"t\"",
        &server.url(),
        "3 attempts in ",
    ] {
        assert!(text.contains(said), "{said:?} is missing in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_ends_what_a_busy_server_would_draw_out() {
    let long = || busy().with_retry_after(Duration::from_secs(50));
    let (server, asked) = serve(usize::MAX, long).await;
    let client = connect(&server.url(), &[("timeout", "20s")]);
    let start = Instant::now();
    let error = client.plan(&ScanRequest::table("t")).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(error.to_string().contains("all seats are taken"), "{error}");
    // It is known at once that the pause is too long.
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_get_better_comes_back_at_once() {
    let (server, asked) = serve(usize::MAX, || Error::invalid_argument("no")).await;
    let client = connect(&server.url(), &[("retries", "9"), ("retry_backoff", "20s")]);
    let request = ScanRequest::table("t");
    let planned = tokio::time::timeout(CEILING, client.plan(&request));
    let error = planned.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(error.detail().attempts, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_server_is_gone_names_both_and_the_attempts() {
    let server = Server::builder().table("t", rows());
    let server = server.listen("lightstream://127.0.0.1:0").await.unwrap();
    let url = server.url();
    for (retries, said) in [("0", "1 attempt in "), ("2", "3 attempts in ")] {
        let values = [
            ("retries", retries),
            ("retry_backoff", "1ms"),
            ("partitions", "2"),
        ];
        let client = connect(&url, &values);
        let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
        let mut last = plan.partitions.last().unwrap().clone();
        last.rows_at_hand = None;
        // Nobody listens there.
        let gone = Server::builder().table("t", rows());
        let gone = gone.listen("lightstream://127.0.0.1:0").await.unwrap();
        let gone_url = gone.url();
        drop(gone);
        let elsewhere = connect(&gone_url, &values);
        let error = elsewhere
            .read(&last)
            .try_collect::<Vec<_>>()
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
        let text = error.to_string();
        let partition = format!("partition {}", last.index);
        for said in ["table \"t\"", &partition, &gone_url, said] {
            assert!(text.contains(said), "{said:?} is missing in {text}");
        }
    }
}
