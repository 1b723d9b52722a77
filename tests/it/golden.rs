//! Arrow's golden files, and files that crashed other readers, served and read back over a connection.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use lightstream_core::Client;
use lightstream_core::conformance::golden::{self, Golden};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MappedIpcTable, MemoryTable, Server};
use lightstream_tests::isolated::isolated;
use lightstream_tests::panics::PanicWatch;
use lightstream_tests::process::peak_memory_bytes;
use lightstream_tests::rows;
use lightstream_tests::servers::{ANY_PORT, becomes_idle, options, scan, serve};

#[tokio::test]
async fn corpus_golden_tables_come_back_as_their_json_says() {
    let Some(data) = golden::data() else { return };
    let all = golden::all(&data);
    let (mut row_count, mut without_batches, mut without_rows) = (0, 0, 0);
    for golden in &all {
        let (schema, expected) = golden.expected();
        let memory =
            MemoryTable::try_new_with_schema(Arc::clone(&schema), expected.clone()).unwrap();
        let server = Server::builder()
            .table("stream", MappedIpcTable::open(&golden.stream).unwrap())
            .table("file", MappedIpcTable::open(&golden.file).unwrap())
            .table("memory", memory)
            .listen(ANY_PORT)
            .await
            .unwrap();
        let client = Client::connect(&server.url(), options(&[])).await.unwrap();
        for table in ["stream", "file", "memory"] {
            check(golden, &client, table, &schema, &expected).await;
        }
        row_count += rows::count(&expected);
        without_batches += usize::from(expected.is_empty());
        without_rows += usize::from(!expected.is_empty() && rows::count(&expected) == 0);
    }
    println!(
        "{} golden tables of {row_count} rows, each from a stream, a file and memory; {without_batches} without \
         batches, {without_rows} with batches of no rows",
        all.len()
    );
    assert!(without_batches > 0 && without_rows > 0);
}

async fn check(
    golden: &Golden,
    client: &Client,
    table: &str,
    schema: &SchemaRef,
    expected: &[RecordBatch],
) {
    let what = format!("{} from {table}", golden.name);
    let renamed = golden.renames_entries() && table != "memory";
    let described = client.describe(table, None).await.unwrap().schema;
    let request = ScanRequest {
        ordered: true,
        ..ScanRequest::table(table)
    };
    let scan = client.scan(&request).await.unwrap();
    assert_eq!(
        scan.schema(),
        &described,
        "{what}: the plan differs from the description"
    );
    if !renamed {
        assert_eq!(&described, schema, "{what}");
    }
    let found: Vec<RecordBatch> = scan
        .try_collect()
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    rows::assert_schema(&described, &found, &what);
    if renamed {
        assert_eq!(rows::count(&found), rows::count(expected), "{what}");
        for (found, expected) in found
            .iter()
            .zip(expected.iter().filter(|batch| batch.num_rows() > 0))
        {
            golden.assert_same(found, expected);
        }
    } else {
        rows::assert_same(expected, &found, &what);
    }
    // The same by tickets: small tables come with their plan otherwise.
    let mut plan = client.plan(&request).await.unwrap();
    let mut by_ticket = Vec::new();
    for partition in &mut plan.partitions {
        partition.rows_at_hand = None;
        by_ticket.extend(
            client
                .read(partition)
                .try_collect::<Vec<_>>()
                .await
                .unwrap(),
        );
    }
    rows::assert_schema(&described, &by_ticket, &what);
    rows::assert_same(&found, &by_ticket, &what);
    // Every column alone, and none.
    for column in 0..schema.fields().len() {
        let request = ScanRequest {
            projection: Some(vec![column]),
            ordered: true,
            ..ScanRequest::table(table)
        };
        let alone: Vec<RecordBatch> = client
            .scan(&request)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        let whole: Vec<RecordBatch> = found
            .iter()
            .map(|batch| batch.project(&[column]).unwrap())
            .collect();
        rows::assert_same(&whole, &alone, &what);
    }
    let request = ScanRequest {
        projection: Some(Vec::new()),
        ..ScanRequest::table(table)
    };
    let none: Vec<RecordBatch> = client
        .scan(&request)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(rows::count(&none), rows::count(expected), "{what}");
}

#[test]
fn corpus_files_that_crashed_other_readers_are_served_or_refused() {
    let Some(data) = golden::data() else { return };
    isolated(
        "golden::corpus_files_that_crashed_other_readers_are_served_or_refused",
        async {
            let watch = PanicWatch::new();
            let before = peak_memory_bytes();
            let (mut refused, mut failed, mut read) = (0, 0, 0);
            for path in golden::crashers(&data) {
                let name = path.display();
                let table = match MappedIpcTable::open(&path) {
                    Ok(table) => table,
                    Err(_) => {
                        refused += 1;
                        continue;
                    }
                };
                let server = serve(table).await;
                let scanned = tokio::time::timeout(
                    Duration::from_secs(60),
                    scan(&server.url(), options(&[])),
                )
                .await;
                becomes_idle(&server).await;
                match scanned.unwrap_or_else(|_| panic!("{name} hangs")) {
                    Err(_) => failed += 1,
                    Ok(batches) => {
                        read += 1;
                        for column in batches.iter().flat_map(RecordBatch::columns) {
                            column
                                .to_data()
                                .validate_full()
                                .unwrap_or_else(|error| panic!("{name}: {error}"));
                        }
                    }
                }
            }
            watch.assert_none("serving malformed files");
            let grown = peak_memory_bytes() - before;
            println!(
                "{refused} files refused, {failed} failed when read, {read} read; memory grew by {} MiB",
                grown >> 20
            );
            assert!(refused + failed > 0);
            assert!(grown < 1 << 30, "memory grew by {grown} bytes");
        },
    );
}
