//! A bound on the pieces of a message, before it is decoded: each field, however short, takes tens of bytes of memory.
//!
//! Decodes nothing, and leaves it to the decoder to say what is malformed.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::{Error, Result};

/// Most bytes of a message beside its bulk, which takes no more memory than it has bytes.
const MOST_BYTES: usize = 4 << 20;

/// Where the bulk of requests lies, constants and tickets, as numbers of fields from the request down.
const OF_REQUESTS: [&[u32]; 3] = [
    // plan, request, filter, literals
    &[5, 1, 4, 3],
    // read, request, filter, literals
    &[6, 2, 4, 3],
    // renew, tickets
    &[7, 1],
];

/// Where the bulk of responses lies: names, schemas, bounds, tickets and places.
const OF_RESPONSES: [&[u32]; 8] = [
    // tables, tables, name
    &[3, 1, 1],
    // table_info, schema
    &[4, 3],
    // table_info, statistics, bounds
    &[4, 5, 4],
    // scan_plan, schema
    &[5, 2],
    // scan_plan, statistics, bounds
    &[5, 4, 4],
    // scan_plan, partitions, ticket
    &[5, 6, 1],
    // scan_plan, partitions, locations
    &[5, 6, 2],
    // renewed, tickets
    &[9, 1],
];

/// Refuses a request of more pieces than any needs.
///
/// # Errors
/// `resource_exhausted`.
pub(crate) fn check_request(request: &[u8]) -> Result<()> {
    check("a request", request, &OF_REQUESTS)
}

/// Refuses a response of more pieces than any needs.
///
/// # Errors
/// `resource_exhausted`.
pub(crate) fn check_response(response: &[u8]) -> Result<()> {
    check("a response", response, &OF_RESPONSES)
}

fn check(what: &str, message: &[u8], bulk: &[&[u32]]) -> Result<()> {
    if message.len() <= MOST_BYTES {
        return Ok(());
    }
    let bulk: usize = bulk.iter().map(|path| bytes_at(message, path)).sum();
    let rest = message.len().saturating_sub(bulk);
    if rest > MOST_BYTES {
        return Err(Error::resource_exhausted(format!(
            "{what} has {rest} bytes in small pieces, more than the {MOST_BYTES} that are accepted"
        )));
    }
    Ok(())
}

/// How many bytes lie in the fields at the end of a path.
fn bytes_at(message: &[u8], path: &[u32]) -> usize {
    match path {
        [] => message.len(),
        [number, path @ ..] => fields(message, *number)
            .map(|field| bytes_at(field, path))
            .sum(),
    }
}

/// The fields of that number that have a length, up to where the message is malformed.
fn fields(message: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    let mut rest = message;
    std::iter::from_fn(move || {
        loop {
            let (number, kind) = decode_key(&mut rest).ok()?;
            if kind != WireType::LengthDelimited {
                skip_field(kind, number, &mut rest, DecodeContext::default()).ok()?;
                continue;
            }
            let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
            let (field, after) = rest.split_at_checked(length)?;
            rest = after;
            if number == wanted {
                return Some(field);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::ErrorCode;
    use crate::protocol::messages::{self, request::Kind};

    const MANY: usize = MOST_BYTES + 1;

    fn check(kind: Kind) -> Result<()> {
        let request = messages::Request {
            timeout_ms: 7,
            kind: Some(kind),
            ..Default::default()
        };
        check_request(&request.encode_to_vec())
    }

    fn request(filter: messages::Filter) -> Option<messages::ScanRequest> {
        Some(messages::ScanRequest {
            filter: Some(filter),
            ordered: true,
            ..Default::default()
        })
    }

    #[test]
    fn constants_and_tickets_may_be_long_and_all_else_may_not() {
        let constants = messages::Filter {
            float_rule: 3,
            literals: vec![1; MANY],
            ..Default::default()
        };
        let pieces = messages::Filter {
            conjuncts: vec![messages::Expr::default(); MANY / 2],
            ..constants.clone()
        };
        for (filter, is_accepted) in [(constants, true), (pieces, false)] {
            let request = request(filter);
            let plan = Kind::Plan(messages::Plan {
                request: request.clone(),
                ..Default::default()
            });
            let read = Kind::Read(messages::Read {
                ticket: vec![1; 100],
                request,
                ..Default::default()
            });
            assert_eq!(check(plan).is_ok(), is_accepted);
            assert_eq!(check(read).is_ok(), is_accepted);
        }
        let renew = |tickets| check(Kind::Renew(messages::Renew { tickets }));
        assert!(renew(vec![vec![1; 100]; MANY / 100]).is_ok());
        let error = renew(vec![Vec::new(); MANY / 2]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    }

    /// Every kind of response with much in one place: whether it is accepted.
    #[test]
    fn schemas_tickets_and_names_may_be_long_and_there_may_not_be_many() {
        use messages::response::Kind;
        let long = || vec![1; MANY];
        let is_accepted = |kind: Kind| {
            let response = messages::Response { kind: Some(kind) };
            check_response(&response.encode_to_vec()).is_ok()
        };
        let statistics = |bounds| {
            Some(messages::Statistics {
                bounds,
                ..Default::default()
            })
        };
        let tables = |count, name: String| {
            let entry = messages::TableEntry {
                name,
                ..Default::default()
            };
            is_accepted(Kind::Tables(messages::Tables {
                tables: vec![entry; count],
                ..Default::default()
            }))
        };
        assert!(tables(MANY / 100, "n".repeat(100)));
        assert!(!tables(MANY / 2, String::new()));
        assert!(is_accepted(Kind::TableInfo(messages::TableInfo {
            schema: long(),
            statistics: statistics(long()),
            ..Default::default()
        })));
        assert!(!is_accepted(Kind::TableInfo(messages::TableInfo {
            ordering: vec![messages::SortColumn::default(); MANY / 2],
            ..Default::default()
        })));
        let plan = |partition: messages::Partition, count| messages::ScanPlan {
            partitions: vec![partition; count],
            ..Default::default()
        };
        let partition = messages::Partition {
            ticket: vec![1; 200],
            locations: vec!["lightstream://host:1".to_owned(); 2],
            ..Default::default()
        };
        assert!(is_accepted(Kind::ScanPlan(messages::ScanPlan {
            schema: long(),
            statistics: statistics(long()),
            ..plan(partition, MANY / 100)
        })));
        assert!(!is_accepted(Kind::ScanPlan(plan(
            messages::Partition::default(),
            MANY / 2
        ))));
        let renewed = |ticket, count| {
            is_accepted(Kind::Renewed(messages::Renewed {
                tickets: vec![ticket; count],
                ..Default::default()
            }))
        };
        assert!(renewed(vec![1; 200], MANY / 100));
        assert!(!renewed(Vec::new(), MANY / 2));
        assert!(!is_accepted(Kind::Error(messages::Error {
            message: "n".repeat(MANY),
            ..Default::default()
        })));
    }

    #[test]
    fn malformed_bytes_are_pieces() {
        for byte in [0, 0x2a, 0x2b, 0x7f, 0xff] {
            for check in [check_request, check_response] {
                assert!(check(&vec![byte; MANY]).is_err(), "{byte}");
                assert!(check(&vec![byte; MOST_BYTES]).is_ok(), "{byte}");
            }
        }
    }
}
