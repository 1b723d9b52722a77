//! What reaches the server: columns, filters and limits, and never a limit that would cut off rows.

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::{TableProviderFilterPushDown, col, in_list, lit};
use lightstream_core::protocol::filter::Support;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_datafusion::Options;

use crate::provider_support::{Pieces, explained, lines, register, rows, serve, session};

/// What the server is asked for a query.
async fn asked(table: Pieces, sql: &str) -> ScanRequest {
    let asked = table.asked.clone();
    let server = serve(table).await;
    let ctx = session(3);
    register(&ctx, &server, Options::default()).await;
    explained(&ctx, sql).await;
    asked.last()
}

fn conjuncts(request: &ScanRequest) -> Vec<String> {
    request
        .filter
        .conjuncts
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[tokio::test]
async fn columns_filters_and_limits_are_handed_down() {
    let table = Pieces::new(rows(4, 10));
    let request = asked(
        table.clone(),
        "SELECT s, id FROM t WHERE id > 5 AND k = 3 LIMIT 7",
    )
    .await;
    assert_eq!(request.projection, Some(vec![0, 3]));
    assert_eq!(conjuncts(&request), ["id > 5", "k = 3"]);
    assert_eq!(request.limit, Some(7));
    assert_eq!(request.max_partitions, Some(3));
    assert_eq!(request.snapshot, None);

    let request = asked(table.clone(), "SELECT id FROM t LIMIT 7 OFFSET 5").await;
    assert_eq!(request.limit, Some(12));
    let request = asked(table.clone(), "SELECT count(*) FROM t WHERE k = 3").await;
    assert_eq!(request.projection, Some(vec![]));
    let request = asked(
        table,
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.k = 3 AND b.k = 3",
    )
    .await;
    assert_eq!(conjuncts(&request), ["k = 3"]);
}

#[tokio::test]
async fn a_limit_is_handed_down_only_with_filters_that_are_all_exact() {
    let table = Pieces::new(rows(4, 10));
    for sql in [
        "SELECT id FROM t WHERE upper(s) = 'BETA' LIMIT 7",
        "SELECT id FROM t WHERE id > 5 AND upper(s) = 'BETA' LIMIT 7",
        "SELECT id FROM t WHERE (id > 5 AND upper(s) = 'BETA') OR k = 3 LIMIT 7",
        "SELECT id FROM t WHERE f IN (0.0, 1.5, 2.5, 3.5) LIMIT 7",
        "SELECT id FROM t ORDER BY s LIMIT 7",
        "SELECT k, count(*) FROM t GROUP BY k LIMIT 7",
    ] {
        assert_eq!(asked(table.clone(), sql).await.limit, None, "{sql}");
    }
    let unsure = Pieces {
        promises_exact: false,
        ..table
    };
    let sql = "SELECT id FROM t WHERE id > 5 LIMIT 7";
    let request = asked(unsure, sql).await;
    assert_eq!(
        (request.limit, conjuncts(&request)),
        (None, vec!["id > 5".to_owned()])
    );
}

#[tokio::test]
async fn a_limit_is_taken_back_where_a_filter_turns_out_not_to_be_applied() {
    let table = Pieces {
        applies: Support::Inexact,
        ..Pieces::new(rows(4, 10))
    };
    let asked_of = table.asked.clone();
    let server = serve(table).await;
    let ctx = session(3);
    register(&ctx, &server, Options::default()).await;
    assert_eq!(
        lines(&ctx, "SELECT s FROM t WHERE id = 39 LIMIT 1")
            .await
            .len(),
        1
    );
    let request = asked_of.last();
    assert_eq!(
        (request.limit, request.projection),
        (None, Some(vec![3, 0]))
    );
    assert_eq!(asked_of.plans.load(std::sync::atomic::Ordering::SeqCst), 2);
}

/// Callers other than DataFusion's planner may hand down any filter: it narrows nothing that was not promised.
#[tokio::test]
async fn a_filter_that_cannot_be_translated_keeps_the_limit_from_the_server() {
    let table = Pieces::new(rows(4, 10));
    let asked_of = table.asked.clone();
    let server = serve(table).await;
    let ctx = session(3);
    let table = register(&ctx, &server, Options::default()).await;
    let foreign = datafusion::functions::expr_fn::upper(col("s")).eq(lit("BETA"));
    let qualified = col("t.id").gt(lit(5_i64));
    table
        .scan(&ctx.state(), Some(&vec![0]), &[foreign, qualified], Some(3))
        .await
        .unwrap();
    let request = asked_of.last();
    assert_eq!(
        (request.limit, conjuncts(&request)),
        (None, vec!["id > 5".to_owned()])
    );
}

/// Each is small enough for a server, and both together are not.
#[tokio::test]
async fn filters_that_are_too_large_together_are_applied_here() {
    let table = Pieces::new(rows(4, 10));
    let asked_of = table.asked.clone();
    let server = serve(table).await;
    let ctx = session(3);
    let table = register(&ctx, &server, Options::default()).await;
    let list = |from: i64| in_list(col("id"), (from..from + 600_000).map(lit).collect(), false);
    let filters = [list(5), list(30)];
    let promised = table
        .supports_filters_pushdown(&filters.iter().collect::<Vec<_>>())
        .unwrap();
    assert_eq!(
        promised,
        [
            TableProviderFilterPushDown::Exact,
            TableProviderFilterPushDown::Exact
        ]
    );
    let plan = table
        .scan(&ctx.state(), Some(&vec![3]), &filters, Some(100))
        .await
        .unwrap();
    let request = asked_of.last();
    assert_eq!((request.limit, request.filter.conjuncts.len()), (None, 1));
    let batches = datafusion::physical_plan::collect(plan, ctx.task_ctx())
        .await
        .unwrap();
    assert_eq!(
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        10
    );
    assert!(batches.iter().all(|batch| batch.num_columns() == 1));
}
