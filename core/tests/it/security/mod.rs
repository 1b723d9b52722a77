//! What hostile clients get from a server: frames written by hand, over real connections.

mod requests;
mod sizes;
mod tables;
mod tickets;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use lightstream_core::protocol::VERSION;
use lightstream_core::protocol::frame::{HEADER_BYTES, Header, Tag};
use lightstream_core::protocol::limits::DecodeLimits;
use lightstream_core::protocol::messages::error::Code;
use lightstream_core::protocol::messages::request::Kind;
use lightstream_core::protocol::messages::scan_request::Source;
use lightstream_core::protocol::messages::{self, response};
use lightstream_core::protocol::ticket::TicketKey;
use lightstream_core::server::{MemoryTable, Server, ServerBuilder, TokenFile};
use prost::Message;
use tempfile::TempDir;

use super::grants::entry;

const ROWS: i64 = 10_000;

/// What seals the tickets of the servers here.
const SECRET: [u8; 32] = [7; 32];

/// A table with one column `salary`.
fn table() -> MemoryTable {
    let salary: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    MemoryTable::try_new(vec![
        RecordBatch::try_from_iter([("salary", salary)]).unwrap(),
    ])
    .unwrap()
}

/// A token file in which each name has the token `t-NAME` and reads what is said.
fn tokens(entries: &[(&str, &str)]) -> String {
    let entries = entries.iter();
    entries
        .map(|(name, read)| entry(name, &format!("t-{name}"), read, ""))
        .collect()
}

struct Served {
    server: Server,
    tokens: PathBuf,
    _folder: TempDir,
}

impl Served {
    /// Serves the tables `codes` and `wages`, and what is added, to those that the text of a token file names.
    async fn start(text: &str, add: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.toml");
        std::fs::write(&tokens, text).unwrap();
        let builder = Server::builder()
            .table("codes", table())
            .table("wages", table())
            .ticket_key(TicketKey::from_secret(&SECRET).unwrap())
            .authenticator(TokenFile::try_new(&tokens).unwrap());
        Self {
            server: add(builder)
                .listen("lightstream://127.0.0.1:0")
                .await
                .unwrap(),
            tokens,
            _folder: folder,
        }
    }

    fn dial(&self) -> RawClient {
        let url = self.server.url();
        let stream = TcpStream::connect(url.rsplit_once('/').unwrap().1).unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        stream.set_nodelay(true).unwrap();
        RawClient(stream)
    }

    /// A connection of the client whose token is `t-NAME`.
    fn known(&self, name: &str) -> RawClient {
        let mut client = self.dial();
        let answer = client.ask(hello(&format!("t-{name}")));
        assert!(matches!(answer.kind, response::Kind::Welcome(_)));
        client
    }
}

/// A client that writes and reads frames by hand.
struct RawClient(TcpStream);

/// All that was sent for one request.
struct Answer {
    kind: response::Kind,
    bytes: Vec<u8>,
    batches: usize,
}

impl Answer {
    /// The error that is the whole answer.
    fn error(self) -> messages::Error {
        match self.kind {
            response::Kind::Error(error) if self.batches == 0 => error,
            kind => panic!("{} batches and {kind:?}", self.batches),
        }
    }

    fn code(self) -> Code {
        self.error().code()
    }

    fn plan(self) -> messages::ScanPlan {
        match self.kind {
            response::Kind::ScanPlan(plan) => plan,
            kind => panic!("{kind:?}"),
        }
    }
}

impl RawClient {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn send(&mut self, request: &[u8]) {
        let header = Header::try_new(Tag::Request, request.len()).unwrap();
        self.write(&header.to_bytes());
        self.write(request);
    }

    /// What ends an answer, after whatever comes before it; `None` where the connection ends first.
    fn receive(&mut self) -> Option<Answer> {
        let (mut bytes, mut batches) = (Vec::new(), 0);
        loop {
            let mut head = [0; HEADER_BYTES];
            self.0.read_exact(&mut head).ok()?;
            let header = Header::parse(head, &DecodeLimits::default()).unwrap();
            let mut payload = vec![0; header.length as usize];
            self.0.read_exact(&mut payload).ok()?;
            bytes.extend_from_slice(&payload);
            if header.tag == Tag::Batch {
                batches += 1;
                continue;
            }
            match messages::Response::decode(payload.as_slice()).unwrap().kind {
                Some(response::Kind::Progress(_) | response::Kind::UnitEnd(_)) => {}
                Some(response::Kind::ScanPlan(plan)) if plan.inline => {}
                Some(kind) => {
                    return Some(Answer {
                        kind,
                        bytes,
                        batches,
                    });
                }
                None => panic!("an answer of no kind"),
            }
        }
    }

    fn ask(&mut self, kind: impl Into<Option<Kind>>) -> Answer {
        let request = messages::Request {
            kind: kind.into(),
            ..Default::default()
        };
        self.send(&request.encode_to_vec());
        self.receive().unwrap()
    }

    /// Whether the server answers.
    fn is_served(&mut self) -> bool {
        matches!(
            self.ask(Kind::Ping(messages::Ping {})).kind,
            response::Kind::Pong(_)
        )
    }
}

fn hello(token: &str) -> Kind {
    Kind::Hello(messages::Hello {
        versions: vec![VERSION],
        token: token.to_owned(),
        ..Default::default()
    })
}

fn list(prefix: &str, page_token: &str) -> Kind {
    Kind::ListTables(messages::ListTables {
        prefix: prefix.to_owned(),
        page_token: page_token.to_owned(),
    })
}

fn describe(name: &str) -> Kind {
    Kind::DescribeTable(messages::DescribeTable {
        name: name.to_owned(),
        ..Default::default()
    })
}

fn whole(table: &str) -> messages::ScanRequest {
    messages::ScanRequest {
        source: Some(Source::Table(table.to_owned())),
        ..Default::default()
    }
}

fn plan(request: messages::ScanRequest) -> Kind {
    Kind::Plan(messages::Plan {
        request: Some(request),
        inline_up_to_bytes: 0,
    })
}

fn read(ticket: &[u8], request: messages::ScanRequest) -> Kind {
    Kind::Read(messages::Read {
        ticket: ticket.to_vec(),
        request: Some(request),
        ..Default::default()
    })
}

fn renew(tickets: Vec<Vec<u8>>) -> Kind {
    Kind::Renew(messages::Renew { tickets })
}

fn release(ticket: &[u8]) -> Kind {
    Kind::Release(messages::Release {
        ticket: ticket.to_vec(),
    })
}
