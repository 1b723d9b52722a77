//! What a query does not need does not travel: bytes are counted at the server and on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use lightstream_core::Options;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_datafusion::LightstreamTable;
use lightstream_datafusion::serve::{DataFusionCatalog, register_path};
use lightstream_tests::proxy::{Fault, Proxy};
use lightstream_tests::rows;
use lightstream_tests::servers::{ANY_PORT, settles};

/// Keeps about one flight in a hundred.
const RARE: &str = "arr_delay > 190";

fn flights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/flights.parquet")
}

/// A session over one server, whose bytes are counted.
struct Counted {
    context: SessionContext,
    server: Server,
    proxy: Proxy,
}

/// What a query cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    rows: u64,
    /// Of table payloads, as the server counts them.
    payload_bytes: u64,
    /// Of everything that came over the connections.
    wire_bytes: u64,
}

impl Cost {
    /// The share of the whole, by the count that makes it larger.
    fn of(&self, whole: Cost) -> f64 {
        let payload = self.payload_bytes as f64 / whole.payload_bytes as f64;
        payload.max(self.wire_bytes as f64 / whole.wire_bytes as f64)
    }
}

impl Counted {
    async fn new(server: Server) -> Self {
        let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
        let table =
            LightstreamTable::connect(&format!("{}/flights", proxy.url()), Options::default())
                .await
                .unwrap();
        context.register_table("flights", Arc::new(table)).unwrap();
        Self {
            context,
            server,
            proxy,
        }
    }

    async fn cost(&self, sql: &str) -> (Vec<RecordBatch>, Cost) {
        let (stats, wire_bytes) = (self.server.stats(), self.proxy.to_client());
        let batches = self
            .context
            .sql(sql)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        // A limit ends other partitions early, which may still be sending.
        settles(&self.server, "no scans", |stats| stats.active_scans == 0).await;
        let after = self.server.stats();
        let cost = Cost {
            rows: after.rows_sent - stats.rows_sent,
            payload_bytes: after.bytes_sent - stats.bytes_sent,
            wire_bytes: self.proxy.to_client() - wire_bytes,
        };
        println!("{sql}: {} rows found, {cost:?}", rows::count(&batches));
        (batches, cost)
    }
}

async fn check(server: Server) {
    let counted = Counted::new(server).await;
    let (all, whole) = counted.cost("SELECT * FROM flights").await;
    let total = rows::count(&all);
    assert_eq!(
        (total, all[0].num_columns(), whole.rows),
        (336_776, 19, 336_776)
    );

    // A filter and two columns of nineteen.
    let (found, rare) = counted
        .cost(&format!(
            "SELECT carrier, arr_delay FROM flights WHERE {RARE}"
        ))
        .await;
    let found = rows::count(&found);
    assert!(
        (total / 200..total / 70).contains(&found),
        "{found} rows are not about one in a hundred"
    );
    assert!(
        rare.rows == found as u64 && rare.of(whole) < 0.005,
        "{rare:?} of {whole:?}"
    );

    // Two columns alone.
    let (_, columns) = counted.cost("SELECT carrier, arr_delay FROM flights").await;
    assert!(
        columns.rows == 336_776 && columns.of(whole) < 0.2,
        "{columns:?} of {whole:?}"
    );

    // The half of an AND that the server understands goes there, whatever stands beside it.
    for other in ["upper(carrier) = 'UA'", "length(dest) + month > 12"] {
        let (half, cost) = counted
            .cost(&format!(
                "SELECT carrier FROM flights WHERE {RARE} AND {other}"
            ))
            .await;
        assert!(
            rows::count(&half) < found && cost.rows == found as u64,
            "{cost:?}"
        );
        // The half of an OR must not.
        let (either, cost) = counted
            .cost(&format!(
                "SELECT carrier FROM flights WHERE {RARE} OR {other}"
            ))
            .await;
        assert!(
            rows::count(&either) > found && cost.rows == 336_776,
            "{cost:?}"
        );
    }

    // Counts carry no columns.
    let (_, count) = counted
        .cost(&format!("SELECT count(*) FROM flights WHERE {RARE}"))
        .await;
    assert!(count.of(whole) < 0.001, "{count:?}");
    let (_, count) = counted.cost("SELECT count(*) FROM flights").await;
    assert!(count.of(whole) < 0.001, "{count:?}");

    // A limit, alone and after a filter.
    let (few, cost) = counted.cost("SELECT * FROM flights LIMIT 10").await;
    assert!(
        rows::count(&few) == 10 && cost.rows <= 40 && cost.of(whole) < 0.005,
        "{cost:?}"
    );
    let (few, cost) = counted
        .cost("SELECT * FROM flights WHERE carrier = 'UA' LIMIT 10")
        .await;
    assert!(
        rows::count(&few) == 10 && cost.rows <= 40 && cost.of(whole) < 0.005,
        "{cost:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_fall_with_filters_columns_and_limits_from_memory() {
    let options = ParquetReadOptions::default();
    let local = SessionContext::new()
        .read_parquet(flights().to_str().unwrap(), options)
        .await
        .unwrap();
    let table = MemoryTable::try_new(local.collect().await.unwrap()).unwrap();
    check(
        Server::builder()
            .table("flights", table)
            .listen(ANY_PORT)
            .await
            .unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_fall_with_filters_columns_and_limits_from_parquet() {
    let served = SessionContext::new();
    register_path(&served, "flights", flights()).await.unwrap();
    check(
        Server::builder()
            .catalog(DataFusionCatalog::new(served))
            .listen(ANY_PORT)
            .await
            .unwrap(),
    )
    .await;
}
