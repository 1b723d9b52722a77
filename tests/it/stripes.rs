//! Partitions read over several connections: their order, and the memory they take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use futures::{StreamExt, TryStreamExt};
use lightstream_core::Client;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::MemoryTable;
use lightstream_tests::isolated::isolated;
use lightstream_tests::process::{memory_bytes, peak_memory_bytes};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::rows::assert_same;
use lightstream_tests::servers::{options, scan, serve};
use lightstream_tests::tables::{SmallUnits, many_types};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_order_whichever_connection_is_slow() {
    let batches = many_types(60, 40);
    let server = serve(SmallUnits::new(batches.clone())).await;
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let streams = random.random_range(2..6).to_string();
        let prefetch = ["1KiB", "20KiB", "16MiB"][random.random_range(0..3)];
        let proxy = Proxy::start(&server.url(), move |connection| {
            let mut delays = StdRng::seed_from_u64(seed * 100 + connection as u64);
            Fault {
                slow: Some((
                    delays.random_range(200..20_000),
                    Duration::from_micros(delays.random_range(0..3000)),
                )),
                ..Fault::NONE
            }
        })
        .await;
        let settings = options(&[("streams", &streams), ("prefetch_bytes", prefetch)]);
        let read = scan(proxy.url(), settings).await.unwrap();
        let what = format!("seed {seed}, {streams} connections, {prefetch}");
        assert_same(&batches, &read, &what);
        assert!(proxy.connections() >= 2, "{what}");
    }
}

/// One column of numbers, in batches of 1 MiB.
fn numbers(batches: i64) -> Vec<RecordBatch> {
    let rows = (MIB / 8) as i64;
    (0..batches)
        .map(|batch| {
            let column = Int64Array::from_iter_values(batch * rows..(batch + 1) * rows);
            let column: ArrayRef = Arc::new(column);
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        })
        .collect()
}

/// The table as one partition.
fn whole() -> ScanRequest {
    ScanRequest {
        max_partitions: Some(1),
        ..ScanRequest::table("t")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_stands_still_holds_up_no_more_than_the_bound() {
    let server = serve(MemoryTable::try_new(numbers(256)).unwrap()).await;
    // The second connection is the first that reads; it stops within its first unit.
    let proxy = Proxy::start(&server.url(), |connection| match connection {
        0 => Fault::end(Direction::ToClient, 100_000, Ending::Stall),
        _ => Fault::NONE,
    })
    .await;
    let settings = options(&[("streams", "4"), ("prefetch_bytes", "8MiB")]);
    let client = Client::new(proxy.url(), settings).unwrap();
    let plan = client.plan(&whole()).await.unwrap();
    let mut reader = client.read(&plan.partitions[0]);
    let metrics = reader.metrics();
    let reading = tokio::spawn(async move { reader.next().await.map(|_| reader) });
    // Three lanes of 2 MiB each, and in each a last frame that may go beyond.
    let (bound, frame) = (6 * MIB, MIB);
    let start = Instant::now();
    while metrics.bytes() < bound {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "read ahead: {}",
            metrics.bytes()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..50 {
        assert!(
            metrics.bytes() <= bound + 3 * frame + MIB / 2,
            "read ahead: {}",
            metrics.bytes()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!reading.is_finished());
    reading.abort();
}

#[test]
fn kept_rows_keep_no_more_than_twice_what_they_refer_to() {
    isolated(
        "stripes::kept_rows_keep_no_more_than_twice_what_they_refer_to",
        async {
            for streams in ["1", "3"] {
                keep_a_row_of_each_batch(streams).await;
            }
        },
    );
}

async fn keep_a_row_of_each_batch(streams: &str) {
    const SLACK: u64 = 100 * MIB;
    let server = serve(MemoryTable::try_new(numbers(512)).unwrap()).await;
    // Frames that are just above a power of two are the worst for a pool of such sizes.
    let settings = options(&[("streams", streams), ("max_frame_bytes", "136KiB")]);
    let client = Client::connect(&server.url(), settings).await.unwrap();
    let plan = client.plan(&whole()).await.unwrap();
    for keeps_slices in [false, true] {
        let before = memory_bytes();
        let kept: Vec<_> = client
            .read(&plan.partitions[0])
            .map_ok(|batch| match keeps_slices {
                true => batch.slice(batch.num_rows() / 2, 1),
                false => {
                    let row = UInt32Array::from(vec![1]);
                    take_record_batch(&batch, &row).unwrap()
                }
            })
            .try_collect()
            .await
            .unwrap();
        let referred: usize = kept.iter().map(|row| row.get_array_memory_size()).sum();
        let (referred, grown) = (referred as u64, memory_bytes().saturating_sub(before));
        println!(
            "{streams} connections, {} rows kept, slices: {keeps_slices}: they refer to {} MiB, memory grew by {} MiB",
            kept.len(),
            referred / MIB,
            grown / MIB
        );
        assert!(kept.len() > 3000);
        assert!(
            grown <= 2 * referred + SLACK,
            "{grown} bytes for {referred}"
        );
        // Kept rows that refer to whole frames must be able to fail this.
        assert!(!keeps_slices || referred > 400 * MIB);
    }
}

#[test]
fn a_slow_consumer_of_a_long_stream_costs_little_memory() {
    isolated(
        "stripes::a_slow_consumer_of_a_long_stream_costs_little_memory",
        consume_slowly(),
    );
}

/// 5 GiB from a server in the same process, whose table is one batch again and again.
async fn consume_slowly() {
    const BATCHES: usize = 5 << 10;
    let batch = numbers(1).remove(0);
    let rows = batch.num_rows();
    let server = serve(MemoryTable::try_new(vec![batch; BATCHES]).unwrap()).await;
    let client = Client::connect(&server.url(), options(&[("streams", "4")]))
        .await
        .unwrap();
    let plan = client.plan(&whole()).await.unwrap();
    let before = memory_bytes();
    let mut reader = client.read(&plan.partitions[0]);
    let (mut read, mut batches) = (0, 0);
    while let Some(batch) = reader.try_next().await.unwrap() {
        read += batch.num_rows();
        batches += 1;
        if batches % 16 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(read, rows * BATCHES);
    let grown = peak_memory_bytes().saturating_sub(before);
    println!(
        "{BATCHES} MiB read, memory grew by {} MiB at most",
        grown / MIB
    );
    assert!(grown < 256 * MIB);
}
