//! Single bytes that change on the way. Without checksums other rows may come, but never a panic or a hang; with them no
//! change goes unseen, and each is made good.

use std::time::Duration;

use futures::{StreamExt, stream};
use lightstream_core::ErrorCode;
use lightstream_tests::panics::PanicWatch;
use lightstream_tests::proxy::{Direction, Fault, Proxy};
use lightstream_tests::rows;
use lightstream_tests::servers::{becomes_idle, options, scan, serve};
use lightstream_tests::tables::{SmallUnits, many_types};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Far above what a scan takes, and far below a hang.
const CEILING: Duration = Duration::from_secs(30);

async fn corrupt(direction: Direction, places: impl Fn(u64) -> Vec<u64>) {
    let watch = PanicWatch::new();
    let table = many_types(4, 40);
    let server = serve(SmallUnits::new(table.clone())).await;
    // A length that grew makes one side wait for what never comes: only silence tells.
    let options = options(&[
        ("retries", "0"),
        ("read_timeout", "400ms"),
        ("max_frame_bytes", "4KiB"),
    ]);
    let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
    rows::assert_same(
        &table,
        &scan(proxy.url(), options.clone()).await.unwrap(),
        "nothing is changed",
    );
    let total = if direction == Direction::ToClient {
        proxy.to_client()
    } else {
        proxy.to_server()
    };
    let mut random = StdRng::seed_from_u64(2);
    let cases: Vec<(u64, u8)> = places(total)
        .into_iter()
        .map(|place| {
            (
                place,
                [0xff, 0x80, 1 << random.random_range(0..8)][place as usize % 3],
            )
        })
        .collect();
    let mut scans = stream::iter(&cases)
        .map(|&(place, bits)| {
            let (url, options) = (server.url(), options.clone());
            async move {
                let fault = move |_| Fault {
                    flip: Some((direction, place, bits)),
                    ..Fault::NONE
                };
                let proxy = Proxy::start(&url, fault).await;
                (
                    place,
                    tokio::time::timeout(CEILING, scan(proxy.url(), options)).await,
                )
            }
        })
        .buffer_unordered(8);
    let (mut errors, mut same, mut others) = (0, 0, 0);
    while let Some((place, result)) = scans.next().await {
        match result
            .unwrap_or_else(|_| panic!("a scan hangs with byte {place} {direction:?} changed"))
        {
            Err(_) => errors += 1,
            Ok(found) if rows::difference(&table, &found).is_none() => same += 1,
            Ok(found) => {
                for column in found.iter().flat_map(|batch| batch.columns()) {
                    column
                        .to_data()
                        .validate_full()
                        .unwrap_or_else(|error| panic!("byte {place}: {error}"));
                }
                others += 1;
            }
        }
    }
    drop(scans);
    println!(
        "{direction:?}: {} of {total} bytes changed: {errors} errors, {same} unharmed, {others} with other rows",
        cases.len()
    );
    watch.assert_none("scans of changed bytes");
    becomes_idle(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_byte_towards_the_client_neither_panics_nor_hangs() {
    corrupt(Direction::ToClient, |total| {
        let mut random = StdRng::seed_from_u64(3);
        (0..300)
            .chain((0..500).map(|_| random.random_range(300..total)))
            .collect()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_byte_towards_the_server_neither_panics_nor_hangs() {
    corrupt(Direction::ToServer, |total| (0..total).collect()).await;
}

/// Changes single bits at so many places of the only connection of a scan, once for good and once on two connections.
async fn checked(direction: Direction, count: u64) {
    let table = many_types(4, 40);
    let server = serve(SmallUnits::new(table.clone())).await;
    let options = |retries: &str| {
        options(&[
            ("checksum", "crc32c"),
            ("retries", retries),
            ("retry_backoff", "1ms"),
            ("max_frame_bytes", "4KiB"),
        ])
    };
    let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
    let clean = scan(proxy.url(), options("0")).await.unwrap();
    rows::assert_same(&table, &clean, "nothing is changed");
    assert_eq!(proxy.connections(), 1);
    let total = match direction {
        Direction::ToClient => proxy.to_client(),
        Direction::ToServer => proxy.to_server(),
    };
    let mut random = StdRng::seed_from_u64(5);
    let places = (0..count).map(|place| match place {
        // The greeting and the start of the plan, byte after byte.
        near if near < total.min(count / 3) => near,
        _ => random.random_range(0..total),
    });
    let cases: Vec<(u64, u8)> = places.map(|place| (place, 1 << (place % 8))).collect();
    let mut scans = stream::iter(cases)
        .map(|(place, bits)| {
            let (url, once, again) = (server.url(), options("0"), options("3"));
            async move {
                let fault = Fault {
                    flip: Some((direction, place, bits)),
                    ..Fault::NONE
                };
                let always = Proxy::start(&url, move |_| fault).await;
                let once = tokio::time::timeout(CEILING, scan(always.url(), once)).await;
                let first = move |number| if number < 2 { fault } else { Fault::NONE };
                let first = Proxy::start(&url, first).await;
                let again = tokio::time::timeout(CEILING, scan(first.url(), again)).await;
                (
                    format!("{direction:?} {place}"),
                    once.unwrap(),
                    again.unwrap(),
                )
            }
        })
        .buffer_unordered(4);
    // The server answers that the request was changed, and closes; where more was on its way, that is a reset.
    let expected: &[ErrorCode] = match direction {
        Direction::ToClient => &[ErrorCode::DataLoss],
        Direction::ToServer => &[ErrorCode::DataLoss, ErrorCode::Unavailable],
    };
    let mut told = 0;
    while let Some((what, once, again)) = scans.next().await {
        let error = once.expect_err(&what);
        assert!(
            expected.contains(&error.code()) && error.is_retryable(),
            "{what}: {error}"
        );
        told += usize::from(error.code() == ErrorCode::DataLoss);
        let again = again.unwrap_or_else(|error| panic!("{what}: {error}"));
        rows::assert_same(&table, &again, &what);
    }
    drop(scans);
    println!(
        "{direction:?}: {count} changes in {total} bytes, all seen ({told} as data_loss) and made good"
    );
    assert!(told as u64 > count / 2);
    becomes_idle(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_checksums_no_changed_byte_towards_the_client_goes_unseen() {
    checked(Direction::ToClient, 900).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_checksums_no_changed_byte_towards_the_server_goes_unseen() {
    checked(Direction::ToServer, 300).await;
}
