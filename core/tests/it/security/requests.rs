//! Clients that have not shown who they are.

use lightstream_core::protocol::messages::error::Code;
use lightstream_core::protocol::messages::request::Kind;
use lightstream_core::protocol::messages::{self, response};
use prost::Message;
use prost::encoding::{WireType, encode_key};

use super::{Served, describe, hello, list, plan, read, release, renew, tokens, whole};
use crate::grants::entry;

/// A request of each kind that there is, about the table `wages`. A new kind must say here how it is asked.
fn every_kind(token: &str, ticket: &[u8]) -> Vec<Kind> {
    let empty = (1..1000).filter_map(|number| {
        let mut bytes = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut bytes);
        bytes.push(0);
        messages::Request::decode(bytes.as_slice()).ok()?.kind
    });
    let kinds: Vec<_> = empty
        .map(|kind| match kind {
            Kind::Hello(_) => hello(token),
            Kind::ListTables(_) => list("", ""),
            Kind::DescribeTable(_) => describe("wages"),
            Kind::Plan(_) => Kind::Plan(messages::Plan {
                request: Some(whole("wages")),
                inline_up_to_bytes: 1 << 20,
            }),
            Kind::Read(_) => read(ticket, whole("wages")),
            Kind::Renew(_) => renew(vec![ticket.to_vec()]),
            Kind::Release(_) => release(ticket),
            Kind::Ping(_) => Kind::Ping(messages::Ping {}),
            Kind::Cancel(_) => Kind::Cancel(messages::Cancel {}),
        })
        .collect();
    assert!(kinds.len() >= 9, "{kinds:?}");
    kinds
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|window| window == word.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_answered_before_it_is_known_whose_it_is() {
    let expired = entry("old", "t-old", "\"*\"", "expires = 2020-01-01T00:00:00Z");
    let served = Served::start(&(tokens(&[("ann", "\"*\"")]) + &expired), |server| server).await;
    let planned = served.known("ann").ask(plan(whole("wages"))).plan();
    let ticket = &planned.partitions[0].ticket;

    for token in ["", "wrong", "t-old", "T-ann"] {
        let mut stranger = served.dial();
        let kinds = every_kind(token, ticket);
        let (greetings, others): (Vec<_>, Vec<_>) = kinds
            .into_iter()
            .partition(|kind| matches!(kind, Kind::Hello(_)));
        let before = others.iter().cloned().map(Some).chain([None]);
        let after = greetings.into_iter().chain(others.clone()).map(Some);
        for kind in before.chain(after).chain([None]) {
            let answer = stranger.ask(kind.clone());
            for word in ["wages", "codes", "salary", "ann", &planned.snapshot] {
                assert!(!contains(&answer.bytes, word), "{word} for {kind:?}");
            }
            assert_eq!(answer.code(), Code::Unauthenticated, "{token:?}: {kind:?}");
        }
    }

    let mut ann = served.dial();
    for kind in every_kind("t-ann", ticket) {
        let answer = ann.ask(kind.clone());
        let is_error = matches!(answer.kind, response::Kind::Error(_));
        assert!(!is_error, "{kind:?}: {:?}", answer.kind);
    }
    assert_eq!(ann.ask(None).code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_shows_wrong_credentials_is_no_longer_known_by_those_before() {
    let text = tokens(&[("ann", "\"*\"")]);
    let served = Served::start(&text, |server| server).await;
    let mut client = served.known("ann");
    assert!(client.is_served());
    assert_eq!(client.ask(hello("wrong")).code(), Code::Unauthenticated);
    assert_eq!(client.ask(list("", "")).code(), Code::Unauthenticated);

    // Nor once everybody is looked at again.
    std::fs::write(&served.tokens, text + &tokens(&[("bob", "")])).unwrap();
    served.server.reload().unwrap();
    assert_eq!(client.ask(list("", "")).code(), Code::Unauthenticated);
    let long = "x".repeat(100_000);
    assert_eq!(client.ask(hello(&long)).code(), Code::ResourceExhausted);
    assert!(served.known("ann").is_served());
}
