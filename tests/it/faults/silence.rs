//! Peers that say nothing: time limits end the wait on both sides.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, ErrorCode};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::rows;
use lightstream_tests::servers::{ANY_PORT, becomes_idle, options, scan, serve, settles};
use lightstream_tests::tables::{SmallUnits, Useless, many_types};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_server_that_accepts_and_stays_silent_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("lightstream://{}", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    for retries in ["0", "3"] {
        let limit = Duration::from_millis(500);
        let client = Client::new(
            &url,
            options(&[("read_timeout", "500ms"), ("retries", retries)]),
        )
        .unwrap();
        let start = Instant::now();
        let asked = [
            client.ping().await.err(),
            client.tables("").await.err(),
            client.describe("t", None).await.err(),
        ];
        let planned = client.plan(&ScanRequest::table("t")).await.err();
        for error in asked.into_iter().chain([planned]) {
            let error = error.expect("an answer from nobody");
            assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
            assert!(error.to_string().contains("read_timeout"), "{error}");
        }
        assert!(start.elapsed() < 4 * 10 * limit, "{:?}", start.elapsed());
    }
    silent.abort();
}

/// The connection stands, and nothing comes any more: after any number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_falls_silent_is_given_up_or_read_on() {
    let table = many_types(6, 40);
    let server = serve(SmallUnits::new(table.clone())).await;
    let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
    scan(proxy.url(), options(&[])).await.unwrap();
    let total = proxy.to_client();
    for place in (0..10).map(|tenth| total * tenth / 10 + tenth) {
        let stall = move |number| match number {
            0 => Fault::end(Direction::ToClient, place, Ending::Stall),
            _ => Fault::NONE,
        };
        let proxy = Proxy::start(&server.url(), stall).await;
        let start = Instant::now();
        let error = scan(
            proxy.url(),
            options(&[("read_timeout", "300ms"), ("retries", "0")]),
        )
        .await
        .unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::DeadlineExceeded,
            "silent after {place}: {error}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(3),
            "{:?}",
            start.elapsed()
        );
        let proxy = Proxy::start(&server.url(), stall).await;
        let found = scan(
            proxy.url(),
            options(&[("read_timeout", "300ms"), ("retries", "3")]),
        )
        .await
        .unwrap();
        rows::assert_same(&table, &found, &format!("silent after {place}"));
    }
    becomes_idle(&server).await;
}

#[tokio::test]
async fn a_time_limit_ends_a_scan_that_never_yields_on_both_sides() {
    for table in [Useless::NeverYields, Useless::NeverPlans] {
        let server = serve(table).await;
        let start = Instant::now();
        let error = scan(&server.url(), options(&[("timeout", "500ms")]))
            .await
            .unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::DeadlineExceeded,
            "{table:?}: {error}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{table:?}: {:?}",
            start.elapsed()
        );
        becomes_idle(&server).await;
    }
}

/// An answer that takes longer than the limit on silence is awaited, as long as the server says that it is at work.
#[tokio::test]
async fn a_server_at_work_is_not_silent() {
    let server = serve(Useless::NeverYields).await;
    let start = Instant::now();
    let error = scan(
        &server.url(),
        options(&[("read_timeout", "4s"), ("timeout", "7s")]),
    )
    .await
    .unwrap_err();
    assert!(start.elapsed() >= Duration::from_secs(7), "{error}");
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
}

#[tokio::test]
async fn a_reader_that_is_dropped_frees_both_sides() {
    for (table, rows_first) in [(Useless::Endless, true), (Useless::NeverYields, false)] {
        let server = serve(table).await;
        let client = Client::connect(&server.url(), options(&[])).await.unwrap();
        let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
        let mut reader = client.read(&plan.partitions[0]);
        if rows_first {
            assert_eq!(reader.next().await.unwrap().unwrap(), Useless::batch());
        } else {
            let waited = tokio::time::timeout(Duration::from_millis(100), reader.next()).await;
            assert!(waited.is_err(), "{waited:?}");
        }
        settles(&server, "the scan is under way", |stats| {
            stats.active_scans == 1
        })
        .await;
        drop(reader);
        // The client itself lives on.
        becomes_idle(&server).await;
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_from_before_a_restart_is_replaced_silently() {
    let table = many_types(2, 50);
    let served = || Server::builder().table("t", MemoryTable::try_new(table.clone()).unwrap());
    let server = served().listen(ANY_PORT).await.unwrap();
    let url = server.url();
    let client = Client::connect(&url, options(&[("retries", "0")]))
        .await
        .unwrap();
    let mut held = Some(server);
    for restart in 0..5 {
        let found: Vec<_> = client
            .scan(&ScanRequest::table("t"))
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(rows::count(&found), 100);
        // In turn at once and in good order.
        let server = held.take().unwrap();
        if restart % 2 == 0 {
            drop(server);
        } else {
            assert!(server.shutdown(Duration::from_secs(5)).await);
        }
        held = Some(again(|| served().listen(&url)).await);
    }
}

/// The port is free again once the connections of the server before are gone.
async fn again<F: Future<Output = lightstream_core::Result<Server>>>(
    listen: impl Fn() -> F,
) -> Server {
    let start = Instant::now();
    loop {
        match listen().await {
            Ok(server) => return server,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(10), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
