//! The same faults where connections are secured: what is cut is noticed, and what is changed never reaches the rows.

use futures::{StreamExt, stream};
use lightstream_core::server::Server;
use lightstream_core::{Error, ErrorCode, Options};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::rows;
use lightstream_tests::servers::{ANY_PORT, becomes_idle, certificate, options, scan};
use lightstream_tests::tables::{SmallUnits, many_types};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

const AT_ONCE: usize = 4;

/// A server with a certificate of its own making.
struct Secured {
    server: Server,
    folder: TempDir,
}

impl Secured {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = certificate(folder.path());
        let server = Server::builder()
            .table("t", SmallUnits::new(many_types(12, 60)))
            .tls(files)
            .listen(ANY_PORT)
            .await
            .unwrap();
        Self { server, folder }
    }

    fn options(&self, streams: &str, retries: &str) -> Options {
        let ca = self.folder.path().join("cert.pem");
        options(&[
            ("tls_ca", ca.to_str().unwrap()),
            ("max_frame_bytes", "2KiB"),
            ("streams", streams),
            ("partitions", "2"),
            ("retries", retries),
            ("retry_backoff", "1ms"),
            // A length that grew makes one side wait for what never comes.
            ("read_timeout", "1s"),
        ])
    }
}

async fn goes_wrong(
    streams: &str,
    places: usize,
    fault: impl Fn(Direction, u64) -> Fault,
    is_whole: impl Fn(&str, &Result<Vec<datafusion::arrow::array::RecordBatch>, Error>),
) {
    let secured = Secured::start().await;
    let table = many_types(12, 60);
    let proxy = Proxy::start(&secured.server.url(), |_| Fault::NONE).await;
    let clean = scan(proxy.url(), secured.options(streams, "0"))
        .await
        .unwrap();
    rows::assert_same(&table, &clean, "nothing breaks");
    let mut random = StdRng::seed_from_u64(11);
    let cases: Vec<(Direction, u64)> = (0..places)
        .map(|index| match index % 4 {
            0 => (
                Direction::ToServer,
                random.random_range(0..proxy.to_server()),
            ),
            1 => (Direction::ToClient, random.random_range(0..2000)),
            _ => (
                Direction::ToClient,
                random.random_range(0..proxy.to_client()),
            ),
        })
        .collect();
    let mut scans = stream::iter(cases)
        .map(|(direction, place)| {
            let (url, fault) = (secured.server.url(), fault(direction, place));
            let (once, again) = (secured.options(streams, "0"), secured.options(streams, "5"));
            async move {
                let always = Proxy::start(&url, move |_| fault).await;
                let once = scan(always.url(), once).await;
                let first = move |number| if number < 2 { fault } else { Fault::NONE };
                let first = Proxy::start(&url, first).await;
                let again = scan(first.url(), again).await;
                (format!("{direction:?} {place} over {streams}"), once, again)
            }
        })
        .buffer_unordered(AT_ONCE);
    let mut failed = 0;
    while let Some((what, once, again)) = scans.next().await {
        match once {
            Ok(found) => rows::assert_same(&table, &found, &what),
            Err(error) => {
                let expected = [
                    ErrorCode::DataLoss,
                    ErrorCode::Unavailable,
                    ErrorCode::DeadlineExceeded,
                ];
                assert!(expected.contains(&error.code()), "{what}: {error}");
                failed += 1;
            }
        }
        is_whole(&what, &again);
        if let Ok(found) = again {
            rows::assert_same(&table, &found, &what);
        }
    }
    drop(scans);
    // With several connections most places lie behind the end of each.
    assert!(failed > places / 5, "{failed} of {places} failed");
    becomes_idle(&secured.server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secured_connection_that_is_cut_is_made_good() {
    for streams in ["1", "4"] {
        for ending in [Ending::Close, Ending::Reset] {
            goes_wrong(
                streams,
                60,
                |direction, place| Fault::end(direction, place, ending),
                |what, again| {
                    if let Err(error) = again {
                        panic!("{what}: {error}");
                    }
                },
            )
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_byte_that_is_changed_never_reaches_the_rows() {
    for streams in ["1", "4"] {
        goes_wrong(
            streams,
            100,
            |direction, place| Fault {
                flip: Some((direction, place, 0x10)),
                ..Fault::NONE
            },
            // What breaks the handshake is told; what comes later is sent again.
            |what, again| {
                if let Err(error) = again {
                    let is_handshake =
                        what.split(' ').nth(1).unwrap().parse::<u64>().unwrap() < 4000;
                    assert!(is_handshake, "{what}: {error}");
                }
            },
        )
        .await;
    }
}
