//! A connection that is cut at every kind of place: never fewer rows with success, never a row twice.

use std::collections::BTreeSet;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt, stream};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, ErrorCode, Options};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::servers::{becomes_idle, options, scan, serve};
use lightstream_tests::tables::{SmallUnits, many_types};
use lightstream_tests::{raw, rows};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Scans under way at once.
const AT_ONCE: usize = 4;

fn table() -> Vec<RecordBatch> {
    many_types(12, 60)
}

/// Small frames, so that there are many of them.
fn frames(retries: &str) -> Options {
    options(&[
        ("max_frame_bytes", "2KiB"),
        ("retries", retries),
        ("retry_backoff", "1ms"),
        ("partitions", "3"),
    ])
}

/// How many bytes pass each way when nothing breaks, and what passes towards the client.
struct Clean {
    to_server: u64,
    to_client: Vec<u8>,
}

async fn clean(server: &Server) -> Clean {
    let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
    rows::assert_same(
        &table(),
        &scan(proxy.url(), frames("0")).await.unwrap(),
        "nothing breaks",
    );
    assert_eq!(
        proxy.connections(),
        1,
        "an ordered scan reuses its connection, so one stream holds all bytes"
    );
    Clean {
        to_server: proxy.to_server(),
        to_client: proxy.recorded(),
    }
}

/// All of the first bytes, both sides of every frame's end, and some of the rest.
fn places(clean: &Clean) -> BTreeSet<u64> {
    let total = clean.to_client.len() as u64;
    let ends = raw::frame_ends(&clean.to_client);
    assert_eq!(
        ends.iter().filter(|(_, is_end)| *is_end).count(),
        12 + 3,
        "a UnitEnd per unit, a ReadEnd per partition"
    );
    assert!(ends.len() > 60, "only {} frames", ends.len());
    let around = ends.iter().flat_map(|&(end, is_end)| {
        let near = if is_end { 8 } else { 1 };
        end.saturating_sub(near)..=end + near
    });
    let mut random = StdRng::seed_from_u64(1);
    let random = (0..150).map(|_| random.random_range(0..total));
    (0..300)
        .chain(around)
        .chain(random)
        .filter(|&place| place <= total)
        .collect()
}

/// A retry does not help where there are none: a scan that succeeds has had every byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_scan_without_retries_fails_or_is_whole() {
    let server = serve(SmallUnits::new(table())).await;
    let clean = clean(&server).await;
    let total = clean.to_client.len() as u64;
    let (table, places) = (table(), places(&clean));
    let (mut failed, mut whole) = (0, 0);
    let mut scans = stream::iter(&places)
        .map(|&place| {
            let url = server.url();
            async move {
                let ending = if place % 2 == 1 && place < total {
                    Ending::Reset
                } else {
                    Ending::Close
                };
                // Nothing passes on later connections, so that this many bytes are all that ever come.
                let fault = move |number| {
                    Fault::end(
                        Direction::ToClient,
                        if number == 0 { place } else { 0 },
                        ending,
                    )
                };
                let proxy = Proxy::start(&url, fault).await;
                (place, scan(proxy.url(), frames("0")).await)
            }
        })
        .buffer_unordered(AT_ONCE);
    while let Some((place, result)) = scans.next().await {
        match result {
            Ok(found) => {
                assert_eq!(place, total, "a success that lacks bytes");
                rows::assert_same(&table, &found, "cut after the last byte");
                whole += 1;
            }
            Err(error) => {
                let expected = [ErrorCode::DataLoss, ErrorCode::Unavailable];
                assert!(
                    place < total && expected.contains(&error.code()),
                    "cut after {place}: {error}"
                );
                failed += 1;
            }
        }
    }
    drop(scans);
    println!("{failed} cuts of {total} bytes gave a typed error, {whole} came after the last byte");
    assert!(failed > 500 && whole == 1);
    becomes_idle(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_scan_with_retries_gives_every_row_once() {
    let server = serve(SmallUnits::new(table())).await;
    let clean = clean(&server).await;
    let (table, places) = (table(), places(&clean));
    let mut scans = stream::iter(places.iter().enumerate())
        .map(|(index, &place)| {
            let url = server.url();
            async move {
                let cut = 1 + index % 3;
                let ending = if index % 2 == 1 {
                    Ending::Reset
                } else {
                    Ending::Close
                };
                let fault = move |number| match number {
                    number if number < cut => Fault::end(Direction::ToClient, place, ending),
                    _ => Fault::NONE,
                };
                let proxy = Proxy::start(&url, fault).await;
                let result = scan(proxy.url(), frames("3")).await;
                (place, cut, proxy.connections(), result)
            }
        })
        .buffer_unordered(AT_ONCE);
    let (mut scans_done, mut resumed) = (0, 0);
    while let Some((place, cut, connections, result)) = scans.next().await {
        let what = format!("{cut} connections cut after {place}");
        rows::assert_same(
            &table,
            &result.unwrap_or_else(|error| panic!("{what}: {error}")),
            &what,
        );
        scans_done += 1;
        resumed += usize::from(connections > 1);
    }
    println!("{scans_done} scans whole, {resumed} of them over more than one connection");
    assert!(resumed > 500);
}

/// A connection that lasts for a few frames only, every time, still carries a scan to its end: each gains a little.
#[tokio::test]
async fn a_scan_outlives_more_cuts_than_retries_while_it_moves_on() {
    let server = serve(SmallUnits::new(table())).await;
    let total = clean(&server).await.to_client.len() as u64;
    let proxy = Proxy::start(&server.url(), move |_| {
        Fault::end(Direction::ToClient, total / 8, Ending::Close)
    })
    .await;
    let found = scan(proxy.url(), frames("3")).await.unwrap();
    rows::assert_same(&table(), &found, "each connection carries an eighth");
    assert!(proxy.connections() > 7, "{}", proxy.connections());
}

/// The rows of a small table come with its plan: that answer is cut at every byte of its start and end, and at others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_plan_that_carries_its_rows_fails_or_is_made_good() {
    let table = many_types(1, 12);
    let server = serve(MemoryTable::try_new(table.clone()).unwrap()).await;
    let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
    rows::assert_same(
        &table,
        &scan(proxy.url(), frames("0")).await.unwrap(),
        "nothing breaks",
    );
    let client = Client::new(&server.url(), frames("0")).unwrap();
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    assert!(
        plan.partitions[0].rows_at_hand.is_some(),
        "the rows did not come with the plan"
    );
    let total = proxy.to_client();
    let places = (0..=total).filter(|&place| place < 600 || place + 40 > total || place % 29 == 0);
    let places: Vec<u64> = places.collect();
    let mut scans = stream::iter(&places)
        .map(|&place| {
            let url = server.url();
            async move {
                let ending = if place % 2 == 1 && place < total {
                    Ending::Reset
                } else {
                    Ending::Close
                };
                let fault = move |_| Fault::end(Direction::ToClient, place, ending);
                let once = scan(Proxy::start(&url, fault).await.url(), frames("0")).await;
                let first = move |number| {
                    if number < 2 {
                        fault(number)
                    } else {
                        Fault::NONE
                    }
                };
                (
                    place,
                    once,
                    scan(Proxy::start(&url, first).await.url(), frames("3")).await,
                )
            }
        })
        .buffer_unordered(AT_ONCE);
    while let Some((place, once, again)) = scans.next().await {
        match once {
            Ok(found) => {
                assert_eq!(place, total, "a success that lacks bytes");
                rows::assert_same(&table, &found, "cut after the last byte");
            }
            Err(error) => {
                let expected = [ErrorCode::DataLoss, ErrorCode::Unavailable];
                assert!(
                    place < total && expected.contains(&error.code()),
                    "cut after {place}: {error}"
                );
            }
        }
        rows::assert_same(
            &table,
            &again.unwrap(),
            &format!("two connections cut after {place}"),
        );
    }
    drop(scans);
    println!(
        "{} cuts of a plan with its rows, {total} bytes",
        places.len()
    );
}

/// Partitions that are read at the same time, also each over several connections, which break in other places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_read_at_once_survive_cuts() {
    let server = serve(SmallUnits::new(table())).await;
    let total = clean(&server).await.to_client.len() as u64;
    for seed in 0..60 {
        let fault = move |number: usize| {
            let after =
                StdRng::seed_from_u64(seed * 1000 + number as u64).random_range(0..total / 2);
            if number < 6 {
                Fault::end(Direction::ToClient, after, Ending::Close)
            } else {
                Fault::NONE
            }
        };
        let proxy = Proxy::start(&server.url(), fault).await;
        let streams = (1 + seed % 3).to_string();
        let client =
            Client::new(proxy.url(), frames("6").with("streams", &streams).unwrap()).unwrap();
        let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
        assert_eq!(plan.partitions.len(), 3);
        let reads = plan
            .partitions
            .iter()
            .map(|partition| client.read(partition).try_collect::<Vec<_>>());
        let found = futures::future::try_join_all(reads).await.unwrap().concat();
        rows::assert_same(
            &table(),
            &found,
            &format!("seed {seed} over {streams} streams"),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_towards_the_server_are_errors_or_are_made_good() {
    let server = serve(SmallUnits::new(table())).await;
    let total = clean(&server).await.to_server;
    let table = table();
    let mut scans = stream::iter(0..=total)
        .map(|place| {
            let url = server.url();
            async move {
                let ending = if place % 2 == 1 {
                    Ending::Reset
                } else {
                    Ending::Close
                };
                let cut = move |number, place| {
                    Fault::end(
                        Direction::ToServer,
                        if number == 0 { place } else { 0 },
                        ending,
                    )
                };
                let proxy = Proxy::start(&url, move |number| cut(number, place)).await;
                let once = scan(proxy.url(), frames("0")).await;
                let first = move |number| {
                    if number == 0 {
                        cut(0, place)
                    } else {
                        Fault::NONE
                    }
                };
                let proxy = Proxy::start(&url, first).await;
                (place, once, scan(proxy.url(), frames("3")).await)
            }
        })
        .buffer_unordered(AT_ONCE);
    while let Some((place, once, again)) = scans.next().await {
        let error = once.expect_err("a success without the whole request");
        let expected = [ErrorCode::DataLoss, ErrorCode::Unavailable];
        assert!(
            expected.contains(&error.code()),
            "cut after {place}: {error}"
        );
        rows::assert_same(
            &table,
            &again.unwrap(),
            &format!("first connection cut after {place}"),
        );
    }
    drop(scans);
    println!("{} cuts towards the server", total + 1);
    becomes_idle(&server).await;
}

#[tokio::test]
async fn bytes_that_dribble_in_keep_their_order() {
    let server = serve(SmallUnits::new(table())).await;
    for piece in [7, 997] {
        let pause = Duration::from_micros(if piece < 10 { 0 } else { 200 });
        let proxy = Proxy::start(&server.url(), move |_| Fault {
            slow: Some((piece, pause)),
            ..Fault::NONE
        })
        .await;
        let found = scan(proxy.url(), frames("0")).await.unwrap();
        rows::assert_same(&table(), &found, &format!("{piece} bytes at once"));
    }
}
