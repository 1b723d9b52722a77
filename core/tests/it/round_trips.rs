//! How often a client waits for its server: counted by a relay between the two, without clocks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LARGE_ROWS: i64 = 2_000_000;

/// A connection through the relay.
#[derive(Default)]
struct Wire {
    /// Bytes of the client that followed bytes of the server, or were the first of all: each a round trip begun.
    round_trips: AtomicUsize,
    /// Whoever sends next from the client's side begins one.
    is_the_clients_turn: AtomicBool,
}

/// Passes on what either side sends, and notes whose turn it was.
struct Relay {
    url: String,
    wires: Arc<Mutex<Vec<Arc<Wire>>>>,
}

impl Relay {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Self {
            url: format!("lightstream://{}", listener.local_addr().unwrap()),
            wires: Arc::default(),
        };
        let wires = Arc::clone(&relay.wires);
        let server = server.url().replace("lightstream://", "");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let wire = Arc::new(Wire::default());
                wire.is_the_clients_turn.store(true, Ordering::SeqCst);
                wires.lock().unwrap().push(Arc::clone(&wire));
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(pass_on(client, server, wire));
            }
        });
        relay
    }

    /// The round trips begun since the last call, of each connection that was ever made.
    fn take(&self) -> Vec<usize> {
        let wires = self.wires.lock().unwrap();
        let counts = wires.iter();
        counts
            .map(|wire| wire.round_trips.swap(0, Ordering::SeqCst))
            .collect()
    }
}

async fn pass_on(client: TcpStream, server: TcpStream, wire: Arc<Wire>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            if wire.is_the_clients_turn.swap(false, Ordering::SeqCst) {
                wire.round_trips.fetch_add(1, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    let answers = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            // Before the client can see them, so that what it sends because of them counts.
            wire.is_the_clients_turn.store(true, Ordering::SeqCst);
            if to_client.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    // Once either side is gone, so is the connection.
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

fn numbers(from: i64, to: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

/// A server of a table of one row and one of 16 MB, reached through a relay.
async fn serve() -> (Server, Relay) {
    let large = (0..LARGE_ROWS).step_by(100_000);
    let large = large.map(|from| numbers(from, from + 100_000)).collect();
    let server = Server::builder()
        .table("one", MemoryTable::try_new(vec![numbers(0, 1)]).unwrap())
        .table("large", MemoryTable::try_new(large).unwrap())
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let relay = Relay::to(&server).await;
    (server, relay)
}

/// A client with a connection that has been used.
async fn warm(relay: &Relay, streams: &str) -> Client {
    let options = Options::default().with("streams", streams).unwrap();
    let client = Client::connect(&relay.url, options).await.unwrap();
    relay.take();
    client
}

async fn rows(client: &Client, request: &ScanRequest) -> usize {
    let scan = client.scan(request).await.unwrap();
    let batches: Vec<RecordBatch> = scan.try_collect().await.unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

fn in_one_partition(table: &str) -> ScanRequest {
    ScanRequest {
        max_partitions: Some(1),
        ..ScanRequest::table(table)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_takes_one_round_trip_since_it_comes_with_its_plan() {
    let (_server, relay) = serve().await;
    let client = warm(&relay, "1").await;
    for _ in 0..3 {
        assert_eq!(rows(&client, &ScanRequest::table("one")).await, 1);
        assert_eq!(relay.take(), [1]);
    }
    let few = ScanRequest {
        limit: Some(5),
        ..in_one_partition("large")
    };
    assert_eq!(rows(&client, &few).await, 5);
    assert_eq!(relay.take(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_table_takes_two_until_its_first_rows_and_none_after_them() {
    let (_server, relay) = serve().await;
    let client = warm(&relay, "1").await;
    let request = in_one_partition("large");

    let plan = client.plan(&request).await.unwrap();
    assert_eq!(relay.take(), [1]);
    let mut batches = client.read(&plan.partitions[0]);
    let mut rows = batches.try_next().await.unwrap().unwrap().num_rows();
    assert_eq!(relay.take(), [1]);
    while let Some(batch) = batches.try_next().await.unwrap() {
        rows += batch.num_rows();
    }
    assert_eq!((rows, relay.take()), (LARGE_ROWS as usize, vec![0]));

    let mut scan = client.scan(&request).await.unwrap();
    scan.try_next().await.unwrap().unwrap();
    assert_eq!(relay.take(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_greeting_takes_none_since_the_first_request_does_not_wait_for_it() {
    let (_server, relay) = serve().await;
    let client = Client::new(&relay.url, Options::default()).unwrap();
    assert_eq!(relay.take(), [0; 0]);
    assert_eq!(rows(&client, &ScanRequest::table("one")).await, 1);
    // A connection to make, and then what a warm one takes too.
    assert_eq!(relay.take(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_further_connection_takes_one_of_its_own() {
    let (_server, relay) = serve().await;
    let client = warm(&relay, "4").await;
    let request = in_one_partition("large");
    assert_eq!(rows(&client, &request).await, LARGE_ROWS as usize);
    let mut taken = relay.take();
    taken.sort_unstable();
    // The plan's connection reads a stripe as well.
    assert_eq!(taken, [1, 1, 1, 2]);
    // From now on all are warm.
    assert_eq!(rows(&client, &request).await, LARGE_ROWS as usize);
    assert_eq!(relay.take().iter().sum::<usize>(), 5);
    assert_eq!(relay.take().len(), 4);
}
