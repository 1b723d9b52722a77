//! Scans over real sockets: what is planned, read, limited, cancelled and renewed.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_select::concat::concat_batches;
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule, Support};
use lightstream_core::protocol::plan::Partition;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::{Precision, Statistics};
use lightstream_core::protocol::table::{SortColumn, TableInfo};
use lightstream_core::server::{
    MappedIpcTable, MemoryTable, Scan, ScanPartition, Server, Table, UnitEvent, UnitStream, Units,
};
use lightstream_core::{Client, ErrorCode, Options, Result};

/// Rows `from..to`: a number, and its decimal text repeated so that rows differ in size.
fn rows(from: i64, to: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let texts = (from..to).map(|n| n.to_string().repeat((n % 7) as usize));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()
}

/// A table of `count` rows in batches of very different sizes.
fn batches(count: i64) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    let (mut from, mut step) = (0, 1);
    while from < count {
        let to = count.min(from + step);
        batches.push(rows(from, to));
        (from, step) = (to, step * 3);
    }
    batches
}

async fn serve(table: impl Table) -> (Server, Client) {
    serve_with(table, Options::default()).await
}

async fn serve_with(table: impl Table, options: Options) -> (Server, Client) {
    let server = Server::builder()
        .table("t", table)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::connect(&server.url(), options).await.unwrap();
    (server, client)
}

async fn read_all(client: &Client, request: &ScanRequest) -> RecordBatch {
    let plan = client.plan(request).await.unwrap();
    let mut all = Vec::new();
    for partition in &plan.partitions {
        all.extend(
            client
                .read(partition)
                .try_collect::<Vec<_>>()
                .await
                .unwrap(),
        );
    }
    concat_batches(&plan.schema, &all).unwrap()
}

fn n_below(limit: i64) -> Filter {
    let literal = Expr::literal(Arc::new(Int64Array::from(vec![limit]))).unwrap();
    Filter::new(
        FloatRule::TotalOrder,
        Expr::compare(CompareOp::Lt, Expr::column("n"), literal),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partitions_are_the_table_in_order_whatever_their_number() {
    let table = batches(1_000_000);
    let (server, client) = serve(MemoryTable::try_new(table.clone()).unwrap()).await;
    let whole = concat_batches(&table[0].schema(), &table).unwrap();
    for partitions in [1, 2, 3, 7, 100] {
        let request = ScanRequest {
            max_partitions: Some(partitions),
            ..ScanRequest::table("t")
        };
        let plan = client.plan(&request).await.unwrap();
        assert!(plan.partitions.len() <= partitions as usize && !plan.partitions.is_empty());
        assert_eq!(read_all(&client, &request).await, whole);
    }
    let stats = server.stats();
    assert_eq!((stats.active_scans, stats.errors), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn projection_filter_and_limit_are_applied_at_the_server() {
    let (server, client) = serve(MemoryTable::try_new(batches(10_000)).unwrap()).await;
    let request = ScanRequest {
        projection: Some(vec![0]),
        filter: n_below(77),
        ..ScanRequest::table("t")
    };
    let plan = client.plan(&request).await.unwrap();
    assert_eq!(plan.filters, [Support::Exact]);
    let read = read_all(&client, &request).await;
    assert_eq!((read.num_columns(), read.num_rows()), (1, 77));

    let request = ScanRequest {
        projection: Some(vec![]),
        filter: n_below(77),
        ..ScanRequest::table("t")
    };
    let read = read_all(&client, &request).await;
    assert_eq!((read.num_columns(), read.num_rows()), (0, 77));

    let request = ScanRequest {
        limit: Some(5),
        max_partitions: Some(1),
        ..ScanRequest::table("t")
    };
    assert_eq!(read_all(&client, &request).await, rows(0, 5));
    let before = server.stats().rows_sent;
    let request = ScanRequest {
        limit: Some(0),
        max_partitions: Some(1),
        ..ScanRequest::table("t")
    };
    assert_eq!(read_all(&client, &request).await.num_rows(), 0);
    assert_eq!(server.stats().rows_sent, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_scan_keeps_order_and_limit_across_partitions() {
    let (_server, client) = serve(MemoryTable::try_new(batches(1_000_000)).unwrap()).await;
    let request = ScanRequest {
        limit: Some(900_001),
        ordered: true,
        ..ScanRequest::table("t")
    };
    let read: Vec<RecordBatch> = client
        .scan(&request)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    let numbers: Vec<i64> = read
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    assert!(numbers.iter().copied().eq(0..900_001));
}

#[tokio::test(flavor = "multi_thread")]
async fn stripes_are_merged_back_into_the_order_of_the_table() {
    let table = batches(1_000_000);
    let whole = concat_batches(&table[0].schema(), &table).unwrap();
    let server = Server::builder()
        .table("t", MemoryTable::try_new(table).unwrap())
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    for streams in ["1", "2", "3", "8", "50"] {
        let options = Options::default().with("streams", streams).unwrap();
        let options = options.with("max_frame_bytes", "50KiB").unwrap();
        for prefetch in ["1KiB", "16MiB"] {
            let options = options.clone().with("prefetch_bytes", prefetch).unwrap();
            let client = Client::connect(&server.url(), options).await.unwrap();
            for partitions in [1, 3] {
                let request = ScanRequest {
                    max_partitions: Some(partitions),
                    ..ScanRequest::table("t")
                };
                assert_eq!(read_all(&client, &request).await, whole);
                // Most units yield nothing here.
                let few = ScanRequest {
                    filter: n_below(1000),
                    ..request
                };
                assert_eq!(read_all(&client, &few).await, rows(0, 1000));
            }
        }
    }
    assert_eq!(server.stats().errors, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_rows_keep_their_schema() {
    let schema = rows(0, 0).schema();
    for table in [
        MemoryTable::try_new_with_schema(schema.clone(), vec![]).unwrap(),
        MemoryTable::try_new(vec![rows(0, 0), rows(0, 0)]).unwrap(),
    ] {
        let (_server, client) = serve(table).await;
        let info = client.describe("t", None).await.unwrap();
        assert_eq!(
            (info.schema, info.statistics.rows),
            (schema.clone(), Precision::Exact(0))
        );
        let read = read_all(&client, &ScanRequest::table("t")).await;
        assert_eq!((read.schema(), read.num_rows()), (schema.clone(), 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_reading_the_rows_from_before_a_swap() {
    let table = Arc::new(MemoryTable::try_new(vec![rows(0, 100)]).unwrap());
    let server = Server::builder()
        .shared_table("t", Arc::clone(&table) as Arc<dyn Table>)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    let before = client.plan(&ScanRequest::table("t")).await.unwrap();
    table.replace(vec![rows(500, 503)]).unwrap();
    let again = ScanRequest {
        snapshot: before.snapshot.clone(),
        ..ScanRequest::table("t")
    };
    assert_eq!(read_all(&client, &again).await.num_rows(), 100);
    assert_eq!(
        read_all(&client, &ScanRequest::table("t")).await,
        rows(500, 503)
    );
    let read: Vec<RecordBatch> = client
        .read(&before.partitions[0])
        .try_collect()
        .await
        .unwrap();
    assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
    assert_eq!(
        client
            .describe("t", before.snapshot.as_deref())
            .await
            .unwrap()
            .statistics
            .rows,
        Precision::Exact(100)
    );

    // The snapshot is held for each plan until that plan is released.
    let other = client.plan(&again).await.unwrap();
    client.release(&other).await.unwrap();
    assert_eq!(read_all(&client, &again).await.num_rows(), 100);
    client.release(&before).await.unwrap();
    for _ in 0..2 {
        // For the plans of `read_all`, which does not release them.
        client.release(&other).await.unwrap();
    }
    let error = client.plan(&again).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Expired, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_described_once_for_each_snapshot() {
    let (server, client) = serve(MemoryTable::try_new(vec![rows(0, 10)]).unwrap()).await;
    let newest = client.describe("t", None).await.unwrap();
    let snapshot = newest.snapshot.clone();
    let other = client.clone();
    server.shutdown(Duration::from_secs(10)).await;
    // Nobody is there to ask.
    let known = other.describe("t", snapshot.as_deref()).await.unwrap();
    assert_eq!(format!("{known:?}"), format!("{newest:?}"));
    for (table, snapshot) in [
        ("t", None),
        ("t", Some("another")),
        ("u", snapshot.as_deref()),
    ] {
        let error = client.describe(table, snapshot).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_servers_rows_are_the_same() {
    let table = batches(100_000);
    let whole = concat_batches(&table[0].schema(), &table).unwrap();
    let options = Options::default().with("validate", "trusted").unwrap();
    let (_server, client) = serve_with(MemoryTable::try_new(table).unwrap(), options).await;
    assert_eq!(read_all(&client, &ScanRequest::table("t")).await, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_are_those_of_the_rows() {
    let (_server, client) = serve(MemoryTable::try_new(batches(1000)).unwrap()).await;
    let info = client.describe("t", None).await.unwrap();
    assert_eq!(info.statistics.rows, Precision::Exact(1000));
    let column = &info.statistics.columns[0];
    assert_eq!(column.nulls, Precision::Exact(0));
    assert_eq!(
        column
            .min
            .as_ref()
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0),
        0
    );
    assert_eq!(
        column
            .max
            .as_ref()
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0),
        999
    );
    assert!(column.bounds_exact);
    let plan = client
        .plan(&ScanRequest {
            filter: n_below(3),
            ..ScanRequest::table("t")
        })
        .await
        .unwrap();
    assert_eq!(plan.statistics.rows, Precision::Inexact(1000));
    assert!(!plan.statistics.columns[0].bounds_exact);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_right_is_refused_by_name() {
    let (_server, client) = serve(MemoryTable::try_new(vec![rows(0, 10)]).unwrap()).await;
    let error = client.describe("flights", None).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(
        error.to_string().contains("flights")
            && error.to_string().contains(&client.location().to_string())
    );
    let request = ScanRequest {
        projection: Some(vec![0, 9]),
        ..ScanRequest::table("t")
    };
    assert_eq!(
        client.plan(&request).await.unwrap_err().code(),
        ErrorCode::InvalidArgument
    );
    assert_eq!(
        client
            .plan(&ScanRequest::sql("SELECT 1"))
            .await
            .unwrap_err()
            .code(),
        ErrorCode::Unimplemented
    );
    let request = ScanRequest {
        snapshot: Some("elsewhere".into()),
        ..ScanRequest::table("t")
    };
    assert_eq!(
        client.plan(&request).await.unwrap_err().code(),
        ErrorCode::Expired
    );

    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let ticket_alone = Partition {
        rows_at_hand: None,
        ..plan.partitions[0].clone()
    };
    let mut forged = ticket_alone.clone();
    forged.ticket[3] ^= 1;
    let error = client
        .read(&forged)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    let mut other = ticket_alone.clone();
    other.request = Arc::new(
        ScanRequest {
            limit: Some(1),
            ..ScanRequest::table("t")
        }
        .to_proto()
        .unwrap(),
    );
    let error = client
        .read(&other)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    // The connections are as good as before.
    assert_eq!(
        read_all(&client, &ScanRequest::table("t")).await,
        rows(0, 10)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_end_and_can_be_renewed_before() {
    let server = Server::builder()
        .table("t", MemoryTable::try_new(vec![rows(0, 10)]).unwrap())
        .ticket_lifetime(Duration::from_secs(2))
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::connect(&server.url(), Options::default())
        .await
        .unwrap();
    let mut plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    // Few rows come with the plan; here the ticket is what matters.
    plan.partitions[0].rows_at_hand = None;
    let first = plan.partitions[0].clone();
    assert_eq!(plan.valid_for, Duration::from_secs(2));
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        client.renew(&mut plan).await.unwrap();
    }
    let error = client
        .read(&first)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Expired, "{error}");
    assert_eq!(
        client
            .read(&plan.partitions[0])
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_result_comes_with_its_plan() {
    let (server, client) = serve(MemoryTable::try_new(batches(10_000)).unwrap()).await;
    let request = ScanRequest {
        filter: n_below(3),
        max_partitions: Some(1),
        ..ScanRequest::table("t")
    };
    let plan = client.plan(&request).await.unwrap();
    let before = server.stats();
    assert_eq!((before.scans, before.rows_sent), (1, 3));
    let read: Vec<RecordBatch> = client
        .read(&plan.partitions[0])
        .try_collect()
        .await
        .unwrap();
    assert_eq!(concat_batches(&plan.schema, &read).unwrap(), rows(0, 3));
    assert_eq!(server.stats(), before, "nothing was asked for again");
    // The ticket gives the same.
    let ticket = Partition {
        rows_at_hand: None,
        ..plan.partitions[0].clone()
    };
    let read: Vec<RecordBatch> = client.read(&ticket).try_collect().await.unwrap();
    assert_eq!(concat_batches(&plan.schema, &read).unwrap(), rows(0, 3));
    // What is not small does not come along.
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    assert!(
        plan.partitions
            .iter()
            .all(|partition| partition.rows_at_hand.is_none())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_come_in_pages() {
    let table: Arc<dyn Table> = Arc::new(MemoryTable::try_new(vec![rows(0, 1)]).unwrap());
    for count in [0, 1, 1000, 1001, 2500] {
        let mut builder = Server::builder();
        for index in 0..count {
            builder = builder.shared_table(format!("t{index:05}"), Arc::clone(&table));
        }
        let server = builder.listen("lightstream://127.0.0.1:0").await.unwrap();
        let client = Client::connect(&server.url(), Options::default())
            .await
            .unwrap();
        let names: Vec<String> = client
            .tables("")
            .await
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(
            names,
            (0..count)
                .map(|index| format!("t{index:05}"))
                .collect::<Vec<_>>()
        );
        assert_eq!(client.tables("t0000").await.unwrap().len(), count.min(10));
        assert_eq!(client.tables("x").await.unwrap().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapped_file_is_served_and_its_replacement_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.arrow");
    let write = |batches: &[RecordBatch]| {
        let fresh = folder.path().join("fresh");
        let file = std::fs::File::create(&fresh).unwrap();
        let mut writer =
            arrow_ipc::writer::FileWriter::try_new(file, &batches[0].schema()).unwrap();
        batches
            .iter()
            .for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        std::fs::rename(fresh, &path).unwrap();
    };
    let first = batches(300_000);
    write(&first);
    let (_server, client) = serve(MappedIpcTable::open(&path).unwrap()).await;
    let whole = concat_batches(&first[0].schema(), &first).unwrap();
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    assert_eq!(read_all(&client, &ScanRequest::table("t")).await, whole);
    let filtered = ScanRequest {
        filter: n_below(10),
        ..ScanRequest::table("t")
    };
    assert_eq!(read_all(&client, &filtered).await, rows(0, 10));

    write(&[rows(7, 9)]);
    assert_eq!(
        read_all(&client, &ScanRequest::table("t")).await,
        rows(7, 9)
    );
    let mut old = Vec::new();
    for partition in &plan.partitions {
        old.extend(
            client
                .read(partition)
                .try_collect::<Vec<_>>()
                .await
                .unwrap(),
        );
    }
    assert_eq!(concat_batches(&plan.schema, &old).unwrap(), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_goes_on_after_a_restart_on_the_same_rows() {
    let table = || {
        MemoryTable::try_new(batches(1_000_000))
            .unwrap()
            .with_id("t")
            .unwrap()
    };
    let (server, client) = serve(table()).await;
    let request = ScanRequest {
        max_partitions: Some(4),
        ..ScanRequest::table("t")
    };
    let plan = client.plan(&request).await.unwrap();
    assert!(plan.partitions.len() > 1);
    let mut readers: Vec<_> = plan.partitions.iter().map(|p| client.read(p)).collect();
    let mut read = vec![readers[0].next().await.unwrap().unwrap()];
    let url = server.url();
    drop(server);
    // Another process has another key for tickets.
    let _server = listen_again(Server::builder().table("t", table()), &url).await;
    for reader in readers {
        read.extend(reader.try_collect::<Vec<_>>().await.unwrap());
    }
    let whole = batches(1_000_000);
    assert_eq!(
        concat_batches(&plan.schema, &read).unwrap(),
        concat_batches(&plan.schema, &whole).unwrap()
    );
}

/// The port of a server that is gone is free a moment later.
async fn listen_again(builder: lightstream_core::server::ServerBuilder, url: &str) -> Server {
    let address = url.trim_start_matches("lightstream://");
    let free = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), free)
        .await
        .unwrap();
    builder.listen(url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn units_beyond_the_end_are_no_units() {
    let (_server, client) = serve(MemoryTable::try_new(batches(100_000)).unwrap()).await;
    for from in [5, u64::MAX - 1, u64::MAX] {
        for stripe in 0..3 {
            let units = Units {
                from,
                stripe,
                stripes: 3,
            };
            assert!(units.within(4).next().is_none());
        }
    }
    client.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_frame_is_not_silence() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (server, _client) = serve(MemoryTable::try_new(batches(300_000)).unwrap()).await;
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("lightstream://{}", proxy.local_addr().unwrap());
    let address = server.url().trim_start_matches("lightstream://").to_owned();
    tokio::spawn(async move {
        loop {
            let (near, _) = proxy.accept().await.unwrap();
            let far = tokio::net::TcpStream::connect(&address).await.unwrap();
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (near.into_split(), far.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                // A frame of about a megabyte takes several seconds, but never is there a second without a byte.
                let mut piece = vec![0; 8 << 10];
                while let Ok(count @ 1..) = from_server.read(&mut piece).await {
                    if to_client.write_all(&piece[..count]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    let options = Options::default().with("read_timeout", "1s").unwrap();
    let client = Client::connect(&url, options.with("retries", "0").unwrap())
        .await
        .unwrap();
    let read = read_all(&client, &ScanRequest::table("t")).await;
    assert_eq!(read.num_rows(), 300_000);
}

/// A table whose only scan gives one batch, then nothing more for ever.
struct Endless;

struct EndlessScan(arrow_schema::SchemaRef, Vec<ScanPartition>);

#[async_trait]
impl Table for Endless {
    async fn describe(&self, name: &str, _: Option<&str>) -> Result<TableInfo> {
        MemoryTable::try_new(vec![rows(0, 1)])?
            .describe(name, None)
            .await
    }

    async fn plan(&self, _: &ScanRequest) -> Result<Arc<dyn Scan>> {
        let partition = ScanPartition {
            units: 2,
            resumable: true,
            ..ScanPartition::default()
        };
        Ok(Arc::new(EndlessScan(rows(0, 1).schema(), vec![partition])))
    }
}

impl Scan for EndlessScan {
    fn snapshot(&self) -> Option<&str> {
        None
    }

    fn schema(&self) -> &arrow_schema::SchemaRef {
        &self.0
    }

    fn ordering(&self) -> Vec<SortColumn> {
        Vec::new()
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn filters(&self) -> &[Support] {
        &[]
    }

    fn partitions(&self) -> &[ScanPartition] {
        &self.1
    }

    fn open(&self, _: usize, _: Units) -> Result<UnitStream> {
        let first = futures::stream::iter([Ok(UnitEvent::Batch(rows(0, 1)))]);
        Ok(first.chain(futures::stream::pending()).boxed())
    }
}

async fn until_idle(server: &Server) {
    let idle = async {
        while server.stats().active_scans > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), idle)
        .await
        .expect("the server lets go of the scan");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_reader_frees_the_server() {
    let (server, client) = serve(Endless).await;
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let mut reader = client.read(&plan.partitions[0]);
    assert_eq!(reader.next().await.unwrap().unwrap(), rows(0, 1));
    assert_eq!(server.stats().active_scans, 1);
    drop(reader);
    until_idle(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_frees_both_sides() {
    let options = Options::default().with("timeout", "500ms").unwrap();
    let (server, client) = serve_with(Endless, options).await;
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let reading = client.read(&plan.partitions[0]).try_collect::<Vec<_>>();
    let error = tokio::time::timeout(Duration::from_secs(5), reading)
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    until_idle(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signs_of_life_keep_a_slow_scan_going_and_silence_ends_it() {
    // The server speaks every two seconds while it works, so this limit is not reached by a scan that is merely slow.
    let (_server, client) = serve_with(
        Endless,
        Options::default().with("read_timeout", "4s").unwrap(),
    )
    .await;
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    let reading = client.read(&plan.partitions[0]).try_collect::<Vec<_>>();
    assert!(
        tokio::time::timeout(Duration::from_secs(9), reading)
            .await
            .is_err(),
        "the scan goes on"
    );

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("lightstream://{}", silent.local_addr().unwrap());
    let options = Options::default()
        .with("read_timeout", "200ms")
        .unwrap()
        .with("retries", "1")
        .unwrap();
    let connecting = Client::connect(&url, options);
    let error = tokio::time::timeout(Duration::from_secs(5), connecting)
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(error.to_string().contains("read_timeout"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_lets_scans_finish() {
    let (server, client) = serve(MemoryTable::try_new(batches(1_000_000)).unwrap()).await;
    let plan = client
        .plan(&ScanRequest {
            max_partitions: Some(1),
            ..ScanRequest::table("t")
        })
        .await
        .unwrap();
    let mut reader = client.read(&plan.partitions[0]);
    let first = reader.next().await.unwrap().unwrap().num_rows();
    let url = server.url();
    let ending = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    let refused = async {
        while Client::connect(&url, Options::default().with("retries", "0").unwrap())
            .await
            .is_ok()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused)
        .await
        .expect("no new connection is accepted");
    let rest: Vec<RecordBatch> = reader.try_collect().await.unwrap();
    assert_eq!(
        first + rest.iter().map(RecordBatch::num_rows).sum::<usize>(),
        1_000_000
    );
    assert!(ending.await.unwrap(), "every scan finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_lets_a_scan_go_on_to_its_next_partition() {
    let (server, client) = serve(MemoryTable::try_new(batches(1_000_000)).unwrap()).await;
    let request = ScanRequest {
        max_partitions: Some(4),
        ..ScanRequest::table("t")
    };
    let plan = client.plan(&request).await.unwrap();
    assert!(plan.partitions.len() > 1);
    let ending = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    let mut read = 0;
    for partition in &plan.partitions {
        let batches: Vec<RecordBatch> = client.read(partition).try_collect().await.unwrap();
        read += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!(read, 1_000_000);
    let error = client.plan(&request).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
    drop(client);
    assert!(ending.await.unwrap(), "every scan finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_serve_like_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("lightstream+unix://{}/a%20b.sock", folder.path().display());
    let table = MemoryTable::try_new(batches(10_000)).unwrap();
    let server = Server::builder()
        .table("t", table)
        .listen(&url)
        .await
        .unwrap();
    assert_eq!(server.url(), url);
    let client = Client::connect(&format!("{url}?retries=0#t"), Options::default())
        .await
        .unwrap();
    assert_eq!(
        (client.table_name(), client.options().retries),
        (Some("t"), Some(0))
    );
    assert_eq!(
        read_all(&client, &ScanRequest::table("t")).await.num_rows(),
        10_000
    );
    drop(server);
    let error = client.ping().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
}
