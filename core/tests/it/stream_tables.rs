//! Tables whose rows are made anew for each scan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule, Support};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{RowSource, RowStream, Server, StreamTable};
use lightstream_core::{Client, Error, ErrorCode, Options, Result};

fn rows(from: i64) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 10));
    let s: ArrayRef = Arc::new(StringArray::from_iter_values(
        (from..from + 10).map(|n| n.to_string()),
    ));
    RecordBatch::try_from_iter([("n", n), ("s", s)]).unwrap()
}

#[derive(Default)]
struct Counts {
    opened: AtomicUsize,
    made: AtomicUsize,
    live: AtomicUsize,
}

struct Live(Arc<Counts>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// So many batches; then an error, if there is one.
struct Made {
    counts: Arc<Counts>,
    batches: usize,
    error: Option<&'static str>,
}

#[async_trait]
impl RowSource for Made {
    async fn open(&self) -> Result<RowStream> {
        let counts = Arc::clone(&self.counts);
        counts.opened.fetch_add(1, Ordering::SeqCst);
        counts.live.fetch_add(1, Ordering::SeqCst);
        let live = Live(Arc::clone(&counts));
        let error = self.error.map(|message| Err(Error::internal(message)));
        let batches = futures::stream::iter(0..self.batches)
            .map(move |batch| {
                let _ = &live;
                counts.made.fetch_add(1, Ordering::SeqCst);
                Ok(rows(batch as i64 * 10))
            })
            .chain(futures::stream::iter(error));
        Ok(RowStream {
            schema: rows(0).schema(),
            batches: batches.boxed(),
        })
    }
}

async fn serve(batches: usize, error: Option<&'static str>) -> (Server, Client, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let made = Made {
        counts: Arc::clone(&counts),
        batches,
        error,
    };
    let server = Server::builder()
        .table("t", StreamTable::new(made))
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    (server, client, counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scan_gets_rows_of_its_own_filtered_as_they_pass() {
    let (_server, client, counts) = serve(5, None).await;
    let literal = Expr::literal(Arc::new(Int64Array::from(vec![25]))).unwrap();
    let request = ScanRequest {
        projection: Some(vec![1]),
        filter: Filter::new(
            FloatRule::TotalOrder,
            Expr::compare(CompareOp::Lt, Expr::column("n"), literal),
        ),
        ..ScanRequest::table("t")
    };
    for scan in 1..4 {
        let plan = client.plan(&request).await.unwrap();
        assert_eq!((plan.partitions.len(), &plan.snapshot), (1, &None));
        assert_eq!(plan.filters, [Support::Exact]);
        let read: Vec<_> = client
            .read(&plan.partitions[0])
            .try_collect()
            .await
            .unwrap();
        let count: usize = read.iter().map(RecordBatch::num_rows).sum();
        assert_eq!((count, read[0].num_columns()), (25, 1));
        // Once more at first, for the schema.
        assert_eq!(counts.opened.load(Ordering::SeqCst), scan + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_rows_from_being_made_reaches_the_client_after_the_rows_before() {
    let (_server, client, _) = serve(2, Some("the well is dry")).await;
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let mut reader = client.read(&plan.partitions[0]);
    for _ in 0..2 {
        assert!(reader.try_next().await.unwrap().is_some());
    }
    let error = reader.try_next().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(error.to_string().contains("the well is dry"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_made_no_further_than_the_reader_goes() {
    let (server, client, counts) = serve(10_000_000, None).await;
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let mut reader = client.read(&plan.partitions[0]);
    assert!(reader.try_next().await.unwrap().is_some());
    drop(reader);
    let idle = async {
        while server.stats().active_scans > 0 || counts.live.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), idle)
        .await
        .expect("the stream is dropped");
    assert!(counts.made.load(Ordering::SeqCst) < 10_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_refused() {
    let (_server, client, _) = serve(1, None).await;
    let request = ScanRequest {
        snapshot: Some("yesterday".to_owned()),
        ..ScanRequest::table("t")
    };
    let error = client.plan(&request).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Expired);
}
