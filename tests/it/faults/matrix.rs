//! Every fault on every transport, over one connection and several, in order and not: what comes is every row once, or
//! without retries an error that says what is wrong; with retries it is every row once.

use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use futures::{StreamExt, TryStreamExt, stream};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::Server;
use lightstream_core::{Client, Error, ErrorCode, Options};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::rows;
use lightstream_tests::servers::{ANY_PORT, becomes_idle, certificate, options};
use lightstream_tests::tables::{SmallUnits, many_types};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

/// Scans under way at once.
const AT_ONCE: usize = 6;

/// Far above what a scan takes, and far below a hang.
const CEILING: Duration = Duration::from_secs(60);

/// Places in the bytes of each direction that each fault strikes.
const PLACES: usize = 8;

/// The handshake of TLS is over after so many bytes. What changes it is told, and not made good.
const HANDSHAKE_BYTES: u64 = 4000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Cut,
    Reset,
    Delay,
    Stall,
    Corrupt,
    Throttle,
}

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::Cut,
        Kind::Reset,
        Kind::Delay,
        Kind::Stall,
        Kind::Corrupt,
        Kind::Throttle,
    ];

    fn at(self, direction: Direction, place: u64) -> Fault {
        match self {
            Kind::Cut => Fault::end(direction, place, Ending::Close),
            Kind::Reset => Fault::end(direction, place, Ending::Reset),
            Kind::Stall => Fault::end(direction, place, Ending::Stall),
            Kind::Delay => Fault {
                delay: Some((direction, place, Duration::from_millis(100))),
                ..Fault::NONE
            },
            Kind::Corrupt => Fault {
                flip: Some((direction, place, 1 << (place % 8))),
                ..Fault::NONE
            },
            Kind::Throttle => Fault {
                slow: Some((500 + place as usize % 1000, Duration::from_micros(100))),
                ..Fault::NONE
            },
        }
    }

    /// Whether it is only slow.
    fn is_harmless(self) -> bool {
        matches!(self, Kind::Delay | Kind::Throttle)
    }
}

fn table() -> Vec<RecordBatch> {
    many_types(16, 40)
}

struct Served {
    server: Server,
    transport: Transport,
    folder: TempDir,
}

impl Served {
    async fn start(transport: Transport) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let builder = Server::builder().table("t", SmallUnits::new(table()));
        let (builder, url) = match transport {
            Transport::Tcp => (builder, ANY_PORT.to_owned()),
            Transport::Tls => (builder.tls(certificate(folder.path())), ANY_PORT.to_owned()),
            Transport::Unix => {
                let path = folder.path().join("server.sock");
                (builder, format!("lightstream+unix://{}", path.display()))
            }
        };
        Self {
            server: builder.listen(&url).await.unwrap(),
            transport,
            folder,
        }
    }

    fn options(&self, streams: &str, retries: &str) -> Options {
        let ca = self.folder.path().join("cert.pem");
        let guard = match self.transport {
            Transport::Tls => ("tls_ca", ca.to_str().unwrap()),
            Transport::Tcp | Transport::Unix => ("checksum", "crc32c"),
        };
        options(&[
            guard,
            ("max_frame_bytes", "2KiB"),
            ("streams", streams),
            ("partitions", "2"),
            ("retries", retries),
            ("retry_backoff", "1ms"),
            ("read_timeout", "700ms"),
        ])
    }
}

/// All rows by `id`, which ascends from 0.
async fn scan(url: &str, options: Options, ordered: bool) -> Result<Vec<RecordBatch>, Error> {
    let request = ScanRequest {
        ordered,
        ..ScanRequest::table("t")
    };
    let client = Client::new(url, options)?;
    let found = client.scan(&request).await?.try_collect::<Vec<_>>();
    let found = tokio::time::timeout(CEILING, found)
        .await
        .expect("a scan hangs")?;
    if ordered || found.is_empty() {
        return Ok(found);
    }
    let whole = concat_batches(&found[0].schema(), &found).unwrap();
    let ids = whole.column_by_name("id").unwrap();
    let order: UInt32Array = sort_to_indices(ids, None, None).unwrap();
    Ok(vec![take_record_batch(&whole, &order).unwrap()])
}

fn is_expected(error: &Error) -> bool {
    let codes = [
        ErrorCode::DataLoss,
        ErrorCode::Unavailable,
        ErrorCode::DeadlineExceeded,
    ];
    codes.contains(&error.code()) && error.is_retryable()
}

async fn strike(transport: Transport, streams: &'static str, ordered: bool) {
    let served = Served::start(transport).await;
    let table = table();
    let proxy = Proxy::start(&served.server.url(), |_| Fault::NONE).await;
    let clean = scan(proxy.url(), served.options(streams, "0"), ordered).await;
    rows::assert_same(&table, &clean.unwrap(), "nothing breaks");
    let connections = proxy.connections() as u64;
    let (to_server, to_client) = (
        proxy.to_server() / connections,
        proxy.to_client() / connections,
    );
    let mut random = StdRng::seed_from_u64(17);
    let mut cases = Vec::new();
    for kind in Kind::ALL {
        let is_read_over = kind == Kind::Corrupt && transport == Transport::Tls;
        for place in 0..PLACES {
            let (direction, total) = match place % 4 {
                0 if !is_read_over => (Direction::ToServer, to_server),
                _ => (Direction::ToClient, to_client),
            };
            let from = if is_read_over { HANDSHAKE_BYTES } else { 0 };
            let place = random.random_range(from..total.max(from + 1));
            cases.push((kind, direction, place));
        }
    }
    let mut scans = stream::iter(cases)
        .map(|(kind, direction, place)| {
            let (url, fault) = (served.server.url(), kind.at(direction, place));
            let (once, again) = (served.options(streams, "0"), served.options(streams, "6"));
            async move {
                let always = Proxy::start(&url, move |_| fault).await;
                let once = scan(always.url(), once, ordered).await;
                // The first connections and the next of one of them, but fewer than there are attempts: a plan may meet
                // them one after the other.
                let most = (connections as usize).min(4) + 1;
                let first = move |number| if number < most { fault } else { Fault::NONE };
                let first = Proxy::start(&url, first).await;
                let again = scan(first.url(), again, ordered).await;
                (kind, format!("{kind:?} {direction:?} {place}"), once, again)
            }
        })
        .buffer_unordered(AT_ONCE);
    let (mut whole, mut failed) = (0, 0);
    while let Some((kind, what, once, again)) = scans.next().await {
        match once {
            Ok(found) => {
                rows::assert_same(&table, &found, &what);
                whole += 1;
            }
            Err(error) => {
                assert!(
                    !kind.is_harmless() && is_expected(&error),
                    "{what}: {error}"
                );
                failed += 1;
            }
        }
        let again = again.unwrap_or_else(|error| panic!("{what} with retries: {error}"));
        rows::assert_same(&table, &again, &what);
    }
    drop(scans);
    println!(
        "{transport:?} over {streams}, ordered {ordered}: without retries {whole} whole and {failed} typed errors, with \
         retries {} whole",
        whole + failed
    );
    assert!(whole > 0 && failed > PLACES, "{whole} {failed}");
    becomes_idle(&served.server).await;
}

async fn every_way(transport: Transport) {
    for streams in ["1", "4"] {
        for ordered in [true, false] {
            strike(transport, streams, ordered).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp_every_row_comes_once() {
    every_way(Transport::Tcp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_every_row_comes_once() {
    every_way(Transport::Tls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_unix_sockets_every_row_comes_once() {
    every_way(Transport::Unix).await;
}
