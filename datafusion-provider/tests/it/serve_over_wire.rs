//! Through a server and back: what a client reads is what DataFusion reads.

use std::path::Path;
use std::time::Duration;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use lightstream_core::protocol::filter::{CompareOp, Expr, FloatRule, Support};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::Server;
use lightstream_core::{Client, ErrorCode, Options};
use lightstream_datafusion::serve::DataFusionCatalog;

use crate::serving::*;

async fn flights() -> SessionContext {
    let context = plain_session();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/flights.parquet");
    let path = path.to_str().unwrap();
    context
        .register_parquet("flights", path, ParquetReadOptions::default())
        .await
        .unwrap();
    context
}

async fn serve(context: &SessionContext) -> (Server, Client) {
    let catalog = DataFusionCatalog::new(context.clone());
    let server = Server::builder()
        .catalog(catalog)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_partitions_of_files_and_results_of_queries() {
    let context = flights().await;
    let (_server, client) = serve(&context).await;
    assert_eq!(client.tables("").await.unwrap()[0].name, "flights");
    let winter = Expr::compare(
        CompareOp::Eq,
        Expr::column("month"),
        literal(Int32Array::from(vec![12])),
    );
    let request = filtered(ScanRequest::table("flights"), FloatRule::NanLargest, winter);
    let request = ScanRequest {
        projection: Some(vec![9, 0, 5]),
        ordered: true,
        ..request
    };
    let plan = client.plan(&request).await.unwrap();
    assert_eq!(
        (plan.partitions.len(), plan.filters.as_slice()),
        (6, &[Support::Exact][..])
    );
    let mut batches: Vec<RecordBatch> = Vec::new();
    for partition in &plan.partitions {
        batches.extend(
            client
                .read(partition)
                .try_collect::<Vec<_>>()
                .await
                .unwrap(),
        );
    }
    let expected = context
        .sql("select carrier, year, dep_delay from flights where month = 12")
        .await
        .unwrap();
    let expected = expected.collect().await.unwrap();
    assert_same_rows(
        &concat(&plan.schema, &batches),
        &concat(&expected[0].schema(), &expected),
        "december",
    );

    let sql = ScanRequest::sql(
        "select origin, count(*) as n from flights group by origin order by origin",
    );
    let read: Vec<_> = client
        .scan(&sql)
        .await
        .unwrap()
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    let refused = expect_error(client.plan(&ScanRequest::sql("drop table flights")).await);
    assert_eq!(refused.code(), ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_given_up_ends_the_work() {
    use futures::StreamExt;
    let context = flights().await;
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let big = "select a.flight, b.flight as other from flights a cross join flights b";
    for request in [ScanRequest::table("flights"), ScanRequest::sql(big)] {
        let scan = plan(&context, &request).await.unwrap();
        let mut stream = scan.open(0, lightstream_core::server::Units::ALL).unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        drop(stream);
    }
    for _ in 0..100 {
        if tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
            <= before
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("tasks of DataFusion outlive the streams that they worked for");
}
