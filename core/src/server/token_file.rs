//! Who may connect, and what they may see, from a file.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::authenticate::{Authenticator, Credentials, Identity};
use super::grants::{Grants, TableNames};
use crate::error::{Error, Result};
use crate::watched::Watched;

/// Tokens, passwords and certificates that are known, from a TOML file:
///
/// ```toml
/// [[token]]
/// name = "reports"                      # who shows it; with a username this is it, and the token the password
/// sha256 = "…"                          # the SHA-256 of the token, in hexadecimal
/// read = ["sales.*", "codes"]           # the tables that may be seen
/// write = []
/// expires = "2030-01-01T00:00:00Z"      # optional
///
/// [[certificate]]
/// subject = "CN=reports,O=Example"      # the subject of a client's certificate, as RFC 4514 writes it
/// read = ["*"]
/// ```
///
/// The file is read again when it has changed; where it cannot be used then, what was in force stays so.
#[derive(Debug)]
pub struct TokenFile(Watched<Entries>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<TokenEntry>,
    #[serde(default)]
    certificate: Vec<CertificateEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    sha256: String,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    expires: Option<Expiry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateEntry {
    subject: String,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    expires: Option<Expiry>,
}

/// A moment, as text or as TOML's own kind.
#[derive(Deserialize)]
#[serde(untagged)]
enum Expiry {
    Text(String),
    Moment(toml::value::Datetime),
}

/// What shows who a client is.
enum Proof {
    Token([u8; 32]),
    Certificate,
}

struct Entry {
    name: String,
    proof: Proof,
    grants: Grants,
    expires: Option<SystemTime>,
    /// The moment as it was written.
    expires_text: String,
}

struct Entries(Vec<Entry>);

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// `not_found` where there is none, `invalid_argument` where it says what is not understood.
    pub fn try_new(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        Watched::try_new(vec![path.clone()], move || load(&path)).map(Self)
    }
}

impl Authenticator for TokenFile {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials) -> BoxFuture<'a, Result<Identity>> {
        async move { self.0.current().0.identity(credentials, SystemTime::now()) }.boxed()
    }

    fn version(&self) -> u64 {
        self.0.current().1
    }

    fn reload(&self) -> Result<()> {
        self.0.reload()
    }
}

impl Entries {
    fn identity(&self, credentials: &Credentials, now: SystemTime) -> Result<Identity> {
        let entry = match &credentials.token {
            Some(token) => {
                let shown: [u8; 32] = Sha256::digest(token.expose().as_bytes()).into();
                self.by_token(&shown, credentials.username.as_deref())
            }
            None => credentials.certificate.as_deref().and_then(|subject| {
                self.0.iter().find(|entry| {
                    matches!(entry.proof, Proof::Certificate) && entry.name == subject
                })
            }),
        };
        let Some(entry) = entry else {
            return Err(match (&credentials.token, &credentials.username) {
                (Some(_), Some(_)) => Error::unauthenticated("user name or password are wrong"),
                (Some(_), None) => Error::unauthenticated("the token is not known"),
                (None, _) => Error::unauthenticated(
                    "this server wants a token (option token or token_file), and none was shown",
                ),
            });
        };
        if entry.expires.is_some_and(|expires| expires <= now) {
            return Err(Error::unauthenticated(format!(
                "the token of {:?} has expired at {}",
                entry.name, entry.expires_text
            )));
        }
        Ok(Identity {
            subject: entry.name.clone(),
            expires: entry.expires,
            grants: Some(entry.grants.clone()),
        })
    }

    /// The entry of a token. How long this takes does not tell how much of a hash is right.
    fn by_token(&self, shown: &[u8; 32], username: Option<&str>) -> Option<&Entry> {
        let mut found = None;
        for entry in &self.0 {
            if let Proof::Token(known) = &entry.proof {
                let is_same = bool::from(known.ct_eq(shown));
                if is_same && username.is_none_or(|name| name == entry.name) {
                    found = Some(entry);
                }
            }
        }
        found
    }
}

fn load(path: &Path) -> Result<Entries> {
    let refused = |why: String| {
        Error::invalid_argument(format!("the token file {path:?} cannot be used: {why}"))
    };
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("there is no token file {path:?}"))
        }
        _ => refused(error.to_string()),
    })?;
    parse(&text).map_err(refused)
}

fn parse(text: &str) -> Result<Entries, String> {
    // What is wrong is told without the line it stands in, which might hold a secret.
    let file: File = toml::from_str(text).map_err(|error| match error.span() {
        Some(span) => {
            let line = text
                .get(..span.start)
                .map_or(0, |head| head.lines().count().max(1));
            format!("{} (near line {line})", error.message())
        }
        None => error.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    for entry in file.token {
        let proof = Proof::Token(hash(&entry.sha256).ok_or_else(|| {
            format!(
                "the sha256 of {:?} is not the 64 hexadecimal digits of a SHA-256",
                entry.name
            )
        })?);
        entries.push(made(
            entry.name,
            proof,
            entry.read,
            entry.write,
            entry.expires,
        )?);
    }
    for entry in file.certificate {
        let proof = Proof::Certificate;
        entries.push(made(
            entry.subject,
            proof,
            entry.read,
            entry.write,
            entry.expires,
        )?);
    }
    Ok(Entries(entries))
}

fn made(
    name: String,
    proof: Proof,
    read: Vec<String>,
    write: Vec<String>,
    expires: Option<Expiry>,
) -> Result<Entry, String> {
    if name.is_empty() {
        return Err("there is an entry with an empty name".to_owned());
    }
    let names = |patterns: Vec<String>| {
        TableNames::matching(patterns).map_err(|error| format!("of {name:?}: {error}"))
    };
    let grants = Grants {
        read: names(read)?,
        write: names(write)?,
    };
    let expires_text = match expires {
        None => String::new(),
        Some(Expiry::Text(text)) => text,
        Some(Expiry::Moment(moment)) => moment.to_string(),
    };
    let expires = if expires_text.is_empty() {
        None
    } else {
        let moment = chrono::DateTime::parse_from_rfc3339(&expires_text).map_err(|_| {
            format!(
                "the expiry {expires_text:?} of {name:?} is no moment such as 2030-01-01T00:00:00Z"
            )
        })?;
        Some(SystemTime::from(moment))
    };
    Ok(Entry {
        name,
        proof,
        grants,
        expires,
        expires_text,
    })
}

/// A SHA-256 from its hexadecimal digits.
fn hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}
