//! The same answers as the same rows give in memory, whatever is asked and however many partitions there are.

use lightstream_core::protocol::filter::Support;
use lightstream_core::server::MemoryTable;
use lightstream_datafusion::Options;

use crate::provider_support::{Pieces, lines, register, register_local, rows, serve, session};

/// Conditions on every type, among them what is pushed whole, in part and not at all.
const CONDITIONS: &[&str] = &[
    "id = 17",
    "id <> 17",
    "17 < id",
    "id >= 17 AND id <= 40",
    "id BETWEEN 17 AND 40",
    "id NOT BETWEEN 17 AND 40",
    "id IN (1, 2, 3, 99, 100000)",
    "id NOT IN (1, 2, 3, 99)",
    "k IN (1, 2, 3, 4, 5, 6)",
    "k NOT IN (1, 2, NULL)",
    "k = 3 OR k IS NULL",
    "k IS NOT NULL AND flag",
    "k IS DISTINCT FROM 3",
    "k IS NOT DISTINCT FROM NULL",
    "k = 3.0",
    "k > 2.5",
    "k < id",
    "CAST(k AS BIGINT) * 2 = id % 20",
    "k + 1 > 5",
    "10 / (k + 20) = 0",
    "NOT flag",
    "flag IS TRUE",
    "flag IS NOT TRUE",
    "flag IS FALSE",
    "flag IS UNKNOWN",
    "(k > 3) IS NOT FALSE",
    "f = 0.0",
    "f < 0.0",
    "f <= -0.0",
    "f > 100",
    "f <> 1.5",
    "f BETWEEN -0.0 AND 1.5",
    "f IN (0.0, 1.5, 2.5, 3.5)",
    "f IS NULL OR f = 'NaN'::double",
    "f > 'NaN'::double",
    "f >= 'NaN'::double",
    "s = 'alpha'",
    "s > 'b'",
    "s IN ('alpha', 'beta', '', 'x', 'y')",
    "s LIKE 'al%'",
    "s NOT LIKE '%a'",
    "s ILIKE 'ALPHA%'",
    "s LIKE '10\\%'",
    "s LIKE '_eta'",
    "s LIKE '%ï%'",
    "starts_with(s, 'al')",
    "ends_with(s, 'ta')",
    "contains(s, 'a')",
    "s ~ '^a.*t$'",
    "upper(s) = 'ALPHA'",
    "length(s) > 4",
    "v = 'alpha'",
    "v LIKE '%a'",
    "v = s",
    "code = 'beta'",
    "code IN ('beta', 'gamma')",
    "code LIKE 'g%'",
    "d = DATE '2019-05-01'",
    "d BETWEEN DATE '2019-05-01' AND DATE '2019-08-01'",
    "d > TIMESTAMP '2019-05-01 12:00:00'",
    "extract(month FROM d) = 7",
    "ts > TIMESTAMP '1970-01-01 00:01:00'",
    "ts IS NULL",
    "dec > 12.34",
    "dec = -5",
    "dec IN (1.28, 2.39, 3.5, 4.61)",
    "pair.x = 3",
    "pair['x'] > 3 AND k > 2",
    "list IS NULL",
    "list[1] > 20",
    "(id > 10 AND upper(s) = 'BETA') OR k = 1",
    "id > 10 AND (upper(s) = 'BETA' OR k = 1)",
    "CASE WHEN k > 3 THEN flag ELSE true END",
    "id IN (SELECT max(id) FROM t)",
    "EXISTS (SELECT 1 FROM t AS u WHERE u.id = t.id + 1)",
    "k > (SELECT avg(k) FROM t)",
    "id = 1 AND id = 2",
    "true",
    "false",
    "NULL",
    "random() >= 0",
];

/// Queries whose answer does not depend on the order in which rows arrive.
const QUERIES: &[&str] = &[
    "SELECT * FROM t",
    "SELECT s, id FROM t",
    "SELECT id, id AS again, id + 1 FROM t",
    "SELECT pair, list FROM t",
    "SELECT count(*) FROM t",
    "SELECT count(*), count(k), min(id), max(id), min(s), max(v) FROM t",
    "SELECT min(f), max(f), min(dec), max(ts), sum(k) FROM t",
    "SELECT count(*) FROM t WHERE k > 3",
    "SELECT count(DISTINCT s), count(DISTINCT code) FROM t",
    "SELECT 1 FROM t WHERE k > 3",
    "SELECT s, count(*), sum(id), max(d) FROM t GROUP BY s",
    "SELECT code, k, count(*) FROM t WHERE id > 20 GROUP BY code, k HAVING count(*) > 1",
    "SELECT k % 3, min(dec) FROM t GROUP BY k % 3",
    "SELECT DISTINCT v FROM t",
    "SELECT a.id, b.s FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.k = 3",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.k = b.id AND b.flag",
    "SELECT a.id FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.k = a.id)",
    "SELECT count(*) FROM t a CROSS JOIN (SELECT id FROM t LIMIT 3) b",
    "SELECT a.k, b.c FROM t a FULL JOIN (SELECT k, count(*) c FROM t GROUP BY k) b ON a.k = b.k WHERE a.id < 30",
    "SELECT id FROM t WHERE id < 20 UNION ALL SELECT k FROM t",
    "SELECT k FROM t UNION SELECT id FROM t WHERE flag",
    "SELECT k FROM t INTERSECT SELECT id FROM t",
    "SELECT id FROM t EXCEPT SELECT k FROM t",
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM t",
    "SELECT id, sum(id) OVER (PARTITION BY s ORDER BY id ROWS 2 PRECEDING), lag(id) OVER (ORDER BY id) FROM t",
    "SELECT id, rank() OVER (PARTITION BY flag ORDER BY d, id) FROM t WHERE id > 50",
    "WITH big AS (SELECT * FROM t WHERE id > 50) SELECT x.s, count(*) FROM big x JOIN big y ON x.k = y.k GROUP BY x.s",
    "SELECT count(*) FROM (SELECT id FROM t LIMIT 13)",
    "SELECT count(*) FROM (SELECT id FROM t LIMIT 13 OFFSET 150)",
    "SELECT count(*) FROM (SELECT id FROM t WHERE k = 3 LIMIT 5)",
    "SELECT count(*) FROM (SELECT id FROM t WHERE upper(s) = 'BETA' LIMIT 5)",
    "SELECT count(*) FROM (SELECT id FROM t LIMIT 0)",
    "SELECT count(*) FROM (SELECT id FROM t LIMIT 1000000)",
    "SELECT count(*) FROM (SELECT id FROM t OFFSET 7)",
];

/// Queries whose rows have one order.
const ORDERED: &[&str] = &[
    "SELECT id, s FROM t ORDER BY id",
    "SELECT id, s FROM t ORDER BY id DESC",
    "SELECT id, s FROM t ORDER BY s NULLS FIRST, id DESC",
    "SELECT id FROM t ORDER BY id LIMIT 10",
    "SELECT id FROM t ORDER BY id LIMIT 10 OFFSET 95",
    "SELECT id, f FROM t ORDER BY f DESC, id LIMIT 20",
    "SELECT id FROM t WHERE k > 3 ORDER BY id DESC LIMIT 7",
    "SELECT k, sum(id) FROM t GROUP BY k ORDER BY k",
    "SELECT id FROM t WHERE upper(s) = 'BETA' ORDER BY id LIMIT 3 OFFSET 2",
];

/// Asks both sessions everything.
async fn compare(
    remote: &datafusion::prelude::SessionContext,
    local: &datafusion::prelude::SessionContext,
    what: &str,
) {
    let filtered = CONDITIONS.iter().flat_map(|condition| {
        [
            format!("SELECT id, s FROM t WHERE {condition}"),
            format!("SELECT count(*) FROM t WHERE {condition}"),
        ]
    });
    for sql in filtered.chain(QUERIES.iter().map(|sql| (*sql).to_owned())) {
        let (mut here, mut there) = (lines(local, &sql).await, lines(remote, &sql).await);
        here.sort();
        there.sort();
        assert_eq!(there, here, "{what}: {sql}");
    }
    for sql in ORDERED {
        assert_eq!(
            lines(remote, sql).await,
            lines(local, sql).await,
            "{what}: {sql}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_table_answers_as_local_rows_do() {
    let batches = rows(3, 70);
    let server = serve(MemoryTable::try_new(batches.clone()).unwrap()).await;
    let (remote, local) = (session(4), session(4));
    register(&remote, &server, Options::default()).await;
    register_local(&local, batches);
    compare(&remote, &local, "memory table").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions_answer_as_local_rows_do() {
    let batches = rows(7, 30);
    let server = serve(Pieces::new(batches.clone())).await;
    for target_partitions in [1, 3, 16] {
        let (remote, local) = (session(target_partitions), session(target_partitions));
        register(&remote, &server, Options::default()).await;
        register_local(&local, batches.clone());
        compare(&remote, &local, &format!("{target_partitions} partitions")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_partitions_than_wanted_are_read_one_after_the_other() {
    let batches = rows(7, 30);
    let server = serve(Pieces::new(batches.clone())).await;
    let (remote, local) = (session(2), session(2));
    register(
        &remote,
        &server,
        Options::default().with("partitions", "7").unwrap(),
    )
    .await;
    register_local(&local, batches);
    compare(&remote, &local, "7 partitions in 2 streams").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_the_server_does_not_apply_as_promised_are_applied_here() {
    let batches = rows(5, 40);
    let local = session(3);
    register_local(&local, batches.clone());
    for applies in [Support::Unsupported, Support::Inexact] {
        let server = serve(Pieces {
            applies,
            ..Pieces::new(batches.clone())
        })
        .await;
        let remote = session(3);
        register(&remote, &server, Options::default()).await;
        compare(&remote, &local, &format!("filters {applies:?}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_order_is_kept_and_used() {
    let batches = rows(6, 30);
    let by_id = lightstream_core::protocol::table::SortColumn {
        path: vec!["id".to_owned()],
        descending: false,
        nulls_first: false,
    };
    let server = serve(Pieces {
        ordering: vec![by_id],
        ..Pieces::new(batches.clone())
    })
    .await;
    for target_partitions in [1, 4] {
        let (remote, local) = (session(target_partitions), session(target_partitions));
        register(&remote, &server, Options::default()).await;
        register_local(&local, batches.clone());
        compare(&remote, &local, "ordered").await;
    }
}

#[tokio::test]
async fn empty_tables_keep_their_schema() {
    let schema = rows(1, 1)[0].schema();
    let none = MemoryTable::try_new_with_schema(schema.clone(), Vec::new()).unwrap();
    let hollow = Pieces::new(rows(2, 0));
    let servers = [serve(none).await, serve(hollow).await];
    for server in &servers {
        let ctx = session(4);
        register(&ctx, server, Options::default()).await;
        let all = ctx.sql("SELECT * FROM t").await.unwrap();
        assert_eq!(all.schema().as_arrow(), schema.as_ref());
        assert_eq!(all.count().await.unwrap(), 0);
        for (sql, answer) in [
            ("SELECT count(*) FROM t", "| 0        |"),
            ("SELECT count(*) FROM t WHERE k > 3", "| 0        |"),
            ("SELECT max(id) FROM t", "|           |"),
        ] {
            assert_eq!(lines(&ctx, sql).await, [answer], "{sql}");
        }
        assert!(
            lines(&ctx, "SELECT k, count(*) FROM t GROUP BY k")
                .await
                .is_empty()
        );
    }
}

#[tokio::test]
async fn new_rows_are_seen_by_the_next_query_unless_a_snapshot_is_pinned() {
    let table = std::sync::Arc::new(MemoryTable::try_new(rows(1, 10)).unwrap());
    let server = serve(Shared(table.clone())).await;
    let ctx = session(2);
    let described = register(&ctx, &server, Options::default()).await;
    let pinned_ctx = session(2);
    let snapshot = described.info().snapshot.clone().unwrap();
    register(
        &pinned_ctx,
        &server,
        Options::default().with("snapshot", &snapshot).unwrap(),
    )
    .await;

    let count = "SELECT count(*), count(k) FROM t";
    let before = lines(&ctx, count).await;
    assert_eq!(before, lines(&pinned_ctx, count).await);
    table.replace(rows(2, 20)).unwrap();
    let after = lines(&ctx, count).await;
    assert!(after[0].starts_with("| 40 "), "{after:?}");
    assert_eq!(lines(&pinned_ctx, count).await, before);
}

/// A table that the test keeps hold of.
struct Shared(std::sync::Arc<MemoryTable>);

#[async_trait::async_trait]
impl lightstream_core::server::Table for Shared {
    async fn describe(
        &self,
        name: &str,
        snapshot: Option<&str>,
    ) -> lightstream_core::Result<lightstream_core::protocol::table::TableInfo> {
        self.0.describe(name, snapshot).await
    }

    async fn plan(
        &self,
        request: &lightstream_core::protocol::request::ScanRequest,
    ) -> lightstream_core::Result<std::sync::Arc<dyn lightstream_core::server::Scan>> {
        self.0.plan(request).await
    }
}
