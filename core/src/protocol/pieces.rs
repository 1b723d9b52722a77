//! A bound on the pieces of a request, before it is decoded: each field, however short, takes tens of bytes of memory.
//!
//! Decodes nothing, and leaves it to the decoder to say what is malformed.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::{Error, Result};

/// Most bytes of a request beside its constants and tickets, which take no more memory than they have bytes.
const MOST_BYTES: usize = 4 << 20;

/// Where constants and tickets lie, as numbers of fields from the request down.
const BULK: [&[u32]; 3] = [
    // plan, request, filter, literals
    &[5, 1, 4, 3],
    // read, request, filter, literals
    &[6, 2, 4, 3],
    // renew, tickets
    &[7, 1],
];

/// Refuses a request of more pieces than any needs.
///
/// # Errors
/// `resource_exhausted`.
pub(crate) fn check_request(request: &[u8]) -> Result<()> {
    if request.len() <= MOST_BYTES {
        return Ok(());
    }
    let bulk: usize = BULK.iter().map(|path| bytes_at(request, path)).sum();
    let rest = request.len().saturating_sub(bulk);
    if rest > MOST_BYTES {
        return Err(Error::resource_exhausted(format!(
            "a request has {rest} bytes beside constants and tickets, more than the {MOST_BYTES} that are accepted"
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

    #[test]
    fn malformed_bytes_are_pieces() {
        for byte in [0, 0x2a, 0x2b, 0x7f, 0xff] {
            assert!(check_request(&vec![byte; MANY]).is_err(), "{byte}");
            assert!(check_request(&vec![byte; MOST_BYTES]).is_ok(), "{byte}");
        }
    }
}
