//! Checked frames: `[tag | 0x80][length: u32][CRC-32C of the payload: u32][CRC-32C of the nine bytes before: u32][payload]`,
//! numbers little-endian.
//!
//! A peer that sends its first frame checked checks every frame, and wants every answer checked. Others never see one.

use super::frame::{HEADER_BYTES, Header};
use super::limits::DecodeLimits;
use crate::error::{Error, Result};

/// The bit that marks the tag of a checked frame.
const MARK: u8 = 0x80;

/// Bytes in front of a checked payload.
pub(crate) const CHECKED_HEADER_BYTES: usize = HEADER_BYTES + 8;

/// What a peer calls the ability to check frames.
pub(crate) const FEATURE: &str = "crc32c";

/// Whether a frame that starts with this byte is a checked one.
pub(crate) fn is_checked(first: u8) -> bool {
    first & MARK != 0
}

/// The head of a checked frame as it travels.
pub(crate) fn checked_head(header: Header, payload: Checksum) -> [u8; CHECKED_HEADER_BYTES] {
    let [tag, l0, l1, l2, l3] = header.to_bytes();
    let [p0, p1, p2, p3] = payload.0.to_le_bytes();
    let head = [tag | MARK, l0, l1, l2, l3, p0, p1, p2, p3];
    let [h0, h1, h2, h3] = crc32c::crc32c(&head).to_le_bytes();
    [tag | MARK, l0, l1, l2, l3, p0, p1, p2, p3, h0, h1, h2, h3]
}

/// Reads the head of a checked frame, and the checksum that its payload must have.
///
/// # Errors
/// A retryable `data_loss` where the head was changed on the way, and those of [`Header::parse`].
pub(crate) fn parse_checked_head(
    bytes: [u8; CHECKED_HEADER_BYTES],
    limits: &DecodeLimits,
) -> Result<(Header, Checksum)> {
    let [tag, l0, l1, l2, l3, p0, p1, p2, p3, h0, h1, h2, h3] = bytes;
    let head = [tag, l0, l1, l2, l3, p0, p1, p2, p3];
    if crc32c::crc32c(&head) != u32::from_le_bytes([h0, h1, h2, h3]) {
        return Err(changed("the head of a frame"));
    }
    let header = Header::parse([tag & !MARK, l0, l1, l2, l3], limits)?;
    Ok((header, Checksum(u32::from_le_bytes([p0, p1, p2, p3]))))
}

/// The error for bytes that are not those that were sent.
pub(crate) fn changed(what: &str) -> Error {
    Error::data_loss(format!(
        "{what} does not have its checksum: it was changed on the way"
    ))
    .with_retryable(true)
}

/// The error for a frame that is not checked where all are.
pub(crate) fn missing() -> Error {
    Error::data_loss(
        "a frame came without a checksum where all must have one: it was changed on the way, or the server does not know the option checksum",
    )
    .with_retryable(true)
}

/// The checksum of bytes, as far as they have been seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Checksum(u32);

impl Checksum {
    /// The checksum of what was seen before and these bytes.
    #[must_use]
    pub(crate) fn and(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use crate::protocol::frame::Tag;

    #[test]
    fn the_checksum_is_the_usual_one() {
        // The check value of CRC-32C.
        assert_eq!(
            Checksum::default().and(b"12345").and(b"6789"),
            Checksum(0xe306_9283)
        );
    }

    #[test]
    fn heads_survive_the_wire_and_no_changed_bit_goes_unseen() {
        let header = Header::try_new(Tag::Batch, 70_000).unwrap();
        let sum = Checksum::default().and(b"payload");
        let head = checked_head(header, sum);
        let limits = DecodeLimits::default();
        assert_eq!(parse_checked_head(head, &limits).unwrap(), (header, sum));
        for bit in 0..head.len() * 8 {
            let mut wrong = head;
            wrong[bit / 8] ^= 1 << (bit % 8);
            let error = parse_checked_head(wrong, &limits).unwrap_err();
            assert!(error.code() == ErrorCode::DataLoss && error.is_retryable());
        }
    }

    #[test]
    fn limits_hold() {
        let limits = DecodeLimits {
            frame_bytes: 10,
            ..DecodeLimits::default()
        };
        let header = Header::try_new(Tag::Batch, 11).unwrap();
        let error = parse_checked_head(checked_head(header, Checksum::default()), &limits);
        assert_eq!(error.unwrap_err().code(), ErrorCode::ResourceExhausted);
    }
}
