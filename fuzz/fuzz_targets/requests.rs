//! A whole server and what one client may send to it: each connection gets answers until it ends, whatever was asked.
//!
//! The input is a list of requests, each after its length in two bytes. Those that want a ticket and have none get one that
//! is good.
#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use libfuzzer_sys::fuzz_target;
use lightstream_core::protocol::frame::{Header, Tag};
use lightstream_core::protocol::messages::{
    Hello, Plan, Request, Response, ScanRequest, request, response, scan_request,
};
use lightstream_core::server::{MemoryTable, Server};
use prost::Message;

const ROWS: i64 = 1000;

struct Running {
    socket: PathBuf,
    ticket: Vec<u8>,
    _server: Server,
    _runtime: tokio::runtime::Runtime,
}

static RUNNING: LazyLock<Running> = LazyLock::new(|| {
    let socket = std::env::temp_dir().join(format!("lightstream-fuzz-{}.sock", std::process::id()));
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        (
            "b",
            Arc::new(Float64Array::from_iter(
                (0..ROWS).map(|n| (n % 3 > 0).then_some(n as f64)),
            )),
        ),
        (
            "c",
            Arc::new(StringArray::from_iter_values(
                (0..ROWS).map(|n| format!("text {n}")),
            )),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("three columns");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let server = runtime
        .block_on(
            Server::builder()
                .table("t", MemoryTable::try_new(vec![batch]).expect("a table"))
                .listen(&format!("lightstream+unix://{}", socket.display())),
        )
        .expect("a server");
    let plan = request::Kind::Plan(Plan {
        request: Some(ScanRequest {
            source: Some(scan_request::Source::Table("t".into())),
            ..ScanRequest::default()
        }),
        ..Plan::default()
    });
    let answers = exchange(&socket, &[message(plan).encode_to_vec()]);
    let ticket = answers
        .into_iter()
        .find_map(|answer| match answer.kind {
            Some(response::Kind::ScanPlan(mut plan)) => Some(plan.partitions.remove(0).ticket),
            _ => None,
        })
        .expect("a plan");
    Running {
        socket,
        ticket,
        _server: server,
        _runtime: runtime,
    }
});

fn message(kind: request::Kind) -> Request {
    Request {
        kind: Some(kind),
        ..Request::default()
    }
}

/// Sends requests after a greeting; returns the answers that are messages.
fn exchange(socket: &PathBuf, requests: &[Vec<u8>]) -> Vec<Response> {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time limit");
    let hello = message(request::Kind::Hello(Hello {
        versions: vec![1],
        ..Hello::default()
    }));
    let mut sent = Vec::new();
    for payload in std::iter::once(&hello.encode_to_vec()).chain(requests) {
        let header = Header::try_new(Tag::Request, payload.len()).expect("short requests");
        sent.extend_from_slice(&header.to_bytes());
        sent.extend_from_slice(payload);
    }
    // A server that has had enough may be gone before it has read all.
    let _ = stream.write_all(&sent);
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset,
            "the server does not answer"
        );
    }
    messages(&received)
}

fn messages(mut received: &[u8]) -> Vec<Response> {
    let mut found = Vec::new();
    while let Some((header, rest)) = received.split_at_checked(5) {
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
        // The last answer may be cut where the server has ended the connection.
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            return found;
        };
        match header[0] {
            1 => found.push(Response::decode(payload).expect("a response")),
            2 => {}
            tag => panic!("a server sends no frames with tag {tag}"),
        }
        received = rest;
    }
    found
}

fuzz_target!(|data: &[u8]| {
    let running = &*RUNNING;
    let mut rest = data;
    let mut requests = Vec::new();
    while let Some((length, after)) = rest.split_at_checked(2) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(after.len());
        let (payload, after) = after.split_at(length);
        rest = after;
        requests.push(match Request::decode(payload) {
            Ok(mut request) => {
                match &mut request.kind {
                    Some(request::Kind::Read(read)) if read.ticket.is_empty() => {
                        read.ticket.clone_from(&running.ticket);
                    }
                    Some(request::Kind::Renew(renew)) if renew.tickets.is_empty() => {
                        renew.tickets.push(running.ticket.clone());
                    }
                    Some(request::Kind::Release(release)) if release.ticket.is_empty() => {
                        release.ticket.clone_from(&running.ticket);
                    }
                    _ => {}
                }
                request.encode_to_vec()
            }
            Err(_) => payload.to_vec(),
        });
    }
    exchange(&running.socket, &requests);
});
