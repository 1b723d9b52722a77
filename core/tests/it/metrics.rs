//! What a server counts for those who watch over it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{
    Authenticator, Credentials, Identity, MemoryTable, Outcomes, RowSource, RowStream, Server,
    ServerLimits, ServerMetrics, StreamTable, TableStats,
};
use lightstream_core::{Client, Error, ErrorCode, Options, Result};

const ROWS: i64 = 1000;

fn rows() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

/// Rows, then an error or nothing for ever.
struct Broken {
    error: Option<&'static str>,
}

#[async_trait]
impl RowSource for Broken {
    async fn open(&self) -> Result<RowStream> {
        let first = futures::stream::iter([Ok(rows())]);
        Ok(RowStream {
            schema: rows().schema(),
            batches: match self.error {
                Some(message) => first
                    .chain(futures::stream::iter([Err(Error::internal(message))]))
                    .boxed(),
                None => first.chain(futures::stream::pending()).boxed(),
            },
        })
    }
}

async fn serve(limits: ServerLimits) -> Server {
    Server::builder()
        .table("whole", MemoryTable::try_new(vec![rows()]).unwrap())
        .table(
            "failing",
            StreamTable::new(Broken {
                error: Some("the source broke"),
            }),
        )
        .table("endless", StreamTable::new(Broken { error: None }))
        .limits(limits)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap()
}

async fn client(server: &Server) -> Client {
    let options = Options::default().with("retries", "0").unwrap();
    Client::connect(&server.url(), options).await.unwrap()
}

async fn read(client: &Client, table: &str) -> Result<usize> {
    let plan = client.plan(&ScanRequest::table(table)).await?;
    let mut partition = plan.partitions[0].clone();
    partition.rows_at_hand = None;
    let batches: Vec<RecordBatch> = client.read(&partition).try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

/// The metrics once they are as wanted.
async fn until(server: &Server, is_so: impl Fn(&ServerMetrics) -> bool) -> ServerMetrics {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let metrics = server.stats_reader().metrics();
        if is_so(&metrics) {
            return metrics;
        }
        assert!(Instant::now() < deadline, "{metrics:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn table<'a>(metrics: &'a ServerMetrics, name: &str) -> Option<&'a TableStats> {
    metrics
        .tables
        .iter()
        .find(|(table, _)| table == name)
        .map(|(_, stats)| stats)
}

fn request(metrics: &ServerMetrics, name: &str) -> Outcomes {
    metrics
        .requests
        .iter()
        .find(|(request, _)| *request == name)
        .map(|(_, outcomes)| outcomes.clone())
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_are_counted_by_table_and_how_they_ended() {
    let server = serve(ServerLimits::default()).await;
    let before = server.stats_reader().metrics();
    assert!(before.tables.is_empty() && before.requests.is_empty());
    assert_eq!((before.first_frame.count(), before.scan.count()), (0, 0));

    let client = client(&server).await;
    assert_eq!(read(&client, "whole").await.unwrap(), ROWS as usize);
    let error = read(&client, "failing").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    let error = read(&client, "missing").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);

    let plan = client.plan(&ScanRequest::table("endless")).await.unwrap();
    let mut reader = client.read(&plan.partitions[0]);
    assert_eq!(reader.next().await.unwrap().unwrap(), rows());
    let metrics = until(&server, |metrics| table(metrics, "endless").is_some()).await;
    assert_eq!(metrics.stats.active_scans, 1);
    assert_eq!(
        table(&metrics, "endless").unwrap().scans,
        Outcomes::default()
    );
    drop(reader);
    let metrics = until(&server, |metrics| {
        table(metrics, "endless").is_some_and(|stats| stats.scans.abandoned == 1)
    })
    .await;

    // One came with its plan, and was then read once more.
    let whole = table(&metrics, "whole").unwrap();
    assert_eq!((whole.scans.finished, whole.scans.failures()), (2, 0));
    assert_eq!(whole.rows_sent, 2 * ROWS as u64);
    let failing = table(&metrics, "failing").unwrap();
    assert_eq!(failing.scans.failed, [(ErrorCode::Internal, 1)]);
    assert_eq!(failing.rows_sent, ROWS as u64);
    assert!(
        table(&metrics, "missing").is_none(),
        "only served tables are named"
    );
    let totals = &metrics.stats;
    let sum = |of: fn(&TableStats) -> u64| metrics.tables.iter().map(|(_, t)| of(t)).sum::<u64>();
    assert_eq!(sum(|table| table.rows_sent), totals.rows_sent);
    assert_eq!(sum(|table| table.bytes_sent), totals.bytes_sent);

    assert_eq!(request(&metrics, "plan").failed, [(ErrorCode::NotFound, 1)]);
    assert_eq!(request(&metrics, "plan").finished, 3);
    assert_eq!(request(&metrics, "read").failed, [(ErrorCode::Internal, 1)]);
    assert_eq!(request(&metrics, "read").abandoned, 1);
    assert_eq!(totals.errors, 2);
    assert_eq!(metrics.scan.count(), 4);
    assert_eq!(metrics.first_frame.count(), 4);
    assert!(!metrics.is_draining);

    let stats = server.stats_reader();
    server.shutdown(Duration::from_secs(60)).await;
    assert!(stats.metrics().is_draining);
    assert_eq!(stats.metrics().tables, metrics.tables);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_that_wait_and_those_for_which_there_is_no_room_are_counted() {
    let mut limits = ServerLimits::default();
    limits.max_scans = 1;
    limits.max_waiting_scans = 1;
    limits.max_connections = 4;
    let server = serve(limits).await;
    let client = client(&server).await;
    let whole = client.plan(&ScanRequest::table("whole")).await.unwrap();
    let plan = client.plan(&ScanRequest::table("endless")).await.unwrap();
    let mut at_work = client.read(&plan.partitions[0]);
    assert!(at_work.next().await.unwrap().is_ok());
    let waiting = {
        let (client, partition) = (client.clone(), plan.partitions[0].clone());
        tokio::spawn(async move { client.read(&partition).next().await })
    };
    until(&server, |metrics| metrics.queued_scans == 1).await;
    let mut partition = whole.partitions[0].clone();
    partition.rows_at_hand = None;
    let error = client.read(&partition).next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    let metrics = until(&server, |metrics| {
        table(metrics, "whole").is_some_and(|stats| stats.scans.failures() == 1)
    })
    .await;
    assert_eq!(
        table(&metrics, "whole").unwrap().scans.failed,
        [(ErrorCode::ResourceExhausted, 1)]
    );
    waiting.abort();
    until(&server, |metrics| metrics.queued_scans == 0).await;

    drop(at_work);
    let options = Options::default().with("retries", "0").unwrap();
    let mut held = Vec::new();
    let busy = loop {
        assert!(held.len() < 10);
        match Client::connect(&server.url(), options.clone()).await {
            Ok(client) => held.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!(busy.code(), ErrorCode::ResourceExhausted);
    let metrics = server.stats_reader().metrics();
    assert_eq!(metrics.refused_connections, [("busy", 1)]);
}

struct Nobody;

impl Authenticator for Nobody {
    fn authenticate<'a>(&'a self, _: &'a Credentials) -> BoxFuture<'a, Result<Identity>> {
        Box::pin(async { Err(Error::unauthenticated("nobody is let in")) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_after_wrong_credentials_are_counted() {
    let server = Server::builder()
        .table("whole", MemoryTable::try_new(vec![rows()]).unwrap())
        .authenticator(Nobody)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let options = Options::default()
        .with("retries", "0")
        .unwrap()
        .with("token", "wrong")
        .unwrap();
    for _ in 0..2 {
        let error = Client::connect(&server.url(), options.clone())
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unauthenticated);
    }
    let metrics = server.stats_reader().metrics();
    assert_eq!(metrics.login_pauses, 2);
    assert_eq!(metrics.login_pause, Duration::from_millis(150));
    let (_, count) = request(&metrics, "hello").failed[0];
    assert_eq!(count, 2);
}
