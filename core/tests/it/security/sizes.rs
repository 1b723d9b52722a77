//! Requests beyond any measure.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule};
use lightstream_core::protocol::frame::HEADER_BYTES;
use lightstream_core::protocol::messages::error::Code;
use lightstream_core::protocol::messages::request::Kind;
use lightstream_core::protocol::messages::{self, response};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::{Client, ErrorCode, Options};
use prost::Message;
use prost::encoding::encode_varint;

use super::{ROWS, Served, describe, hello, plan, read, release, renew, tokens, whole};

/// Longest answer that is an error.
const ERROR_BYTES: usize = 64 << 10;

/// Most that the memory of the process may grow by: a few times the largest request, far below what its pieces could take.
#[cfg(target_os = "linux")]
const GROWTH_BYTES: u64 = 300 << 20;

async fn serve() -> Served {
    Served::start(&tokens(&[("ann", "\"*\""), ("bob", "\"codes\"")]), |s| s).await
}

fn request(kind: Kind) -> Vec<u8> {
    messages::Request {
        kind: Some(kind),
        ..Default::default()
    }
    .encode_to_vec()
}

/// A number of `/proc/self/status`, in bytes.
#[cfg(target_os = "linux")]
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

/// Checks that memory does not grow much meanwhile.
#[cfg(target_os = "linux")]
fn without_growth(what: &str, work: impl FnOnce()) {
    // Makes the peak what is in use now.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    work();
    let growth = status("VmHWM").saturating_sub(before);
    assert!(growth < GROWTH_BYTES, "{what}: {growth} bytes more");
}

#[cfg(not(target_os = "linux"))]
fn without_growth(_: &str, work: impl FnOnce()) {
    work();
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_refused_by_their_heads() {
    let served = serve().await;
    let most = 64 << 20;
    for (tag, length, code) in [
        (0, u32::MAX, Code::ResourceExhausted),
        (0, most + 1, Code::ResourceExhausted),
        (1, u32::MAX, Code::ResourceExhausted),
        (1, 0, Code::InvalidArgument),
        (2, u32::MAX, Code::InvalidArgument),
        (3, 1, Code::DataLoss),
        // A checked frame among others.
        (0x80, 1, Code::DataLoss),
    ] {
        let mut client = served.known("ann");
        let mut head = [tag; HEADER_BYTES];
        head[1..].copy_from_slice(&length.to_le_bytes());
        client.write(&head);
        let answer = client.receive().unwrap();
        assert_eq!(answer.code(), code, "tag {tag}, {length} bytes");
        assert!(client.receive().is_none(), "tag {tag}, {length} bytes");
        assert!(served.known("ann").is_served());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced_and_never_comes_takes_no_memory() {
    let served = serve().await;
    without_growth("frames that are announced", || {
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let mut client = served.known("ann");
                client.write(&[0, 0, 0, 0, 4, 0]);
                client
            })
            .collect();
        assert!(served.known("ann").is_served());
        drop(clients);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn long_tokens_are_refused_and_never_sent_back() {
    let served = serve().await;
    for (length, code) in [
        (1 << 20, Code::ResourceExhausted),
        (60_000, Code::Unauthenticated),
    ] {
        let token = "t".repeat(length);
        let named = Kind::Hello(messages::Hello {
            username: "ann".to_owned(),
            versions: vec![1],
            token: token.clone(),
            ..Default::default()
        });
        for hello in [hello(&token), named] {
            let mut stranger = served.dial();
            // The head is enough: the server may have closed the connection before the rest is written.
            let bytes = request(hello);
            let header = [&[0], &(bytes.len() as u32).to_le_bytes()[..]].concat();
            stranger.write(&header);
            if code == Code::Unauthenticated {
                stranger.write(&bytes);
            }
            let answer = stranger.receive().unwrap();
            assert!(answer.bytes.len() < 1000, "{length}");
            assert_eq!(answer.code(), code);
        }
    }
    assert!(served.known("ann").is_served());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_are_not_repeated_at_their_length() {
    let served = serve().await;
    let (mut ann, mut bob) = (served.known("ann"), served.known("bob"));
    for letter in ["x", "\0", "ä", "\u{200b}", "/..", "*"] {
        let name = letter.repeat((1 << 20) / letter.len());
        for kind in [describe(&name), plan(whole(&name)), read(b"", whole(&name))] {
            let is_read = matches!(kind, Kind::Read(_));
            let absent = match is_read {
                true => Code::PermissionDenied,
                false => Code::NotFound,
            };
            for (client, code) in [(&mut ann, absent), (&mut bob, Code::PermissionDenied)] {
                let answer = client.ask(kind.clone());
                assert!(answer.bytes.len() < ERROR_BYTES, "{}", answer.bytes.len());
                assert_eq!(answer.code(), code);
            }
        }
    }
    let versions = Kind::Hello(messages::Hello {
        versions: vec![u32::MAX; 500_000],
        ..Default::default()
    });
    let answer = ann.ask(versions);
    assert!(answer.bytes.len() < ERROR_BYTES);
    assert_eq!(answer.code(), Code::Unimplemented);
    assert!(ann.is_served() && bob.is_served());
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_tickets_are_renewed_and_released_or_refused_together() {
    const COUNT: usize = 20_000;
    let served = serve().await;
    let mut ann = served.known("ann");
    let planned = ann.ask(plan(whole("wages"))).plan();
    let ticket = &planned.partitions[0].ticket;
    let mut tickets = vec![ticket.clone(); COUNT];
    match ann.ask(renew(tickets.clone())).kind {
        response::Kind::Renewed(renewed) => assert_eq!(renewed.tickets.len(), COUNT),
        kind => panic!("{kind:?}"),
    }
    tickets.last_mut().unwrap()[0] ^= 1;
    assert_eq!(ann.ask(renew(tickets)).code(), Code::PermissionDenied);
    for _ in 0..1000 {
        let answer = ann.ask(release(ticket));
        assert!(matches!(answer.kind, response::Kind::Released(_)));
    }
    // What was released is planned again on the snapshot that the ticket names.
    assert!(ann.ask(read(ticket, whole("wages"))).batches > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_columns_have_an_end() {
    let served = serve().await;
    let mut ann = served.known("ann");
    for (column, count, code) in [
        (0, 3_000_000, Code::ResourceExhausted),
        (0, 100_001, Code::ResourceExhausted),
        (u32::MAX, 100_000, Code::InvalidArgument),
    ] {
        let projection = Some(messages::Projection {
            columns: vec![column; count],
        });
        let request = messages::ScanRequest {
            projection,
            ..whole("wages")
        };
        let answer = ann.ask(plan(request));
        assert!(answer.bytes.len() < 1000, "{count}");
        assert_eq!(answer.code(), code, "{count}");
    }
}

fn with_filter(filter: messages::Filter) -> Kind {
    plan(messages::ScanRequest {
        filter: Some(filter),
        ..whole("wages")
    })
}

fn proto(conjuncts: Vec<Expr>) -> messages::Filter {
    let float_rule = FloatRule::TotalOrder;
    Filter {
        float_rule,
        conjuncts,
    }
    .to_proto()
    .unwrap()
}

fn is_not_null() -> Expr {
    Expr::IsNotNull(Box::new(Expr::column("salary")))
}

/// A negation of a negation and so on, as it travels.
fn nested(levels: usize) -> messages::Filter {
    let mut filter = proto(vec![is_not_null()]);
    for _ in 0..levels {
        let inner = filter.conjuncts.remove(0);
        filter.conjuncts.push(messages::Expr {
            kind: Some(messages::expr::Kind::Not(Box::new(inner))),
        });
    }
    filter
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_beyond_a_bound_are_refused_by_its_name() {
    let served = serve().await;
    let mut ann = served.known("ann");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000_001));
    let text = StringArray::from(vec!["x".repeat(33 << 20)]);
    let text = Expr::literal(Arc::new(text)).unwrap();
    for (filter, word) in [
        (nested(39), "(depth)"),
        (proto(vec![is_not_null(); 5001]), "(nodes)"),
        (proto(vec![Expr::And(vec![is_not_null(); 5000])]), "(nodes)"),
        (
            proto(vec![Expr::in_list(Expr::column("salary"), numbers, false)]),
            "(list_values)",
        ),
        (
            proto(vec![Expr::compare(
                CompareOp::Eq,
                Expr::column("salary"),
                text,
            )]),
            "(literal_bytes)",
        ),
    ] {
        let answer = ann.ask(with_filter(filter));
        assert!(answer.bytes.len() < ERROR_BYTES);
        let error = answer.error();
        assert_eq!(error.code(), Code::ResourceExhausted, "{word}");
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    assert!(ann.is_served());

    // What cannot even be decoded ends the connection, and no other.
    ann.send(&request(with_filter(nested(200))));
    assert_eq!(ann.receive().unwrap().code(), Code::DataLoss);
    assert!(ann.receive().is_none());
    assert!(served.known("ann").is_served());
}

/// A message in the field of a number.
fn field(number: u8, message: Vec<u8>) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    encode_varint(message.len() as u64, &mut bytes);
    bytes.extend(message);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_that_take_more_memory_than_they_have_bytes_are_few() {
    let served = serve().await;
    let many = |piece: &[u8]| piece.repeat((32 << 20) / piece.len());
    // Fields of Plan, ScanRequest and Filter down to the pieces.
    let in_filter = |piece: &[u8]| field(5, field(1, field(4, many(piece))));
    for (what, request) in [
        ("tickets", field(7, many(&[10, 0]))),
        ("conjuncts", in_filter(&[18, 0])),
        ("columns of conjuncts", in_filter(&[18, 4, 10, 2, 10, 0])),
        ("the like of nothing", many(&[42, 0])),
    ] {
        let mut ann = served.known("ann");
        without_growth(what, || {
            ann.send(&request);
            let answer = ann.receive().unwrap();
            assert_eq!(answer.code(), Code::ResourceExhausted, "{what}");
        });
        assert!(served.known("ann").is_served());
    }
}

/// What a client asks a server that greets it and gives this answer to whatever it is asked.
fn ask_hostile<T>(answer: Vec<u8>, ask: impl AsyncFnOnce(Client) -> T) -> T {
    let frame = |message: &[u8]| {
        let mut bytes = vec![1];
        bytes.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
        bytes.extend(message);
        bytes
    };
    let welcome = messages::Response {
        kind: Some(response::Kind::Welcome(messages::Welcome {
            version: 1,
            ..Default::default()
        })),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("lightstream://{}?retries=0", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&frame(&welcome.encode_to_vec())).unwrap();
        // The client may be gone before the end of it.
        let _ = stream.write_all(&frame(&answer));
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let client = Client::new(&url, Options::default()).unwrap();
    let answer = runtime.block_on(ask(client));
    drop(runtime);
    serving.join().unwrap();
    answer
}

#[test]
fn pieces_of_responses_are_few_too() {
    let many = |piece: &[u8]| piece.repeat((32 << 20) / piece.len());
    // Fields of Response down to the pieces.
    without_growth("tables", || {
        let answer = field(3, many(&[10, 0]));
        let error = ask_hostile(answer, async |client| client.tables("").await).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
        assert!(!error.is_retryable());
    });
    for (what, answer) in [
        ("partitions", field(5, many(&[50, 0]))),
        ("locations", field(5, field(6, many(&[18, 0])))),
        ("columns", field(5, field(4, many(&[26, 0])))),
    ] {
        without_growth(what, || {
            let request = ScanRequest::table("t");
            let scan = ask_hostile(answer, async |client| client.scan(&request).await.map(drop));
            let error = scan.unwrap_err();
            assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
            assert!(!error.is_retryable());
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_with_numbers_at_their_ends_are_answered() {
    let served = serve().await;
    let mut ann = served.known("ann");
    let planned = ann.ask(plan(whole("codes"))).plan();
    let whole_read = messages::Read {
        ticket: planned.partitions[0].ticket.clone(),
        request: Some(whole("codes")),
        ..Default::default()
    };
    let most = u64::MAX;
    let rows = ROWS as u64;
    for (change, expected) in [
        ((0, 0, most, 0, 0), Some(0)),
        ((u32::MAX - 1, u32::MAX, 0, 0, 0), Some(0)),
        ((u32::MAX, u32::MAX, 0, 0, 0), None),
        ((u32::MAX - 1, u32::MAX, most, 0, 0), Some(0)),
        ((0, 0, 0, 1, 0), Some(rows)),
        ((0, 0, 0, most, 0), Some(rows)),
        ((0, 0, 0, 0, most), Some(0)),
    ] {
        let (stripe, stripes, from_unit, size, skip_rows) = change;
        let answer = ann.ask(Kind::Read(messages::Read {
            stripe,
            stripes,
            from_unit,
            max_frame_bytes: size,
            batch_rows: size,
            skip_rows,
            ..whole_read.clone()
        }));
        let sent = match answer.kind {
            response::Kind::ReadEnd(end) => Some(end.rows),
            _ => None,
        };
        assert_eq!(sent, expected, "{change:?}");
    }
    let everything = messages::ScanRequest {
        max_partitions: u32::MAX,
        limit: Some(most),
        ..whole("codes")
    };
    assert_eq!(ann.ask(plan(everything)).plan().partitions.len(), 1);
}
