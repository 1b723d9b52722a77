//! Plain mode, with Arrow's own stream reader and writer at the other end of real sockets.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use futures::TryStreamExt;
use lightstream_core::client::PlainWriter;
use lightstream_core::conformance::batches::arbitrary_schema_and_batches;
use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule, Support};
use lightstream_core::protocol::ipc::StreamEncoder;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, Error, ErrorCode, Options};
use proptest::prelude::*;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn batch(from: i64, rows: i64) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
    let s: ArrayRef = Arc::new(StringArray::from_iter(
        (from..from + rows).map(|n| (n % 3 != 0).then(|| format!("text {n}"))),
    ));
    let d: DictionaryArray<Int32Type> = (from..from + rows)
        .map(|n| if n % 2 == 0 { "even" } else { "odd" })
        .collect();
    RecordBatch::try_from_iter_with_nullable([
        ("n", n, false),
        ("s", s, true),
        ("d", Arc::new(d) as ArrayRef, true),
    ])
    .unwrap()
}

fn batches(count: i64) -> Vec<RecordBatch> {
    (0..count).map(|at| batch(at * 100, 100)).collect()
}

fn rows_of(batches: &[RecordBatch]) -> RecordBatch {
    arrow_select::concat::concat_batches(&batches[0].schema(), batches).unwrap()
}

/// What Arrow's own writer makes of batches.
fn by_arrow(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .unwrap();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// A stream of batches with numbers.
fn numbered(batches: &[(u64, RecordBatch)], schema: &RecordBatch) -> Vec<u8> {
    let mut encoder = StreamEncoder::try_new(schema.schema()).unwrap();
    let mut bytes = encoder.start().to_vec();
    for (number, batch) in batches {
        bytes.extend(encoder.encode(batch, Some(*number)).unwrap().to_vec());
    }
    bytes.extend(encoder.end().to_vec());
    bytes
}

/// Gives these bytes to whoever connects first.
fn serve(bytes: Vec<u8>) -> (String, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("arrow+tcp://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || listener.accept()?.0.write_all(&bytes));
    (url, serving)
}

/// An address at which nobody listens yet.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Connects as soon as somebody listens there, and sends each stream over a connection of its own.
fn send(address: SocketAddr, streams: Vec<Vec<u8>>) -> Vec<JoinHandle<std::io::Result<()>>> {
    let connect = move || loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    streams
        .into_iter()
        .map(|bytes| {
            let mut stream = connect();
            std::thread::spawn(move || stream.write_all(&bytes))
        })
        .collect()
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("not in time")
}

async fn read(url: &str, request: &ScanRequest) -> Result<Vec<RecordBatch>, Error> {
    within(async {
        let client = Client::connect(url, Options::default()).await?;
        client.scan(request).await?.try_collect().await
    })
    .await
}

async fn read_all(url: &str) -> Result<Vec<RecordBatch>, Error> {
    read(url, &ScanRequest::table("stream")).await
}

#[tokio::test]
async fn what_arrow_writes_is_read() {
    let sent = batches(5);
    for compression in [
        None,
        Some(CompressionType::ZSTD),
        Some(CompressionType::LZ4_FRAME),
    ] {
        let (url, serving) = serve(by_arrow(&sent, compression));
        assert_eq!(rows_of(&read_all(&url).await.unwrap()), rows_of(&sent));
        serving.join().unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_table_has_the_name_that_the_url_gives_it() {
    let (url, _serving) = serve(by_arrow(&batches(1), None));
    let client = Client::new(&format!("{url}/anything"), Options::default()).unwrap();
    assert_eq!(client.table_name(), Some("anything"));
    let tables = client.tables("").await.unwrap();
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].name, "anything");
    let error = client.describe("other", None).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound, "{error}");
    let info = client.describe("anything", None).await.unwrap();
    assert_eq!(info.schema, batch(0, 1).schema());
    assert_eq!(
        Client::new(&url, Options::default()).unwrap().table_name(),
        Some("stream")
    );
}

#[tokio::test]
async fn columns_filters_and_limits_are_applied_here() {
    let sent = batches(5);
    let (url, _serving) = serve(by_arrow(&sent, None));
    let limit = Expr::literal(Arc::new(Int64Array::from(vec![150]))).unwrap();
    let beyond = Expr::compare(CompareOp::GtEq, Expr::column("n"), limit);
    let request = ScanRequest {
        projection: Some(vec![1, 0]),
        filter: Filter {
            float_rule: FloatRule::TotalOrder,
            conjuncts: vec![beyond],
        },
        limit: Some(120),
        ..ScanRequest::table("stream")
    };
    let client = Client::connect(&url, Options::default()).await.unwrap();
    let plan = client.plan(&request).await.unwrap();
    assert_eq!(plan.filters, [Support::Exact]);
    assert_eq!(plan.partitions.len(), 1);
    let got: Vec<_> = client
        .read(&plan.partitions[0])
        .try_collect()
        .await
        .unwrap();
    let whole = rows_of(&sent);
    assert_eq!(
        rows_of(&got),
        whole.slice(150, 120).project(&[1, 0]).unwrap()
    );
}

#[tokio::test]
async fn rows_come_once() {
    let (url, _serving) = serve(by_arrow(&batches(2), None));
    let client = Client::connect(&url, Options::default()).await.unwrap();
    let request = ScanRequest::table("stream");
    let first = client.plan_scan(&request).await.unwrap();
    let second = client.plan_scan(&request).await.unwrap();
    let rows: Vec<_> = first.read().try_collect().await.unwrap();
    assert_eq!(rows_of(&rows).num_rows(), 200);
    for scan in [&first, &second] {
        let error = scan.read().try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Expired, "{error}");
        assert!(
            !error.is_retryable() && error.to_string().contains("gives its rows once"),
            "{error}"
        );
    }
    // Elsewhere the rows cannot be had at all, and nobody is connected to.
    let partition = &first.plan().partitions[0];
    let other = Client::new(&url, Options::default()).unwrap();
    let error = other.read(partition).try_next().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
}

#[tokio::test]
async fn nothing_can_be_asked_of_the_writer() {
    let (url, _serving) = serve(by_arrow(&batches(1), None));
    let client = Client::connect(&url, Options::default()).await.unwrap();
    let error = client
        .plan(&ScanRequest::sql("SELECT 1"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
    let error = client.describe("stream", Some("1")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    for url in [
        "arrow+tcp://h:1?snapshot=1",
        "arrow+tcp://a:1,b:1?listen=2",
        "lightstream://h/t?listen=2",
        "arrow+tcp://h:1?listen=0",
    ] {
        let error = Client::new(url, Options::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
    let refused = Server::builder()
        .table("t", MemoryTable::try_new(batches(1)).unwrap())
        .listen("arrow+tcp://127.0.0.1:0")
        .await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidArgument);
}

/// The stream may end anywhere: that is an error, whatever came before, and never fewer rows.
#[tokio::test]
async fn a_cut_anywhere_is_data_loss() {
    let bytes = by_arrow(&[batch(0, 10), batch(10, 3)], None);
    let step = 1 + bytes.len() / 400;
    // Every place in the last bytes, where the end marker is.
    let places = (0..bytes.len() - 24).step_by(step);
    for end in places.chain(bytes.len() - 24..bytes.len()) {
        let (url, serving) = serve(bytes[..end].to_vec());
        let error = read_all(&url).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::DataLoss, "{end}: {error}");
        assert!(!error.is_retryable(), "{end}: {error}");
        serving.join().unwrap().unwrap();
    }
}

/// A connection that is reset is no end either.
#[tokio::test]
async fn a_reset_is_data_loss() {
    let bytes = by_arrow(&batches(2), None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("arrow+tcp://{}", listener.local_addr().unwrap());
    let (reset, when) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&bytes[..bytes.len() - 8]).unwrap();
        when.recv().unwrap();
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    });
    let client = Client::connect(&url, Options::default()).await.unwrap();
    reset.send(()).unwrap();
    serving.join().unwrap();
    let reader = client.scan(&ScanRequest::table("stream")).await.unwrap();
    let error = within(reader.try_collect::<Vec<_>>()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DataLoss, "{error}");
    assert!(!error.is_retryable(), "{error}");
}

#[tokio::test]
async fn a_gap_in_the_numbers_of_one_stream_is_data_loss() {
    let sent = batches(4);
    let with = |numbers: &[u64]| {
        let numbers = numbers.iter().copied();
        numbered(&numbers.zip(sent.clone()).collect::<Vec<_>>(), &sent[0])
    };
    let (url, _serving) = serve(with(&[0, 1, 2, 3]));
    assert_eq!(rows_of(&read_all(&url).await.unwrap()), rows_of(&sent));
    for (numbers, why) in [
        (&[0, 2, 3][..], "batch 1"),
        (&[1, 2], "batch 0"),
        (&[0, 1, 1], "twice"),
        (&[0, 1, 0], "twice"),
    ] {
        let (url, _serving) = serve(with(numbers));
        let error = read_all(&url).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::DataLoss, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// The batches with the numbers of one order, spread over so many streams.
fn spread(sent: &[RecordBatch], streams: usize) -> Vec<Vec<u8>> {
    let stream = |at| {
        let all = sent.iter().cloned().enumerate();
        let own: Vec<_> = all
            .filter(|(number, _)| number % streams == at)
            .map(|(number, batch)| (number as u64, batch))
            .collect();
        numbered(&own, &sent[0])
    };
    (0..streams).map(stream).collect()
}

#[tokio::test]
async fn parallel_streams_are_put_in_order() {
    let sent = batches(50);
    for streams in [2, 3, 4] {
        let address = free_address();
        let sending = std::thread::spawn({
            let streams = spread(&sent, streams);
            move || send(address, streams)
        });
        let url = format!("arrow+tcp://{address}?listen={streams}&ordered=true");
        assert_eq!(rows_of(&read_all(&url).await.unwrap()), rows_of(&sent));
        for each in sending.join().unwrap() {
            each.join().unwrap().unwrap();
        }
    }
}

/// Large batches fill every buffer on the way, so that a connection that nobody read would stop the writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_streams_are_as_many_partitions() {
    let sent: Vec<_> = (0..30).map(|at| batch(at * 20_000, 20_000)).collect();
    let mut expected: Vec<i64> = (0..600_000).collect();
    for concurrently in [true, false] {
        let address = free_address();
        let url = format!("arrow+tcp://{address}?listen=3");
        let client = Client::new(&url, Options::default()).unwrap();
        // One writer, that sends a batch to each in turn and waits for it to be taken.
        let writing = tokio::spawn({
            let (sent, url) = (sent.clone(), format!("arrow+tcp://{address}?streams=3"));
            async move {
                let mut writer = loop {
                    let schema = sent[0].schema();
                    match PlainWriter::connect(&url, Options::default(), schema).await {
                        Ok(writer) => break writer,
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                };
                for batch in &sent {
                    writer.write(batch).await.unwrap();
                }
                writer.finish().await.unwrap();
            }
        });
        let plan = within(client.plan(&ScanRequest::table("stream")))
            .await
            .unwrap();
        assert_eq!(plan.partitions.len(), 3);
        let readers = plan.partitions.iter().map(|each| client.read(each));
        let mut got = Vec::new();
        if concurrently {
            let all = readers.map(|reader| tokio::spawn(reader.try_collect::<Vec<_>>()));
            for each in all.collect::<Vec<_>>() {
                got.extend(within(each).await.unwrap().unwrap());
            }
        } else {
            for reader in readers {
                got.extend(within(reader.try_collect::<Vec<_>>()).await.unwrap());
            }
        }
        writing.await.unwrap();
        let numbers = rows_of(&got);
        let numbers = numbers.column(0).as_any().downcast_ref::<Int64Array>();
        let mut numbers = numbers.unwrap().values().to_vec();
        numbers.sort_unstable();
        expected.sort_unstable();
        assert_eq!(numbers, expected);
    }
}

#[tokio::test]
async fn parallel_streams_with_something_missing_are_data_loss() {
    let sent = batches(9);
    let whole = spread(&sent, 3);
    let mut cut = whole.clone();
    let length = cut[1].len() - 8;
    cut[1].truncate(length);
    let gap = numbered(&[(1, sent[1].clone()), (7, sent[7].clone())], &sent[0]);
    let gap = vec![whole[0].clone(), gap, whole[2].clone()];
    let repeated = vec![whole[0].clone(), whole[1].clone(), whole[1].clone()];
    let mixed = vec![
        whole[0].clone(),
        whole[1].clone(),
        by_arrow(&[sent[2].clone()], None),
    ];
    for (streams, why) in [
        (cut, "end marker"),
        (gap, "batch 4"),
        (repeated, "batch"),
        (mixed, "others none"),
    ] {
        for ordered in [true, false] {
            if ordered && why == "others none" {
                // What has no number is refused at once then: there is no place for it in the order.
                continue;
            }
            let address = free_address();
            let streams = streams.clone();
            let sending = std::thread::spawn(move || send(address, streams));
            let url = format!("arrow+tcp://{address}?listen=3&ordered={ordered}");
            let error = read_all(&url).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::DataLoss, "{why}: {error}");
            assert!(!error.is_retryable(), "{why}: {error}");
            assert!(error.to_string().contains(why), "{why}: {error}");
            drop(sending.join().unwrap());
        }
    }
}

#[tokio::test]
async fn an_order_needs_numbers() {
    let streams = || vec![by_arrow(&batches(2), None), by_arrow(&batches(3), None)];
    for (ordered, code) in [("true", Some(ErrorCode::InvalidArgument)), ("false", None)] {
        let address = free_address();
        let sending = std::thread::spawn(move || send(address, streams()));
        let url = format!("arrow+tcp://{address}?listen=2&ordered={ordered}");
        match read_all(&url).await {
            Ok(batches) => assert_eq!((rows_of(&batches).num_rows(), code), (500, None)),
            Err(error) => assert_eq!(Some(error.code()), code, "{error}"),
        }
        drop(sending.join().unwrap());
    }
}

/// Whoever has enough closes the connection, so that the writer does not wait forever.
#[tokio::test]
async fn a_limit_lets_the_writer_go() {
    let sent = vec![batch(0, 200_000); 40];
    let (url, serving) = serve(by_arrow(&sent, None));
    let client = Client::connect(&url, Options::default()).await.unwrap();
    let request = ScanRequest {
        limit: Some(7),
        ..ScanRequest::table("stream")
    };
    let reader = client.scan(&request).await.unwrap();
    let rows: Vec<_> = within(reader.try_collect()).await.unwrap();
    assert_eq!(rows_of(&rows), batch(0, 7));
    let ended = within(tokio::task::spawn_blocking(|| serving.join().unwrap()));
    assert!(ended.await.unwrap().is_err());
}

#[tokio::test]
async fn silence_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "arrow+tcp://{}?read_timeout=50ms",
        listener.local_addr().unwrap()
    );
    let bytes = by_arrow(&batches(2), None);
    let serving = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&bytes[..bytes.len() - 9]).unwrap();
        stream
    });
    let error = read_all(&url).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(!error.is_retryable(), "{error}");
    drop(serving.join().unwrap());

    let address = free_address();
    let url = format!("arrow+tcp://{address}?listen=2&connect_timeout=50ms&retries=0");
    let error = read_all(&url).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(error.to_string().contains("0 of 2"), "{error}");
}

#[tokio::test]
async fn a_message_beyond_the_limits_is_refused_before_it_is_held() {
    let mut bytes = by_arrow(&batches(1), None);
    bytes.truncate(8);
    bytes[4..8].copy_from_slice(&i32::MAX.to_le_bytes());
    let (url, _serving) = serve(bytes);
    let error = read_all(&url).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
}

#[tokio::test]
async fn a_message_that_unfolds_to_more_than_is_allowed_is_refused() {
    let sent = batches(1);
    let bytes = by_arrow(&sent, Some(CompressionType::ZSTD));
    let (url, serving) = serve(bytes.clone());
    let error = read_all(&format!("{url}?max_decompressed_bytes=100"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
    let _ = serving.join();
    let (url, serving) = serve(bytes);
    let found = read_all(&format!("{url}?max_decompressed_bytes=1MiB")).await;
    assert_eq!(rows_of(&found.unwrap()), rows_of(&sent));
    let _ = serving.join();
}

#[tokio::test]
async fn unix_sockets_and_readers_that_connect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b.sock");
    let url = format!("arrow+unix://{}/a%20b.sock", folder.path().display());
    let sent = batches(3);
    let writing = tokio::spawn({
        let (url, sent) = (format!("{url}?listen=1"), sent.clone());
        async move {
            let schema = sent[0].schema();
            let writer = PlainWriter::connect(&url, Options::default(), schema);
            let mut writer = writer.await.unwrap();
            for batch in &sent {
                writer.write(batch).await.unwrap();
            }
            writer.finish().await.unwrap();
        }
    });
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let got = read(&format!("{url}#t"), &ScanRequest::table("t")).await;
    assert_eq!(rows_of(&got.unwrap()), rows_of(&sent));
    writing.await.unwrap();
}

/// What Arrow's own reader makes of what is written here.
fn read_by_arrow(sent: &[RecordBatch], compression: &str) -> Vec<RecordBatch> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("arrow+tcp://{address}?compression={compression}");
    let reading = std::thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let reader = StreamReader::try_new(stream, None).unwrap();
        reader.collect::<Result<Vec<_>, _>>().unwrap()
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let schema = sent[0].schema();
        let writer = PlainWriter::connect(&url, Options::default(), schema);
        let mut writer = writer.await.unwrap();
        for batch in sent {
            writer.write(batch).await.unwrap();
        }
        writer.finish().await.unwrap();
    });
    reading.join().unwrap()
}

#[tokio::test]
async fn who_reads_cannot_ask_for_compression() {
    let error = read_all("arrow+tcp://127.0.0.1:1?compression=zstd").await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("compression"), "{error}");
}

/// The ids of the dictionaries in the schema message of a stream, by the paths of their fields.
fn dictionary_ids(schema: &RecordBatch) -> Vec<(String, i64)> {
    fn below(path: &str, field: arrow_ipc::Field<'_>, ids: &mut Vec<(String, i64)>) {
        let path = format!("{path}/{}", field.name().unwrap());
        ids.extend(field.dictionary().map(|found| (path.clone(), found.id())));
        for child in field.children().into_iter().flatten() {
            below(&path, child, ids);
        }
    }
    let start = StreamEncoder::try_new(schema.schema()).unwrap().start();
    let bytes = start.to_vec();
    assert_eq!(bytes.len() % 64, 0);
    let message = arrow_ipc::root_as_message(&bytes[8..]).unwrap();
    let mut ids = Vec::new();
    for field in message.header_as_schema().unwrap().fields().unwrap() {
        below("", field, &mut ids);
    }
    ids
}

/// The published reader finds the dictionary of a column by the column's position.
#[test]
fn a_column_and_its_dictionary_have_the_same_number() {
    let words = |words: [&str; 4]| -> ArrayRef {
        Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>())
    };
    let batch = |of: [&str; 4]| {
        let plain: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
        let both = [("x", words(of)), ("y", words(["u", "v", "u", "v"]))];
        let both = StructArray::from(RecordBatch::try_from_iter(both).unwrap());
        RecordBatch::try_from_iter([
            ("first", plain.clone()),
            ("word", words(of)),
            ("both", Arc::new(both) as ArrayRef),
            ("plain", plain),
            ("last", words(["e", "f", "f", "e"])),
        ])
        .unwrap()
    };
    let sent = [
        batch(["a", "b", "a", "c"]),
        batch(["c", "d", "d", "c"]),
        batch(["c", "d", "d", "c"]),
    ];
    let ids = dictionary_ids(&sent[0]);
    let ids: Vec<_> = ids.iter().map(|(path, id)| (path.as_str(), *id)).collect();
    let expected = [("/word", 1), ("/both/x", 5), ("/both/y", 6), ("/last", 4)];
    assert_eq!(ids, expected);
    assert_eq!(read_by_arrow(&sent, "none"), sent);
    let first = [sent[0].project(&[1, 0]).unwrap()];
    assert_eq!(dictionary_ids(&first[0]), [("/word".to_owned(), 0)]);
    assert_eq!(read_by_arrow(&first, "none"), first);
}

/// Both directions at once: what is written here is read here as the same rows.
async fn round_trip(sent: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let address = free_address();
    let reading = tokio::spawn(async move {
        let url = format!("arrow+tcp://{address}?listen=2&ordered=true");
        read_all(&url).await.unwrap()
    });
    let url = format!("arrow+tcp://{address}?streams=2&connect_timeout=20s");
    let mut writer = loop {
        match PlainWriter::connect(&url, Options::default(), sent[0].schema()).await {
            Ok(writer) => break writer,
            Err(error) => assert_eq!(error.code(), ErrorCode::Unavailable, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    for batch in &sent {
        writer
            .write(batch)
            .await
            .unwrap_or_else(|error| panic!("{error:?}"));
    }
    writer.finish().await.unwrap();
    reading.await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_type_makes_the_round_trip((_, batches) in arbitrary_schema_and_batches()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sent: Vec<_> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        prop_assume!(!sent.is_empty());
        let got = runtime.block_on(round_trip(sent.clone()));
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn arrow_reads_every_type(
        (_, batches) in arbitrary_schema_and_batches(),
        compression in prop_oneof!["none", "lz4", "zstd"],
    ) {
        let sent: Vec<_> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        prop_assume!(!sent.is_empty());
        prop_assert_eq!(read_by_arrow(&sent, &compression), sent);
    }
}
