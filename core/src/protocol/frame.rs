//! Frames: `[tag: u8][length: u32 little-endian][payload]`.

use super::limits::DecodeLimits;
use crate::error::{Error, Result};

/// Bytes in front of each payload.
pub const HEADER_BYTES: usize = 5;

/// What a frame holds. The numbers are the order in which the types are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A request, from client to server.
    Request = 0,
    /// A response, from server to client.
    Response = 1,
    /// A table payload: encapsulated Arrow IPC messages.
    Batch = 2,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the frame holds.
    pub tag: Tag,
    /// Length of the payload in bytes.
    pub length: u32,
}

impl Header {
    /// The head of a payload of this many bytes.
    ///
    /// # Errors
    /// `resource_exhausted` where the payload is 4 GiB or more.
    pub fn try_new(tag: Tag, payload_bytes: usize) -> Result<Self> {
        let length = u32::try_from(payload_bytes).map_err(|_| {
            Error::resource_exhausted(format!(
                "a frame of {payload_bytes} bytes cannot be sent: the largest holds {} bytes",
                u32::MAX
            ))
        })?;
        Ok(Self { tag, length })
    }

    /// The head as it travels.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = self.length.to_le_bytes();
        [self.tag as u8, a, b, c, d]
    }

    /// Reads a head and checks its length against the limits of what it holds.
    ///
    /// # Errors
    /// `data_loss` for an unknown tag, `resource_exhausted` for a payload beyond the limits.
    pub fn parse(bytes: [u8; HEADER_BYTES], limits: &DecodeLimits) -> Result<Self> {
        let [tag, a, b, c, d] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        let (tag, most) = match tag {
            0 => (Tag::Request, limits.message_bytes),
            1 => (Tag::Response, limits.message_bytes),
            2 => (Tag::Batch, limits.frame_bytes),
            other => {
                return Err(Error::data_loss(format!(
                    "a frame starts with the unknown tag {other}: the peer does not speak the Lightstream Query service"
                )));
            }
        };
        if u64::from(length) > most {
            return Err(Error::resource_exhausted(format!(
                "a frame announces {length} bytes of {tag:?}, more than the {most} that are accepted"
            )));
        }
        Ok(Self { tag, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_the_wire() {
        for tag in [Tag::Request, Tag::Response, Tag::Batch] {
            let header = Header::try_new(tag, 0x01_02_03).unwrap();
            assert_eq!(header.to_bytes()[1..], [3, 2, 1, 0]);
            assert_eq!(
                Header::parse(header.to_bytes(), &DecodeLimits::default()).unwrap(),
                header
            );
        }
    }

    #[test]
    fn lengths_and_tags_out_of_bounds_are_refused() {
        let limits = DecodeLimits {
            message_bytes: 10,
            ..DecodeLimits::default()
        };
        assert!(Header::parse([1, 10, 0, 0, 0], &limits).is_ok());
        assert!(Header::parse([1, 11, 0, 0, 0], &limits).is_err());
        assert!(Header::parse([3, 0, 0, 0, 0], &limits).is_err());
        if let Ok(bytes) = usize::try_from(1_u64 << 32) {
            assert!(Header::try_new(Tag::Batch, bytes).is_err());
        }
    }
}
