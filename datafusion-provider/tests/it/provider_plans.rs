//! What EXPLAIN shows, what is known of a scan before it runs, and what is measured while it does.

use std::time::{Duration, Instant};

use datafusion::common::stats::Precision;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use futures::StreamExt;
use lightstream_core::protocol::filter::Support;
use lightstream_core::protocol::table::SortColumn;
use lightstream_core::server::Server;
use lightstream_datafusion::Options;

use crate::provider_support::{
    Pieces, explained, physical, register, rows, scan_of, serve, session,
};

fn by_id() -> SortColumn {
    SortColumn {
        path: vec!["id".to_owned()],
        descending: false,
        nulls_first: false,
    }
}

/// The plan with what differs from run to run taken out.
async fn shown(server: &Server, target_partitions: usize, sql: &str) -> String {
    let ctx = session(target_partitions);
    register(&ctx, server, Options::default()).await;
    let authority = server.url().to_string();
    explained(&ctx, sql)
        .await
        .replace(&authority, "SERVER")
        .replace("SERVER/t", "SERVER")
        .trim_end()
        .to_owned()
}

#[tokio::test]
async fn explain_says_what_the_server_does() {
    let server = serve(Pieces::new(rows(4, 10))).await;
    assert_eq!(
        shown(
            &server,
            4,
            "SELECT id, s FROM t WHERE id > 5 AND s LIKE 'a%' LIMIT 3"
        )
        .await,
        "CoalescePartitionsExec: fetch=3\
         \n  LightstreamExec: location=SERVER, table=t, snapshot=pieces-1, partitions=4, projection=[id, s], \
         filters=[id > 5, s LIKE 'a%'] (exact), limit=3"
    );
    assert_eq!(
        shown(&server, 1, "SELECT s FROM t").await,
        "LightstreamExec: location=SERVER, table=t, snapshot=pieces-1, partitions=1, projection=[s]"
    );
    let partly = shown(
        &server,
        1,
        "SELECT id FROM t WHERE (id > 5 AND upper(s) = 'BETA') OR k = 1",
    )
    .await;
    assert!(partly.contains("filters=[id > 5 OR k = 1]"), "{partly}");
    assert!(partly.contains("FilterExec: "), "{partly}");
}

#[tokio::test]
async fn explain_shows_filters_that_are_applied_in_part() {
    let server = serve(Pieces {
        promises_exact: false,
        applies: Support::Inexact,
        ..Pieces::new(rows(4, 10))
    })
    .await;
    let plan = shown(&server, 1, "SELECT id FROM t WHERE id > 5").await;
    assert_eq!(
        plan,
        "FilterExec: id@0 > 5\
         \n  LightstreamExec: location=SERVER, table=t, snapshot=pieces-1, partitions=1, projection=[id], \
         filters=[id > 5] (inexact)"
    );
}

#[tokio::test]
async fn a_promise_that_is_not_kept_shows_as_a_filter_over_the_scan() {
    let server = serve(Pieces {
        applies: Support::Unsupported,
        ..Pieces::new(rows(4, 10))
    })
    .await;
    assert_eq!(
        shown(&server, 1, "SELECT s FROM t WHERE id > 5 LIMIT 3").await,
        "FilterExec: id@1 > 5, projection=[s@0], fetch=3\
         \n  LightstreamExec: location=SERVER, table=t, snapshot=pieces-1, partitions=1, projection=[s, id]"
    );
}

#[tokio::test]
async fn partitions_follow_the_session_and_the_option() {
    let server = serve(Pieces::new(rows(8, 10))).await;
    for (target, option, engine, at_server) in [
        (1, None, 1, 1),
        (3, None, 3, 3),
        (16, None, 8, 8),
        (3, Some("8"), 3, 8),
        (16, Some("2"), 2, 2),
    ] {
        let ctx = session(target);
        let mut options = Options::default();
        if let Some(option) = option {
            options.set("partitions", option).unwrap();
        }
        register(&ctx, &server, options).await;
        let plan = physical(&ctx, "SELECT id, s FROM t").await;
        let scan = scan_of(&plan);
        assert_eq!(
            scan.properties().output_partitioning().partition_count(),
            engine,
            "target {target}, {option:?}"
        );
        assert_eq!(
            scan.plan().partitions.len(),
            at_server,
            "target {target}, {option:?}"
        );
        let read: Vec<usize> = (0..engine)
            .flat_map(|each| scan.server_partitions(each))
            .map(|partition| partition.index)
            .collect();
        assert_eq!(read, (0..at_server).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_declared_order_saves_the_sort() {
    let server = serve(Pieces {
        ordering: vec![by_id()],
        ..Pieces::new(rows(4, 10))
    })
    .await;
    let plan = shown(&server, 4, "SELECT id, s FROM t ORDER BY id").await;
    assert!(
        plan.starts_with("SortPreservingMergeExec: [id@0 ASC NULLS LAST]\n  LightstreamExec"),
        "{plan}"
    );
    let plan = shown(&server, 4, "SELECT s FROM t ORDER BY s").await;
    assert!(plan.contains("SortExec"), "{plan}");
}

#[tokio::test]
async fn counts_come_from_exact_statistics_and_from_no_others() {
    let server = serve(Pieces::new(rows(4, 10))).await;
    let plan = shown(&server, 4, "SELECT count(*) FROM t").await;
    assert!(!plan.contains("LightstreamExec"), "{plan}");
    let plan = shown(&server, 4, "SELECT count(*) FROM t WHERE id > 5").await;
    assert!(
        plan.contains("projection=[], filters=[id > 5] (exact)"),
        "{plan}"
    );

    let server = serve(Pieces {
        has_snapshots: false,
        ..Pieces::new(rows(4, 10))
    })
    .await;
    let plan = shown(&server, 4, "SELECT count(*) FROM t").await;
    assert!(plan.contains("LightstreamExec"), "{plan}");
}

#[tokio::test]
async fn statistics_are_exact_only_where_every_row_comes_back() {
    let server = serve(Pieces::new(rows(4, 10))).await;
    let ctx = session(2);
    let table = register(&ctx, &server, Options::default()).await;
    let rows_of = |plan: &dyn ExecutionPlan, partition| {
        let args = StatisticsArgs::new().with_partition(partition);
        StatisticsContext::new()
            .compute(plan, &args)
            .unwrap()
            .num_rows
    };

    let plan = physical(&ctx, "SELECT id FROM t").await;
    assert_eq!(rows_of(scan_of(&plan), None), Precision::Exact(40));
    assert_eq!(rows_of(scan_of(&plan), Some(0)), Precision::Exact(20));
    let limited = scan_of(&plan).with_fetch(Some(3)).unwrap();
    assert_eq!(rows_of(limited.as_ref(), None), Precision::Inexact(6));
    let plan = physical(&ctx, "SELECT id FROM t WHERE id > 5").await;
    assert_eq!(rows_of(scan_of(&plan), None), Precision::Inexact(40));
    assert_eq!(rows_of(scan_of(&plan), Some(1)), Precision::Inexact(20));

    // Before a scan only a pinned snapshot says what the scan will see.
    use datafusion::catalog::TableProvider;
    assert_eq!(table.statistics().unwrap().num_rows, Precision::Inexact(40));
    let pinned = register(
        &session(2),
        &server,
        Options::default().with("snapshot", "pieces-1").unwrap(),
    )
    .await;
    assert_eq!(pinned.statistics().unwrap().num_rows, Precision::Exact(40));
}

#[tokio::test]
async fn a_fetch_cuts_each_partition_to_the_row() {
    let server = serve(Pieces::new(rows(6, 10))).await;
    let ctx = session(2);
    register(
        &ctx,
        &server,
        Options::default().with("partitions", "6").unwrap(),
    )
    .await;
    let plan = physical(&ctx, "SELECT id FROM t").await;
    for fetch in [0, 1, 9, 10, 11, 29, 30, 31] {
        let cut = scan_of(&plan).with_fetch(Some(fetch)).unwrap();
        assert_eq!(cut.fetch(), Some(fetch));
        for partition in 0..2 {
            let stream = cut.execute(partition, ctx.task_ctx()).unwrap();
            let batches = datafusion::physical_plan::common::collect(stream)
                .await
                .unwrap();
            let read: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(read, fetch.min(30), "fetch {fetch}, partition {partition}");
        }
    }
}

#[tokio::test]
async fn what_is_received_is_measured() {
    let server = serve(Pieces::new(rows(4, 50))).await;
    let ctx = session(2);
    register(&ctx, &server, Options::default()).await;
    let received = async |sql: &str| {
        let plan = physical(&ctx, sql).await;
        let batches = collect(plan.clone(), ctx.task_ctx()).await.unwrap();
        let metrics = scan_of(&plan).metrics().unwrap().aggregate_by_name();
        let metric = |name: &str| {
            metrics
                .sum_by_name(name)
                .map_or(0, |value| value.as_usize())
        };
        assert!(metric("frames") > 0, "{metrics}");
        assert!(metric("time_to_first_batch") > 0, "{metrics}");
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        // A limit is kept by each partition, and then by all together.
        assert!(metrics.output_rows().unwrap() >= rows, "{metrics}");
        metric("bytes_received")
    };
    let all = received("SELECT * FROM t").await;
    let column = received("SELECT id FROM t").await;
    let few = received("SELECT * FROM t WHERE id < 10").await;
    let limited = received("SELECT * FROM t LIMIT 5").await;
    for less in [column, few, limited] {
        assert!(less > 0 && less < all, "{less} of {all}");
    }
}

#[tokio::test]
async fn every_way_of_showing_a_plan_keeps_secrets() {
    let server = serve(Pieces::new(rows(4, 10))).await;
    let ctx = session(2);
    register(&ctx, &server, Options::default()).await;
    let plan = physical(&ctx, "SELECT id FROM t WHERE id > 5 LIMIT 2").await;
    let tree = displayable(plan.as_ref()).tree_render().to_string();
    assert!(
        tree.contains("LightstreamExec") && tree.contains("id > 5"),
        "{tree}"
    );
    let verbose = displayable(plan.as_ref()).indent(true).to_string();
    assert!(
        verbose.contains("streams=[0: 1 of 20 rows, 1: 1 of 20 rows]"),
        "{verbose}"
    );
    // Tickets are as good as what they open.
    let debug = format!("{:?}", scan_of(&plan));
    assert!(!debug.contains("ticket"), "{debug}");
}

#[tokio::test]
async fn nothing_is_read_before_it_is_wanted_and_a_dropped_stream_ends_the_read() {
    let server = serve(Pieces::new(rows(40, 2_000))).await;
    let ctx = session(2);
    register(&ctx, &server, Options::default()).await;
    let plan = physical(&ctx, "SELECT * FROM t").await;
    for round in 1..=5 {
        let mut stream = scan_of(&plan).execute(1, ctx.task_ctx()).unwrap();
        assert_eq!(server.stats().scans, round - 1);
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
        assert_eq!(server.stats().scans, round);
        drop(stream);
        let dropped = Instant::now();
        while server.stats().active_scans > 0 {
            assert!(
                dropped.elapsed() < Duration::from_secs(5),
                "the server goes on sending"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Forty batches would make half of that.
        assert!(
            server.stats().rows_sent < round * 40_000,
            "{:?}",
            server.stats()
        );
    }
}

/// A plan is a value: it may be run again, and its partitions in any order, at the same time.
#[tokio::test]
async fn a_plan_may_be_run_more_than_once() {
    let server = serve(Pieces {
        has_snapshots: false,
        ..Pieces::new(rows(6, 20))
    })
    .await;
    let ctx = session(3);
    register(&ctx, &server, Options::default()).await;
    let plan = physical(&ctx, "SELECT id FROM t WHERE id >= 15").await;
    for _ in 0..3 {
        let partitions = [2, 0, 1, 2]
            .map(|partition| scan_of(&plan).execute(partition, ctx.task_ctx()).unwrap());
        let read =
            futures::future::join_all(partitions.map(datafusion::physical_plan::common::collect))
                .await;
        let counts = read.into_iter().map(|batches| {
            batches
                .unwrap()
                .iter()
                .map(|batch| batch.num_rows())
                .sum::<usize>()
        });
        assert_eq!(counts.collect::<Vec<_>>(), [40, 25, 40, 40]);
    }
}
