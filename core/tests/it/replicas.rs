//! Servers that share the key of tickets and the rows: plans name them all, and what one does not give the other does.

use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::ticket::TicketKey;
use lightstream_core::server::{MemoryTable, Server, ServerBuilder};
use lightstream_core::{Client, ErrorCode, Options, Result};
use std::sync::Arc;
use tempfile::TempDir;

const BATCH_ROWS: i64 = 50_000;
const BATCHES: i64 = 40;
const ROWS: i64 = BATCHES * BATCH_ROWS;

fn table() -> MemoryTable {
    let batch = |index: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
            index * BATCH_ROWS..(index + 1) * BATCH_ROWS,
        ));
        RecordBatch::try_from_iter([("id", ids)]).unwrap()
    };
    let table = MemoryTable::try_new((0..BATCHES).map(batch).collect()).unwrap();
    table.with_id("t").unwrap()
}

fn key() -> TicketKey {
    TicketKey::from_secret(&[7; 32]).unwrap()
}

/// Where two servers are, and those that run.
struct Pair {
    folder: TempDir,
    first: Option<Server>,
    second: Option<Server>,
}

impl Pair {
    fn url(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        format!("lightstream+unix://{}", path.display())
    }

    fn builder(&self, peer: &str) -> ServerBuilder {
        Server::builder()
            .table("t", table())
            .ticket_key(key())
            .peer(self.url(peer))
    }

    async fn start() -> Self {
        let mut pair = Self::empty();
        pair.start_first().await;
        pair.start_second().await;
        pair
    }

    fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            first: None,
            second: None,
        }
    }

    async fn start_first(&mut self) {
        let server = self.builder("b.sock").listen(&self.url("a.sock")).await;
        self.first = Some(server.unwrap());
    }

    async fn start_second(&mut self) {
        let server = self.builder("a.sock").listen(&self.url("b.sock")).await;
        self.second = Some(server.unwrap());
    }

    fn client(&self, values: &[(&str, &str)]) -> Client {
        let base = [("retry_backoff", "1ms"), ("allowed_hosts", "*/?.sock")];
        let options = base
            .iter()
            .chain(values)
            .try_fold(Options::default(), |options, (name, value)| {
                options.with(name, value)
            });
        Client::new(&self.url("a.sock"), options.unwrap()).unwrap()
    }

    fn scans(&self) -> (u64, u64) {
        let scans = |server: &Option<Server>| server.as_ref().map_or(0, |s| s.stats().scans);
        (scans(&self.first), scans(&self.second))
    }
}

fn request(partitions: u32) -> ScanRequest {
    ScanRequest {
        max_partitions: Some(partitions),
        ..ScanRequest::table("t")
    }
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| {
        let column = batch.column(0).as_primitive::<Int64Type>();
        column.values().to_vec()
    });
    columns.flatten().collect()
}

/// Panics unless every row is there once.
fn assert_whole(batches: &[RecordBatch]) {
    let mut ids = ids(batches);
    ids.sort_unstable();
    assert_eq!(ids.len(), ROWS as usize);
    assert!(ids.iter().copied().eq(0..ROWS));
}

async fn all(client: &Client, partitions: u32) -> Result<Vec<RecordBatch>> {
    client.scan(&request(partitions)).await?.try_collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_spreads_partitions_over_both() {
    let pair = Pair::start().await;
    let client = pair.client(&[("retries", "0")]);
    let plan = client.plan(&request(4)).await.unwrap();
    let (a, b) = (pair.url("a.sock"), pair.url("b.sock"));
    assert_eq!(plan.partitions.len(), 4);
    for partition in &plan.partitions {
        let expected = match partition.index % 2 {
            0 => [a.clone(), b.clone()],
            _ => [b.clone(), a.clone()],
        };
        assert_eq!(partition.locations, expected);
    }
    assert_whole(&all(&client, 4).await.unwrap());
    assert_eq!(pair.scans(), (2, 2));
    assert_eq!(pair.second.as_ref().unwrap().stats().plans, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_not_allowed_is_left_alone() {
    let pair = Pair::start().await;
    for allowed in ["other.host", "/nonexistent/*.sock", "a.sock"] {
        let client = pair.client(&[("allowed_hosts", allowed)]);
        assert_whole(&all(&client, 4).await.unwrap());
    }
    assert_eq!(pair.scans(), (12, 0));
    assert_eq!(pair.second.as_ref().unwrap().stats().connections, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_gone_from_the_start_is_passed_over() {
    let mut pair = Pair::empty();
    pair.start_first().await;
    let client = pair.client(&[("retries", "1")]);
    assert_whole(&all(&client, 4).await.unwrap());
    assert_eq!(pair.scans(), (4, 0));
    // It comes back, and is read from again once it is no longer taken for away.
    pair.start_second().await;
    let start = std::time::Instant::now();
    while pair.scans().1 == 0 {
        assert_whole(&all(&client, 4).await.unwrap());
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn either_may_go_while_it_is_read() {
    for streams in ["1", "3"] {
        for goes_first in [true, false] {
            let mut pair = Pair::start().await;
            let client = pair.client(&[("retries", "3"), ("streams", streams)]);
            let plan = client.plan(&request(4)).await.unwrap();
            let mut readers: Vec<_> = plan.partitions.iter().map(|p| client.read(p)).collect();
            let mut found = Vec::new();
            for reader in &mut readers {
                found.push(reader.next().await.unwrap().unwrap());
            }
            if goes_first {
                pair.first = None;
            } else {
                pair.second = None;
            }
            let mut retries = 0;
            for reader in readers {
                let metrics = reader.metrics();
                found.extend(reader.try_collect::<Vec<_>>().await.unwrap());
                retries += metrics.retries();
            }
            assert_whole(&found);
            assert!(retries >= 2, "{retries}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_both_are_gone_the_error_counts_the_attempts_at_both() {
    let mut pair = Pair::start().await;
    let client = pair.client(&[("retries", "5")]);
    let plan = client.plan(&request(2)).await.unwrap();
    (pair.first, pair.second) = (None, None);
    let read = client.read(&plan.partitions[1]).try_collect::<Vec<_>>();
    let error = read.await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
    assert_eq!(error.detail().attempts.unwrap().count, 6, "{error}");
    assert!(
        error
            .to_string()
            .contains("table \"t\", partition 1, peer lightstream+unix://"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_does_not_know_the_ticket_or_the_rows_is_passed_over() {
    let mut pair = Pair::empty();
    pair.start_first().await;
    let stranger = Server::builder().table("t", table());
    let outdated = || {
        let table = table();
        table.replace(Vec::new()).unwrap();
        Server::builder().table("t", table).ticket_key(key())
    };
    for builder in [stranger, outdated()] {
        pair.second = Some(builder.listen(&pair.url("b.sock")).await.unwrap());
        let client = pair.client(&[("retries", "1")]);
        assert_whole(&all(&client, 4).await.unwrap());
        assert!(pair.second.as_ref().unwrap().stats().errors > 0);
        pair.second = None;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Where there may be no second attempt it says who refused.
    pair.second = Some(outdated().listen(&pair.url("b.sock")).await.unwrap());
    let error = all(&pair.client(&[("retries", "0")]), 4).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Expired, "{error}");
    assert!(error.to_string().contains("b.sock"), "{error}");
}
