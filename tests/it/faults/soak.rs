//! Whatever clients do to a server for long, nothing of it stays.

use std::time::Duration;

use futures::{StreamExt, stream};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, ErrorCode};
use lightstream_tests::fixture::small_rows;
use lightstream_tests::isolated::isolated;
use lightstream_tests::process::{descriptors, memory_bytes, threads};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::rows;
use lightstream_tests::servers::{ANY_PORT, becomes_idle, options, scan};
use lightstream_tests::tables::{SmallUnits, Useless};
use tokio::runtime::Handle;

/// Rounds before anything is counted.
const WARM: usize = 20;

/// Rounds that are counted, by default; `SOAK_ROUNDS` says otherwise.
const ROUNDS: usize = 300;

/// Clients at a time.
const CLIENTS: usize = 8;

/// What memory may differ by: allocators give back when they please.
const SLACK_BYTES: u64 = 32 << 20;

const ROWS: i64 = 4000;

#[test]
fn nothing_stays_of_what_clients_do() {
    isolated("faults::soak::nothing_stays_of_what_clients_do", soak());
}

async fn soak() {
    let batches: Vec<_> = (0..8)
        .map(|n| small_rows(n * ROWS / 8..(n + 1) * ROWS / 8))
        .collect();
    let server = Server::builder()
        .table("t", SmallUnits::new(batches.clone()))
        .table("memory", MemoryTable::try_new(batches.clone()).unwrap())
        .table("endless", Useless::Endless)
        .table("stuck", Useless::NeverYields)
        .ticket_lifetime(Duration::from_secs(1))
        .listen(ANY_PORT)
        .await
        .unwrap();
    // A connection is lost after as many bytes as its number says, on either side, in one of three ways; every other one
    // is whole.
    let proxy = Proxy::start(&server.url(), |number| {
        let after = (number as u64 * 7919) % 60_000;
        let way = [Direction::ToClient, Direction::ToServer][number / 2 % 2];
        let ending = [Ending::Close, Ending::Reset][number / 4 % 2];
        match number % 2 {
            0 => Fault::end(way, after, ending),
            _ => Fault::NONE,
        }
    })
    .await;
    let (server, proxy, batches) = (&server, &proxy, &batches);
    let rounds = |rounds: usize| async move {
        let whole = Client::new(&server.url(), options(&[])).unwrap();
        let deeds = stream::iter(0..rounds * 8).map(|deed| {
            let (url, broken, whole) = (server.url(), proxy.url(), &whole);
            async move {
                match deed % 8 {
                    0 => rows::assert_same(
                        batches,
                        &scan(&url, options(&[("streams", "3")])).await.unwrap(),
                        "striped",
                    ),
                    1 => {
                        // Retries start anew with each row that comes, so some always get through.
                        let stubborn = options(&[("retries", "50"), ("retry_backoff", "1ms")]);
                        let found = scan(broken, stubborn).await.unwrap();
                        rows::assert_same(batches, &found, "over connections that break");
                    }
                    2 => {
                        let plan = whole.plan(&ScanRequest::table("endless")).await.unwrap();
                        let mut reader = whole.read(&plan.partitions[0]);
                        assert!(reader.next().await.unwrap().unwrap().num_rows() > 0);
                    }
                    3 => {
                        let hasty = Client::new(&url, options(&[("timeout", "20ms")])).unwrap();
                        let stuck = hasty.scan(&ScanRequest::table("stuck")).await;
                        if let Ok(mut stuck) = stuck {
                            let error = stuck.next().await.unwrap().unwrap_err();
                            assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
                        }
                    }
                    4 => {
                        let missing = whole.plan(&ScanRequest::table("missing")).await;
                        assert_eq!(missing.unwrap_err().code(), ErrorCode::NotFound);
                    }
                    5 => {
                        let request = ScanRequest::table("memory");
                        let planned = whole.plan(&request);
                        let _ = tokio::time::timeout(Duration::from_micros(300), planned).await;
                    }
                    6 => {
                        let request = ScanRequest {
                            limit: Some(deed as u64 % 100),
                            ..ScanRequest::table("memory")
                        };
                        let plan = whole.plan(&request).await.unwrap();
                        whole.release(&plan).await.unwrap();
                    }
                    _ => {
                        // Planned, and left to itself.
                        let request = ScanRequest {
                            limit: Some(deed as u64),
                            ..ScanRequest::table("t")
                        };
                        whole.plan(&request).await.unwrap();
                    }
                }
            }
        });
        deeds.buffer_unordered(CLIENTS).collect::<Vec<()>>().await;
    };
    let metrics = server.stats_reader();
    let settled = || async {
        becomes_idle(server).await;
        let freed = async {
            while metrics.metrics().held_plans > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let freed = tokio::time::timeout(Duration::from_secs(60), freed).await;
        freed.expect("plans end, a second after anybody has asked for them");
        (
            descriptors(),
            threads(),
            Handle::current().metrics().num_alive_tasks(),
        )
    };
    rounds(WARM).await;
    let (before, memory) = (settled().await, memory_bytes());
    let count = std::env::var("SOAK_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    rounds(count).await;
    let (after, grown) = (settled().await, memory_bytes().saturating_sub(memory));
    println!(
        "{} deeds: (descriptors, threads, tasks) were {before:?}, are {after:?}; memory was {memory} bytes and grew by {grown}",
        count * 8
    );
    assert_eq!(before, after);
    assert!(grown <= SLACK_BYTES, "memory grew by {grown} bytes");
}
