//! Tickets: what a partition is, sealed with a MAC so that none can be forged. Sealing is not encryption.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use prost::Message;
use sha2::Sha256;

use super::messages::TicketBody;
use crate::error::{Error, Result};

const MAC_BYTES: usize = 32;
const DOMAIN: &[u8] = b"lightstream ticket 1\0";

/// The key that seals tickets. Servers that share it accept each other's.
#[derive(Clone)]
pub struct TicketKey([u8; 32]);

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(…)")
    }
}

/// What a ticket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Digest of the scan request that was planned.
    pub request_digest: [u8; 32],
    /// The snapshot that is read; empty where it does not outlive the plan.
    pub snapshot: String,
    /// Index of the partition.
    pub partition: u64,
    /// Whom the ticket was given to.
    pub subject: String,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_at_ms: u64,
}

impl TicketKey {
    /// A key of a single process.
    ///
    /// # Errors
    /// `internal` where the system gives no random bytes.
    pub fn random() -> Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| {
            Error::internal(format!("no random bytes for a ticket key: {error}"))
        })?;
        Ok(Self(key))
    }

    /// A key made from a secret, which must hold at least 32 bytes.
    ///
    /// # Errors
    /// `invalid_argument` where the secret is shorter.
    pub fn from_secret(secret: &[u8]) -> Result<Self> {
        use sha2::Digest;
        if secret.len() < 32 {
            return Err(Error::invalid_argument(format!(
                "a ticket key needs at least 32 bytes, this one has {}",
                secret.len()
            )));
        }
        Ok(Self(Sha256::digest(secret).into()))
    }

    fn mac(&self, body: &[u8]) -> Result<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|error| {
            Error::internal("a ticket key of a wrong length").with_source(error)
        })?;
        mac.update(DOMAIN);
        mac.update(body);
        Ok(mac)
    }

    /// Seals a ticket.
    ///
    /// # Errors
    /// Only `internal` ones.
    pub fn seal(&self, ticket: &Ticket) -> Result<Vec<u8>> {
        let body = TicketBody {
            request_digest: ticket.request_digest.to_vec(),
            snapshot: ticket.snapshot.clone(),
            partition: ticket.partition,
            subject: ticket.subject.clone(),
            expires_at_ms: ticket.expires_at_ms,
        };
        let mut sealed = body.encode_to_vec();
        let mac = self.mac(&sealed)?.finalize().into_bytes();
        sealed.extend_from_slice(&mac);
        Ok(sealed)
    }

    /// Opens a ticket that came from outside: checks its seal, then its subject and expiry.
    ///
    /// # Errors
    /// `permission_denied` where the seal is not of this key or the ticket is another's, `expired` after its time.
    pub fn open(&self, sealed: &[u8], subject: &str, now: SystemTime) -> Result<Ticket> {
        let forged = || Error::permission_denied("the ticket was not sealed by this server's key");
        let (body, mac) = sealed
            .split_at_checked(sealed.len().wrapping_sub(MAC_BYTES))
            .ok_or_else(forged)?;
        self.mac(body)?.verify_slice(mac).map_err(|_| forged())?;
        let body = TicketBody::decode(body).map_err(|error| forged().with_source(error))?;
        if body.subject != subject {
            return Err(Error::permission_denied(
                "the ticket was given to somebody else",
            ));
        }
        let now_ms = millis_since_epoch(now);
        if now_ms >= body.expires_at_ms {
            return Err(Error::expired(format!(
                "the ticket ended {} ms ago: plan the scan again, or renew tickets in time",
                now_ms - body.expires_at_ms
            )));
        }
        Ok(Ticket {
            request_digest: body
                .request_digest
                .as_slice()
                .try_into()
                .map_err(|_| forged())?,
            snapshot: body.snapshot,
            partition: body.partition,
            subject: body.subject,
            expires_at_ms: body.expires_at_ms,
        })
    }
}

/// When a ticket given now ends.
pub fn expiry_ms(now: SystemTime, lifetime: Duration) -> u64 {
    millis_since_epoch(now).saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX))
}

fn millis_since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn ticket() -> Ticket {
        Ticket {
            request_digest: [7; 32],
            snapshot: "s1".into(),
            partition: 3,
            subject: "ann".into(),
            expires_at_ms: expiry_ms(SystemTime::now(), Duration::from_secs(60)),
        }
    }

    #[test]
    fn a_sealed_ticket_opens_again() {
        let key = TicketKey::random().unwrap();
        let sealed = key.seal(&ticket()).unwrap();
        assert_eq!(
            key.open(&sealed, "ann", SystemTime::now()).unwrap(),
            ticket_at(&sealed, &key)
        );
        let error = key.open(&sealed, "bob", SystemTime::now()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        let later = SystemTime::now() + Duration::from_secs(61);
        assert_eq!(
            key.open(&sealed, "ann", later).unwrap_err().code(),
            ErrorCode::Expired
        );
    }

    fn ticket_at(sealed: &[u8], key: &TicketKey) -> Ticket {
        let opened = key.open(sealed, "ann", SystemTime::now()).unwrap();
        assert_eq!((opened.partition, opened.snapshot.as_str()), (3, "s1"));
        opened
    }

    #[test]
    fn no_changed_byte_goes_unseen() {
        let key = TicketKey::from_secret(&[1; 32]).unwrap();
        let sealed = key.seal(&ticket()).unwrap();
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert_eq!(
                key.open(&forged, "ann", SystemTime::now())
                    .unwrap_err()
                    .code(),
                ErrorCode::PermissionDenied
            );
            assert!(key.open(&sealed[..at], "ann", SystemTime::now()).is_err());
        }
        assert!(
            TicketKey::from_secret(&[2; 32])
                .unwrap()
                .open(&sealed, "ann", SystemTime::now())
                .is_err()
        );
        assert!(TicketKey::from_secret(&[1; 31]).is_err());
    }
}
