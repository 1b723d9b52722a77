//! Scans that are planned once and read in other ways: again, by another process, or with a filter's rest left over.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;
use futures::TryStreamExt;
use lightstream_core::client::{PlannedScan, Residual};
use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule, Support};
use lightstream_core::protocol::plan::Partition;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, ErrorCode, Options};

/// `n` counts up, `f` is 0, 1, 2, 0, 1, 2 and so on, with zeros of both signs.
fn rows(count: i64) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let f = (0..count).map(|n| match n % 6 {
        3 => -0.0,
        n => (n % 3) as f64,
    });
    let f: ArrayRef = Arc::new(Float64Array::from_iter_values(f));
    RecordBatch::try_from_iter([("n", n), ("f", f)]).unwrap()
}

async fn serve(count: i64) -> (Server, Client) {
    let server = Server::builder()
        .table("t", MemoryTable::try_new(vec![rows(count)]).unwrap())
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    (server, client)
}

/// `f IN (0.0)`, which zeros of both signs make inexact, `AND n < most`.
fn request(most: i64) -> ScanRequest {
    let zero = Arc::new(Float64Array::from(vec![0.0]));
    let most = Expr::literal(Arc::new(Int64Array::from(vec![most]))).unwrap();
    ScanRequest {
        projection: Some(vec![0]),
        filter: Filter {
            float_rule: FloatRule::TotalOrderZeroEqual,
            conjuncts: vec![
                Expr::in_list(Expr::column("f"), zero, false),
                Expr::compare(CompareOp::Lt, Expr::column("n"), most),
            ],
        },
        ordered: true,
        ..ScanRequest::table("t")
    }
}

async fn all(planned: &PlannedScan) -> RecordBatch {
    let batches: Vec<_> = planned.read().try_collect().await.unwrap();
    concat_batches(planned.schema(), &batches).unwrap()
}

fn every_third(below: i64) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values((0..below).step_by(3)));
    RecordBatch::try_from_iter_with_nullable([("n", n, false)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_scan_gives_all_rows_each_time_it_is_read() {
    let (_server, client) = serve(3000).await;
    let planned = client.plan_scan(&request(2000)).await.unwrap();
    assert_eq!(planned.filters(), [Support::Inexact, Support::Exact]);
    for _ in 0..3 {
        let read = all(&planned).await;
        assert_eq!(read.column(0), every_third(2000).column(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_and_its_residual_are_read_from_bytes_by_another_client() {
    let (server, client) = serve(600_000).await;
    let request = ScanRequest {
        max_partitions: Some(4),
        ..request(500_000)
    };
    let planned = client.plan_scan(&request).await.unwrap();
    let partitions = &planned.plan().partitions;
    assert!(partitions.len() > 1, "{}", partitions.len());
    let residual = planned.residual().unwrap().to_bytes().unwrap();
    let residual = Residual::from_bytes(&residual).unwrap();
    assert_eq!(&residual, planned.residual().unwrap().as_ref());

    let other = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    let mut batches = Vec::new();
    for partition in partitions {
        let again = Partition::from_bytes(&partition.to_bytes().unwrap()).unwrap();
        assert_eq!(again.index, partition.index);
        assert_eq!(&residual.project(&again.schema).unwrap(), planned.schema());
        let read: Vec<_> = other.read(&again).try_collect().await.unwrap();
        batches.extend(read.iter().map(|batch| residual.apply(batch).unwrap()));
    }
    let read = concat_batches(planned.schema(), &batches).unwrap();
    assert_eq!(read.column(0), every_third(500_000).column(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_filter_and_the_limit_can_be_left_to_the_caller() {
    let (_server, client) = serve(3000).await;
    let limited = ScanRequest {
        limit: Some(2),
        ..request(2000)
    };
    let planned = client.plan_superset(&limited).await.unwrap();
    assert_eq!(planned.filters(), [Support::Inexact, Support::Exact]);
    assert!(planned.residual().is_none());
    assert!(all(&planned).await.num_rows() >= every_third(2000).num_rows());

    let exact = ScanRequest {
        filter: Filter {
            conjuncts: limited.filter.conjuncts[1..].to_vec(),
            ..limited.filter
        },
        ..limited
    };
    let planned = client.plan_superset(&exact).await.unwrap();
    assert_eq!(all(&planned).await.num_rows(), 2);
}

#[test]
fn bytes_that_are_no_partition_are_refused() {
    for bytes in [&b"no"[..], &[], &[0xff; 40]] {
        let error = Partition::from_bytes(bytes).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
    for bytes in [&b"no"[..], &[], &[0xff; 40]] {
        let error = Residual::from_bytes(bytes).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
}
