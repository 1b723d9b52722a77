//! A partition is a pure function of snapshot, request and index: any process that shares key and data can read it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use lightstream_core::protocol::plan::Partition;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::{Client, Error, ErrorCode};
use lightstream_tests::fixture::{
    Fixture, FixtureServer, large_rows, small_rows, write_ipc, write_parquet,
};
use lightstream_tests::raw::{self, Stripe};
use lightstream_tests::rows;
use lightstream_tests::servers::options;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

const BATCHES: i64 = 9;

fn fixture(folder: &Path) -> Fixture {
    let ipc = folder.join("table.arrow");
    if !ipc.exists() {
        write_ipc(&ipc, &large_rows(BATCHES));
    }
    Fixture {
        key: "a key that all replicas of a fixture share".to_owned(),
        lifetime_ms: 600_000,
        memory_batches: BATCHES,
        ipc: Some(ipc),
        parquet: Vec::new(),
    }
}

fn start(fixture: &Fixture) -> FixtureServer {
    fixture.start(env!("CARGO_BIN_EXE_serve_fixture"))
}

fn client(server: &FixtureServer) -> Client {
    Client::new(server.url(), options(&[("retries", "0")])).unwrap()
}

/// The partitions of a plan, with nothing but their tickets.
async fn plan(server: &FixtureServer, request: &ScanRequest) -> Vec<Partition> {
    let plan = client(server).plan(request).await.unwrap();
    plan.partitions
        .into_iter()
        .map(|partition| Partition {
            rows_at_hand: None,
            ..partition
        })
        .collect()
}

async fn read(server: &FixtureServer, partition: &Partition) -> Result<Vec<RecordBatch>, Error> {
    client(server).read(partition).try_collect().await
}

fn at_most(table: &str, partitions: u32) -> ScanRequest {
    ScanRequest {
        max_partitions: Some(partitions),
        ordered: true,
        ..ScanRequest::table(table)
    }
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect()
}

/// Each ticket is opened twice, in fresh processes and in another order than planned; all together are the table.
async fn every_ticket_gives_its_rows(fixture: &Fixture, table: &str, expected: &[RecordBatch]) {
    for partitions in [1, 3, 7, 100] {
        let what = format!("{table} in at most {partitions}");
        // The process that planned is gone before anybody reads.
        let planned = plan(&start(fixture), &at_most(table, partitions)).await;
        assert!(
            !planned.is_empty() && planned.len() <= partitions as usize,
            "{what}"
        );
        let mut order: Vec<&Partition> = planned.iter().collect();
        order.shuffle(&mut StdRng::seed_from_u64(u64::from(partitions)));
        let mut parts = vec![Vec::new(); planned.len()];
        for partition in &order {
            let fresh = start(fixture);
            let found = read(&fresh, partition)
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let again = read(&fresh, partition).await.unwrap();
            rows::assert_same(&found, &again, &format!("{what}: read again"));
            parts[partition.index] = found;
        }
        order.reverse();
        let one = start(fixture);
        for partition in order {
            let found = read(&one, partition).await.unwrap();
            rows::assert_same(
                &parts[partition.index],
                &found,
                &format!("{what}: in a process that reads them all"),
            );
        }
        println!(
            "{what}: {} partitions of {:?} rows",
            parts.len(),
            parts
                .iter()
                .map(|part| rows::count(part))
                .collect::<Vec<_>>()
        );
        let all = parts.concat();
        let mut seen = ids(&all);
        seen.sort_unstable();
        assert_eq!(seen, ids(expected), "{what}: rows are missing or doubled");
        rows::assert_same(expected, &all, &what);
    }
}

#[tokio::test]
async fn tickets_of_memory_tables_open_in_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    every_ticket_gives_its_rows(&fixture(folder.path()), "memory", &large_rows(BATCHES)).await;
}

#[tokio::test]
async fn tickets_of_mapped_files_open_in_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    every_ticket_gives_its_rows(&fixture(folder.path()), "ipc", &large_rows(BATCHES)).await;
}

/// Rows in folders of Parquet files: many small files, and few with many row groups.
fn parquet(folder: &Path) -> (Fixture, Vec<RecordBatch>, Vec<RecordBatch>) {
    let (many, few) = (folder.join("many"), folder.join("few"));
    std::fs::create_dir(&many).unwrap();
    std::fs::create_dir(&few).unwrap();
    let of_many: Vec<_> = (0..12)
        .map(|file| small_rows(file * 100..file * 100 + 100 - file))
        .collect();
    for (file, batch) in of_many.iter().enumerate() {
        write_parquet(
            &many.join(format!("{file:02}.parquet")),
            std::slice::from_ref(batch),
            40,
        );
    }
    let of_few: Vec<_> = (0..2)
        .map(|file| small_rows(file * 2000..file * 2000 + 1990))
        .collect();
    for (file, batch) in of_few.iter().enumerate() {
        write_parquet(
            &few.join(format!("{file}.parquet")),
            std::slice::from_ref(batch),
            130,
        );
    }
    let parquet = vec![("many".to_owned(), many), ("few".to_owned(), few)];
    (
        Fixture {
            parquet,
            memory_batches: 1,
            ipc: None,
            ..fixture(folder)
        },
        of_many,
        of_few,
    )
}

#[tokio::test]
async fn tickets_of_parquet_folders_open_in_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (fixture, many, few) = parquet(folder.path());
    every_ticket_gives_its_rows(&fixture, "many", &many).await;
    every_ticket_gives_its_rows(&fixture, "few", &few).await;
}

#[tokio::test]
async fn tickets_of_changed_parquet_folders_expire_and_never_give_other_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (fixture, ..) = parquet(folder.path());
    let before = start(&fixture);
    let planned = plan(&before, &at_most("many", 3)).await;
    write_parquet(
        &folder.path().join("many/99.parquet"),
        &[small_rows(5000..5010)],
        40,
    );
    let after = start(&fixture);
    for partition in &planned {
        assert_eq!(code(read(&after, partition).await), ErrorCode::Expired);
    }
    let few = plan(&before, &at_most("few", 3)).await;
    write_parquet(
        &folder.path().join("few/1.parquet"),
        &[small_rows(5000..5010)],
        40,
    );
    for partition in &few {
        assert_eq!(
            code(read(&start(&fixture), partition).await),
            ErrorCode::Expired
        );
    }
}

/// Stripes share out the units of a partition, from any unit on, whichever process reads them.
async fn stripes_are_disjoint_and_whole(fixture: &Fixture, table: &str) {
    let planned = plan(&start(fixture), &at_most(table, 2)).await;
    for partition in &planned {
        let whole = raw::read(
            start(fixture).url(),
            partition,
            Stripe {
                index: 0,
                of: 1,
                from_unit: 0,
            },
        )
        .unwrap();
        let units: Vec<u64> = whole.units.iter().map(|(unit, _)| *unit).collect();
        assert!(
            partition.units > 2 && units == (0..partition.units).collect::<Vec<_>>(),
            "{table}: {units:?}"
        );
        let fresh = start(fixture);
        for of in [1, 2, 3, 7] {
            for from_unit in 0..=partition.units {
                let mut seen = Vec::new();
                for index in 0..of {
                    let answer = raw::read(
                        fresh.url(),
                        partition,
                        Stripe {
                            index,
                            of,
                            from_unit,
                        },
                    )
                    .unwrap();
                    assert_eq!(answer.end.units, answer.units.len() as u64);
                    for (unit, found) in answer.units {
                        assert!(
                            unit >= from_unit && unit % u64::from(of) == u64::from(index),
                            "{table}: unit {unit}"
                        );
                        rows::assert_same(
                            &whole.units[unit as usize].1,
                            &found,
                            &format!("{table}: unit {unit}"),
                        );
                        seen.push(unit);
                    }
                }
                seen.sort_unstable();
                assert_eq!(
                    seen,
                    (from_unit..partition.units).collect::<Vec<_>>(),
                    "{table}: {of} stripes"
                );
            }
        }
        let error = raw::read(
            fresh.url(),
            partition,
            Stripe {
                index: 2,
                of: 2,
                from_unit: 0,
            },
        )
        .unwrap_err();
        assert!(error.message.contains("stripe"), "{error:?}");
    }
}

#[tokio::test]
async fn stripes_of_memory_tables_and_mapped_files_share_out_units() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = fixture(folder.path());
    stripes_are_disjoint_and_whole(&fixture, "memory").await;
    stripes_are_disjoint_and_whole(&fixture, "ipc").await;
}

#[tokio::test]
async fn stripes_of_parquet_folders_share_out_units() {
    let folder = tempfile::tempdir().unwrap();
    let (fixture, ..) = parquet(folder.path());
    stripes_are_disjoint_and_whole(&fixture, "many").await;
    stripes_are_disjoint_and_whole(&fixture, "few").await;
}

fn code(result: Result<Vec<RecordBatch>, Error>) -> ErrorCode {
    result
        .expect_err("rows for a ticket that is no good")
        .code()
}

#[tokio::test]
async fn tickets_that_are_not_right_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = fixture(folder.path());
    let server = start(&own);
    let partition = plan(&server, &at_most("memory", 3)).await.remove(1);

    let stranger = start(&Fixture {
        key: "a key that only this server has got".to_owned(),
        ..own.clone()
    });
    assert_eq!(
        code(read(&stranger, &partition).await),
        ErrorCode::PermissionDenied
    );

    let mut forged = partition.clone();
    forged.ticket[10] ^= 1;
    assert_eq!(
        code(read(&server, &forged).await),
        ErrorCode::PermissionDenied
    );

    let mut changed = partition.clone();
    let mut request = (*changed.request).clone();
    request.limit = Some(5);
    changed.request = Arc::new(request);
    assert_eq!(
        code(read(&server, &changed).await),
        ErrorCode::InvalidArgument
    );
    let mut request = (*partition.request).clone();
    request.source = ScanRequest::table("ipc").to_proto().unwrap().source;
    changed.request = Arc::new(request);
    assert_eq!(
        code(read(&server, &changed).await),
        ErrorCode::InvalidArgument
    );

    assert_eq!(
        rows::count(&read(&server, &partition).await.unwrap()),
        3 * 256
    );
}

#[tokio::test]
async fn tickets_end_unless_they_are_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let brief = start(&Fixture {
        lifetime_ms: 2000,
        ..fixture(folder.path())
    });
    let client = client(&brief);
    let mut plan = client.plan(&at_most("memory", 3)).await.unwrap();
    let first = plan.partitions[0].clone();
    read(&brief, &first).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.renew(&mut plan).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2000)).await;
    assert_eq!(code(read(&brief, &first).await), ErrorCode::Expired);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        code(read(&brief, &plan.partitions[0]).await),
        ErrorCode::Expired
    );
    assert_eq!(
        client.renew(&mut plan).await.unwrap_err().code(),
        ErrorCode::Expired
    );
}

#[tokio::test]
async fn tickets_of_a_replaced_file_expire_and_never_give_other_rows() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = fixture(folder.path());
    let path = fixture.ipc.clone().unwrap();
    let before = start(&fixture);
    let planned = plan(&before, &at_most("ipc", 3)).await;
    let expected = read(&before, &planned[2]).await.unwrap();
    let next = folder.path().join("next.arrow");
    write_ipc(&next, &[small_rows(0..500)]);
    std::fs::rename(&next, &path).unwrap();
    // The server that planned holds the file from before.
    rows::assert_same(
        &expected,
        &read(&before, &planned[2]).await.unwrap(),
        "where it was planned",
    );
    let after = start(&fixture);
    for partition in &planned {
        assert_eq!(code(read(&after, partition).await), ErrorCode::Expired);
    }
    let now = plan(&after, &at_most("ipc", 3)).await;
    rows::assert_same(
        &[small_rows(0..500)],
        &read(&after, &now[0]).await.unwrap(),
        "planned anew",
    );
}
