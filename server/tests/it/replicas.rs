//! Servers that are killed in the middle of a scan: it goes on once there is a server again at the same place, or at once at
//! another one that has the same data.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::{Client, Options};

use crate::harness::*;

const FLIGHTS: usize = 336_776;

fn client(url: &str, values: &[(&str, &str)]) -> Client {
    let base = [("max_frame_bytes", "64KiB"), ("retry_backoff", "50ms")];
    let options = base
        .iter()
        .chain(values)
        .try_fold(Options::default(), |options, (name, value)| {
            options.with(name, value)
        });
    Client::new(url, options.unwrap()).unwrap()
}

/// The flights as Parquet and as an Arrow file, whose row groups and batches are units.
fn files(folder: &Path) -> [(&'static str, std::path::PathBuf); 2] {
    let parquet = folder.join("flights.parquet");
    std::fs::copy(examples().join("flights.parquet"), &parquet).unwrap();
    let served = Served::start(&[&table_arg("flights", &parquet)]);
    let arrow = folder.join("flights.arrow");
    ok(&[
        "cat",
        &served.table("flights"),
        "-o",
        arrow.to_str().unwrap(),
    ]);
    [("parquet", parquet), ("arrow", arrow)]
}

fn whole(batches: &[RecordBatch]) -> RecordBatch {
    let whole = concat_batches(&batches[0].schema(), batches).unwrap();
    assert_eq!(whole.num_rows(), FLIGHTS);
    whole
}

async fn rows(client: &Client) -> RecordBatch {
    let request = ScanRequest {
        ordered: true,
        ..ScanRequest::table("flights")
    };
    let scan = client.scan(&request).await.unwrap();
    whole(&scan.try_collect::<Vec<_>>().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_goes_on_after_its_server_was_killed_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, path) in files(folder.path()) {
        let table = table_arg("flights", &path);
        let mut served = Served::start(&[&table]);
        let url = served.url().to_owned();
        let expected = rows(&client(&url, &[("retries", "0")])).await;
        for streams in ["1", "4"] {
            // More than the time that a process needs to start.
            let client = client(&url, &[("retries", "10"), ("streams", streams)]);
            let request = ScanRequest {
                ordered: true,
                ..ScanRequest::table("flights")
            };
            let mut scan = client.scan(&request).await.unwrap();
            let mut found = Vec::new();
            for kills in 0..2 {
                for _ in 0..5 {
                    found.push(scan.next().await.unwrap().unwrap());
                }
                served.kill();
                let (url, table) = (url.clone(), table.clone());
                let start = move || Served::start_at(&url, &[&table]);
                let again = tokio::task::spawn_blocking(start);
                // What had arrived before may still be given; what comes then is from the new process.
                let next = scan.next().await.unwrap();
                found.push(next.unwrap_or_else(|error| panic!("{kind} {kills}: {error}")));
                served = again.await.unwrap();
            }
            let metrics = scan.metrics().to_vec();
            found.extend(scan.try_collect::<Vec<_>>().await.unwrap());
            assert!(
                metrics.iter().any(|metrics| metrics.retries() > 0),
                "{kind}"
            );
            assert!(whole(&found) == expected, "{kind} over {streams} differs");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_goes_on_at_the_peer_of_a_server_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    write(&key, &[7; 32]);
    let place = |name: &str| format!("lightstream+unix://{}/{name}", folder.path().display());
    let allowed = format!("{}/*.sock", folder.path().display());
    for (kind, path) in files(folder.path()) {
        let (table, key) = (
            table_arg("flights", &path),
            key.to_str().unwrap().to_owned(),
        );
        let serve = |name: &str, peer: &str| {
            let peer = format!("--peer={}", place(peer));
            let key = format!("--ticket-key-file={key}");
            Served::start_at(&place(name), &[&table, &key, &peer])
        };
        for kills_first in [true, false] {
            let (first, second) = (serve("a.sock", "b.sock"), serve("b.sock", "a.sock"));
            let url = first.url().to_owned();
            let values = [
                ("retries", "3"),
                ("partitions", "4"),
                ("allowed_hosts", allowed.as_str()),
            ];
            let client = client(&url, &values);
            let expected = rows(&client).await;
            let plan = client.plan(&ScanRequest::table("flights")).await.unwrap();
            assert!(plan.partitions.len() > 1, "{kind}");
            for partition in &plan.partitions {
                let names = [["a.sock", "b.sock"], ["b.sock", "a.sock"]];
                let expected = names[partition.index % 2].map(place);
                assert_eq!(partition.locations, expected, "{kind}");
            }
            let mut readers: Vec<_> = plan.partitions.iter().map(|p| client.read(p)).collect();
            let mut found: Vec<Vec<RecordBatch>> = Vec::new();
            for reader in &mut readers {
                found.push(vec![reader.next().await.unwrap().unwrap()]);
            }
            let _other = if kills_first {
                (second, drop(first)).0
            } else {
                (first, drop(second)).0
            };
            let mut retries = 0;
            for (reader, found) in readers.into_iter().zip(&mut found) {
                let metrics = reader.metrics();
                found.extend(reader.try_collect::<Vec<_>>().await.unwrap());
                retries += metrics.retries();
            }
            assert!(retries > 0, "{kind}");
            assert!(whole(&found.concat()) == expected, "{kind} differs");
        }
    }
}

#[test]
fn places_that_mean_nothing_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    write(&key, &[7; 32]);
    let key = format!("--ticket-key-file={}", key.display());
    let data = examples();
    let data = format!("--dir={}", data.display());
    let peer = "--peer=lightstream://b.example";
    fails(2, &["serve", &data, peer], &["--ticket-key-file"]);
    for bad in ["nonsense", "lightstream://a/t", "lightstream://a?tls=off"] {
        fails(
            2,
            &["serve", &data, &key, &format!("--peer={bad}")],
            &["--peer"],
        );
        fails(
            2,
            &["serve", &data, &format!("--advertise={bad}")],
            &["--advertise"],
        );
    }
    let nowhere = "--advertise=lightstream://0.0.0.0:7654";
    let here = "--listen=lightstream://127.0.0.1:0";
    fails(2, &["serve", &data, here, nowhere], &["0.0.0.0"]);
}
