//! Tickets that are forged, altered, or another's.

use std::time::{Duration, SystemTime};

use lightstream_core::protocol::messages::error::Code;
use lightstream_core::protocol::messages::request::Kind;
use lightstream_core::protocol::messages::scan_request::Source;
use lightstream_core::protocol::messages::{self, response};
use lightstream_core::protocol::ticket::{Ticket, TicketKey, expiry_ms};

use super::{RawClient, SECRET, Served, plan, read, release, renew, tokens, whole};

fn ticket(client: &mut RawClient, table: &str) -> Vec<u8> {
    let planned = client.ask(plan(whole(table))).plan();
    planned.partitions[0].ticket.clone()
}

/// Everything that a ticket can be shown for.
fn uses(ticket: &[u8]) -> [Kind; 3] {
    [
        read(ticket, whole("wages")),
        renew(vec![ticket.to_vec()]),
        release(ticket),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_bit_of_a_ticket_may_be_another_and_no_byte_may_come_or_go() {
    let served = Served::start(&tokens(&[("ann", "\"*\"")]), |server| server).await;
    let mut ann = served.known("ann");
    let good = ticket(&mut ann, "wages");
    let flipped = (0..good.len() * 8).map(|bit| {
        let mut ticket = good.clone();
        ticket[bit / 8] ^= 1 << (bit % 8);
        ticket
    });
    let cut = (0..good.len()).flat_map(|at| [good[..at].to_vec(), good[at + 1..].to_vec()]);
    let longer = [[&good[..], &[0]].concat(), [&[0], &good[..]].concat()];
    let twice = [good.repeat(2), vec![0; 1 << 20]];
    for forged in flipped.chain(cut).chain(longer).chain(twice) {
        for kind in uses(&forged) {
            let code = ann.ask(kind.clone()).code();
            assert_eq!(code, Code::PermissionDenied, "{kind:?}");
        }
    }
    assert!(ann.ask(read(&good, whole("wages"))).batches > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_good_for_one_server_key_one_client_and_a_time() {
    let clients = tokens(&[("ann", "\"*\""), ("bob", "\"*\"")]);
    let served = Served::start(&clients, |server| server).await;
    let (mut ann, mut bob) = (served.known("ann"), served.known("bob"));
    let good = ticket(&mut ann, "wages");
    let key = TicketKey::from_secret(&SECRET).unwrap();
    let other_key = TicketKey::from_secret(&[8; 32]).unwrap();
    let content = key.open(&good, "ann", SystemTime::now()).unwrap();
    let of = |subject: &str| Ticket {
        subject: subject.to_owned(),
        ..content.clone()
    };
    let past = Ticket {
        expires_at_ms: expiry_ms(SystemTime::now() - Duration::from_millis(2), Duration::ZERO),
        ..content.clone()
    };
    for (ticket, code) in [
        (other_key.seal(&content).unwrap(), Code::PermissionDenied),
        (key.seal(&of("bob")).unwrap(), Code::PermissionDenied),
        (key.seal(&of("")).unwrap(), Code::PermissionDenied),
        (key.seal(&of("ann\0")).unwrap(), Code::PermissionDenied),
        (key.seal(&past).unwrap(), Code::Expired),
    ] {
        for kind in uses(&ticket) {
            assert_eq!(ann.ask(kind.clone()).code(), code, "{kind:?}");
        }
    }
    for kind in uses(&good) {
        assert_eq!(bob.ask(kind.clone()).code(), Code::PermissionDenied);
    }

    // Even with the server's key there are no rows but those of the scan.
    let beyond = Ticket {
        partition: u64::MAX,
        ..content.clone()
    };
    let never = Ticket {
        snapshot: "never".to_owned(),
        ..content.clone()
    };
    for (ticket, code) in [(beyond, Code::InvalidArgument), (never, Code::Expired)] {
        let ticket = key.seal(&ticket).unwrap();
        assert_eq!(ann.ask(read(&ticket, whole("wages"))).code(), code);
    }
    assert!(ann.ask(read(&good, whole("wages"))).batches > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_good_for_the_request_that_was_planned_and_no_other() {
    let served = Served::start(&tokens(&[("ann", "\"*\"")]), |server| server).await;
    let mut ann = served.known("ann");
    let good = ticket(&mut ann, "wages");
    let wages = || whole("wages");
    let changed = [
        messages::ScanRequest::default(),
        whole("codes"),
        messages::ScanRequest {
            source: Some(Source::Sql("wages".to_owned())),
            ..wages()
        },
        messages::ScanRequest {
            projection: Some(messages::Projection::default()),
            ..wages()
        },
        messages::ScanRequest {
            filter: Some(messages::Filter::default()),
            ..wages()
        },
        messages::ScanRequest {
            limit: Some(0),
            ..wages()
        },
        messages::ScanRequest {
            snapshot: "x".to_owned(),
            ..wages()
        },
        messages::ScanRequest {
            max_partitions: 1,
            ..wages()
        },
        messages::ScanRequest {
            ordered: true,
            ..wages()
        },
    ];
    for request in changed {
        let code = ann.ask(read(&good, request.clone())).code();
        assert_eq!(code, Code::InvalidArgument, "{request:?}");
    }
    let nothing = Kind::Read(messages::Read {
        ticket: good.clone(),
        ..Default::default()
    });
    assert_eq!(ann.ask(nothing).code(), Code::InvalidArgument);
    assert!(ann.ask(read(&good, wages())).batches > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_renewed_after_its_grant_has_ended_gives_no_rows() {
    let served = Served::start(&tokens(&[("ann", "\"*\"")]), |server| server).await;
    let mut ann = served.known("ann");
    let mut good = ticket(&mut ann, "wages");
    std::fs::write(&served.tokens, tokens(&[("ann", "\"codes\"")])).unwrap();
    served.server.reload().unwrap();
    for _ in 0..2 {
        let code = ann.ask(read(&good, whole("wages"))).code();
        assert_eq!(code, Code::PermissionDenied);
        if let response::Kind::Renewed(renewed) = ann.ask(renew(vec![good.clone()])).kind {
            good = renewed.tickets[0].clone();
        }
    }
}
