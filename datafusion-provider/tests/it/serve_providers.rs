//! Tables of other providers, views and queries.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::catalog::MemTable;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use lightstream_core::ErrorCode;
use lightstream_core::protocol::filter::{CompareOp, Expr, FloatRule, Support};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::Precision;
use lightstream_core::protocol::table::TableKind;
use lightstream_core::server::{Catalog, Units};
use lightstream_datafusion::serve::{DataFusionCatalog, ScanMemory};

use crate::serving::*;

fn batch(start: i64, count: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + count));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(
        (start..start + count).map(|id| format!("w{}", id % 3)),
    ));
    RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap()
}

/// A table of five partitions of several batches, in order of `id`.
fn session() -> SessionContext {
    let context = SessionContext::new();
    let partitions = (0..5)
        .map(|part| (0..4).map(|at| batch(part * 400 + at * 100, 100)).collect())
        .collect();
    let table = MemTable::try_new(batch(0, 1).schema(), partitions).unwrap();
    context.register_table("m", Arc::new(table)).unwrap();
    context
}

fn ids(rows: &RecordBatch) -> Vec<i64> {
    rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

#[tokio::test]
async fn a_table_in_memory_keeps_its_order() {
    let context = session();
    let info = table(&context, "m")
        .await
        .describe("m", None)
        .await
        .unwrap();
    assert_eq!((info.kind, info.snapshot), (TableKind::Table, None));
    assert_eq!(info.statistics.rows, Precision::Exact(2000));
    for _ in 0..3 {
        let scan = plan(&context, &ScanRequest::table("m")).await.unwrap();
        assert_eq!(scan.partitions().len(), 1);
        assert!(!scan.partitions()[0].resumable);
        for _ in 0..2 {
            assert_eq!(
                ids(&read_all(scan.as_ref()).await),
                (0..2000).collect::<Vec<_>>()
            );
        }
        assert_eq!(
            expect_error(scan.open(
                0,
                Units {
                    from: 1,
                    ..Units::ALL
                }
            ))
            .code(),
            ErrorCode::InvalidArgument
        );
        assert_eq!(
            expect_error(scan.open(1, Units::ALL)).code(),
            ErrorCode::InvalidArgument
        );
        assert!(
            units_of(
                scan.open(
                    0,
                    Units {
                        from: 0,
                        stripe: 1,
                        stripes: 2
                    }
                )
                .unwrap()
            )
            .await
            .unwrap()
            .is_empty()
        );
    }
    let condition = Expr::compare(
        CompareOp::GtEq,
        Expr::column("id"),
        literal(Int64Array::from(vec![1990])),
    );
    let request = filtered(ScanRequest::table("m"), FloatRule::NanLargest, condition);
    for (projection, limit, columns, rows) in [
        (None, None, 2, 10),
        (Some(vec![]), None, 0, 10),
        (Some(vec![1, 0, 1]), Some(4), 3, 4),
    ] {
        let scan = plan(
            &context,
            &ScanRequest {
                projection,
                limit,
                ..request.clone()
            },
        )
        .await
        .unwrap();
        assert_eq!(scan.filters(), [Support::Exact]);
        let read = read_all(scan.as_ref()).await;
        assert_eq!((read.num_columns(), read.num_rows()), (columns, rows));
    }
    let stale = ScanRequest {
        snapshot: Some("x".into()),
        ..ScanRequest::table("m")
    };
    assert_eq!(
        expect_error(plan(&context, &stale).await).code(),
        ErrorCode::Expired
    );
}

#[tokio::test]
async fn views_and_queries_can_be_read_again() {
    let context = session();
    context
        .sql("create view v as select word, sum(id) as total, count(*) as n from m group by word")
        .await
        .unwrap();
    let info = table(&context, "v")
        .await
        .describe("v", None)
        .await
        .unwrap();
    assert_eq!(info.kind, TableKind::View);
    for request in [
        ScanRequest::table("v"),
        ScanRequest::sql(
            "select a.word, count(*) as n from m a join m b on a.id = b.id + 1 group by a.word",
        ),
        ScanRequest::sql("select * from (values (1, 'a'), (2, 'b'), (3, null)) as t(x, y)"),
        ScanRequest::sql("select 1 as a union all select 2.5 union all select 3"),
    ] {
        let scan = plan(&context, &request).await.unwrap();
        for _ in 0..3 {
            assert_eq!(
                read_all(scan.as_ref()).await.num_rows(),
                3,
                "{}",
                request.source_name()
            );
        }
        assert_eq!(scan.snapshot(), None);
    }
    let sorted = ScanRequest {
        ordered: true,
        ..ScanRequest::sql("select id from m order by id desc")
    };
    let scan = plan(&context, &sorted).await.unwrap();
    assert_eq!(scan.ordering()[0].path, ["id"]);
    assert!(scan.ordering()[0].descending);
    assert_eq!(
        ids(&read_all(scan.as_ref()).await),
        (0..2000).rev().collect::<Vec<_>>()
    );
    let unsorted = ScanRequest {
        ordered: true,
        ..ScanRequest::sql("select id from m where id % 2 = 0")
    };
    let scan = plan(&context, &unsorted).await.unwrap();
    assert_eq!(
        ids(&read_all(scan.as_ref()).await),
        (0..2000).step_by(2).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn filters_and_projections_of_queries() {
    let context = session();
    let sql = "select a.id, b.id, a.word as w from m a join m b on a.id = b.id";
    let catalog = DataFusionCatalog::new(context);
    let table = catalog.query(sql).await.unwrap();
    let w = Expr::compare(
        CompareOp::Eq,
        Expr::column("w"),
        literal(StringArray::from(vec!["w1"])),
    );
    let ambiguous = Expr::compare(
        CompareOp::Gt,
        Expr::column("id"),
        literal(Int64Array::from(vec![9])),
    );
    let request = filtered(
        ScanRequest::sql(sql),
        FloatRule::TotalOrder,
        w.and(ambiguous),
    );
    let scan = table
        .plan(&ScanRequest {
            projection: Some(vec![1, 2]),
            ..request
        })
        .await
        .unwrap();
    assert_eq!(scan.filters(), [Support::Exact, Support::Unsupported]);
    assert_eq!(read_all(scan.as_ref()).await.num_rows(), 667);
}

#[tokio::test]
async fn queries_may_only_read() {
    let context = session();
    let catalog = DataFusionCatalog::new(context.clone());
    for sql in [
        "create table x as select 1",
        "create view x as select 1",
        "drop table m",
        "insert into m values (1, 'a')",
        "copy m to '/nonexistent/x.parquet'",
        "set datafusion.execution.batch_size = 1",
        "select * from nowhere",
        "selec 1",
        "",
    ] {
        let error = expect_error(catalog.query(sql).await);
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{sql}: {error}");
    }
    assert_eq!(
        expect_error(catalog.query("select 1; select 2").await).code(),
        ErrorCode::Unimplemented
    );
    assert!(context.table_exist("m").unwrap());
    let failing = plan(&context, &ScanRequest::sql("select 1 / (id - id) from m"))
        .await
        .unwrap();
    let error = expect_error(units_of(failing.open(0, Units::ALL).unwrap()).await);
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
}

#[tokio::test]
async fn explain_is_a_query() {
    let scan = plan(
        &session(),
        &ScanRequest::sql("explain select * from m where id > 3"),
    )
    .await
    .unwrap();
    assert!(read_all(scan.as_ref()).await.num_rows() > 0);
}

#[tokio::test]
async fn a_scan_that_wants_too_much_memory_fails_alone() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&pool))
        .build_arc()
        .unwrap();
    let session = |each: Option<usize>| {
        let mut config = SessionConfig::new();
        if let Some(bytes) = each {
            config = config.with_extension(Arc::new(ScanMemory(bytes)));
        }
        let context = SessionContext::new_with_config_rt(config, Arc::clone(&runtime));
        let rows = MemTable::try_new(batch(0, 1).schema(), vec![vec![batch(0, 100_000)]]).unwrap();
        context.register_table("m", Arc::new(rows)).unwrap();
        context
    };
    // Joined rows are held in memory, and nowhere else.
    let greedy = "CREATE VIEW v AS SELECT a.id FROM m a JOIN m b ON a.id = b.id";
    let modest = "CREATE VIEW w AS SELECT word, count(*) AS n FROM m GROUP BY word";
    let bounded = session(Some(1 << 20));
    let unbounded = session(None);
    for context in [&bounded, &unbounded] {
        for view in [greedy, modest] {
            context.sql(view).await.unwrap().collect().await.unwrap();
        }
    }
    let joined = plan(&unbounded, &ScanRequest::table("v")).await.unwrap();
    assert_eq!(read_all(joined.as_ref()).await.num_rows(), 100_000);
    let joined = plan(&bounded, &ScanRequest::table("v")).await.unwrap();
    let grouped = plan(&bounded, &ScanRequest::table("w")).await.unwrap();
    let mut rows = joined.open(0, Units::ALL).unwrap();
    let error = rows.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
    assert!(
        error.to_string().contains("the scan may take") && !error.is_retryable(),
        "{error}"
    );
    assert_eq!(read_all(grouped.as_ref()).await.num_rows(), 3);
    drop((rows, joined, grouped));
    assert_eq!(pool.reserved(), 0);
}
