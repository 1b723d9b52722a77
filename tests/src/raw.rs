//! A client that writes and reads frames by hand, to ask for what the real one does not ask for yet.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::Buffer;
use lightstream_core::protocol::VERSION;
use lightstream_core::protocol::frame::{HEADER_BYTES, Header, Tag};
use lightstream_core::protocol::ipc::Decoder;
use lightstream_core::protocol::limits::DecodeLimits;
use lightstream_core::protocol::messages::{self, request, response};
use lightstream_core::protocol::plan::Partition;
use prost::Message;

/// Which units of a partition to ask for.
#[derive(Debug, Clone, Copy)]
pub struct Stripe {
    pub index: u32,
    pub of: u32,
    pub from_unit: u64,
}

/// The answer to a read: rows of each unit, with the units as they were said to be over.
#[derive(Debug)]
pub struct Answer {
    /// The batches that came before each end of a unit.
    pub units: Vec<(u64, Vec<RecordBatch>)>,
    /// What the server says it sent.
    pub end: messages::ReadEnd,
}

/// Reads a partition, or a stripe of it. An error is the one that the server sent.
pub fn read(url: &str, partition: &Partition, stripe: Stripe) -> Result<Answer, messages::Error> {
    let mut stream =
        TcpStream::connect(url.strip_prefix("lightstream://").expect("a TCP server")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let hello = messages::Hello {
        versions: vec![VERSION],
        ..messages::Hello::default()
    };
    send(&mut stream, request::Kind::Hello(hello));
    send(
        &mut stream,
        request::Kind::Read(messages::Read {
            ticket: partition.ticket.clone(),
            request: Some((*partition.request).clone()),
            stripe: stripe.index,
            stripes: stripe.of,
            from_unit: stripe.from_unit,
            ..messages::Read::default()
        }),
    );
    let mut decoder = Decoder::new(DecodeLimits::default());
    let (mut units, mut open) = (Vec::new(), Vec::new());
    loop {
        let (tag, payload) = receive(&mut stream).unwrap();
        if tag == Tag::Batch {
            let batch = decoder.decode(Buffer::from_vec(payload)).unwrap();
            open.extend(Some(batch).filter(|batch| batch.num_rows() > 0));
            continue;
        }
        match messages::Response::decode(payload.as_slice()).unwrap().kind {
            Some(response::Kind::UnitEnd(end)) => units.push((end.unit, std::mem::take(&mut open))),
            Some(response::Kind::ReadEnd(end)) => return Ok(Answer { units, end }),
            Some(response::Kind::Error(error)) => return Err(error),
            Some(response::Kind::Welcome(_) | response::Kind::Progress(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn send(stream: &mut TcpStream, kind: request::Kind) {
    let request = messages::Request {
        kind: Some(kind),
        ..messages::Request::default()
    };
    let header = Header::try_new(Tag::Request, request.encoded_len()).unwrap();
    stream
        .write_all(&[&header.to_bytes(), request.encode_to_vec().as_slice()].concat())
        .unwrap();
}

fn receive(stream: &mut TcpStream) -> io::Result<(Tag, Vec<u8>)> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let header = Header::parse(header, &DecodeLimits::default()).unwrap();
    let mut payload = vec![0; header.length as usize];
    stream.read_exact(&mut payload)?;
    Ok((header.tag, payload))
}

/// Where each frame of a recorded stream ends, and whether it is one that ends a unit or a read.
pub fn frame_ends(mut bytes: &[u8]) -> Vec<(u64, bool)> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        let header = Header::parse(*header, &DecodeLimits::default()).unwrap();
        let (frame, rest) = bytes.split_at(HEADER_BYTES + header.length as usize);
        let is_end = header.tag == Tag::Response
            && matches!(
                messages::Response::decode(&frame[HEADER_BYTES..])
                    .unwrap()
                    .kind,
                Some(response::Kind::UnitEnd(_) | response::Kind::ReadEnd(_))
            );
        at += frame.len() as u64;
        ends.push((at, is_end));
        bytes = rest;
    }
    ends
}
