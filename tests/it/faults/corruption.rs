//! Single bytes that change on the way. There is no checksum yet, so other rows may come; but never a panic or a hang.

use std::time::Duration;

use futures::{StreamExt, stream};
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
