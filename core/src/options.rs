//! Options of a client: typed, settable by name, each documented with the strings it accepts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::allowed_hosts::AllowedHosts;
use crate::error::{Error, Result};
use crate::protocol::ipc::Compression;
use crate::protocol::limits::{DecodeLimits, Validation};
use crate::secret::Secret;
use crate::trace::TraceContext;

/// When TLS is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// `off`: never.
    Off,
    /// `on`: always.
    On,
    /// `skip-verify`: always, without checking whom one talks to.
    SkipVerify,
}

/// Which checksums are sent with what goes over a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Checksums {
    /// `off`: none.
    #[default]
    Off,
    /// `crc32c`: a CRC-32C with every frame, both ways.
    Crc32c,
}

macro_rules! options {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $parse:ident;)*) => {
        /// What a client is told beyond the URL. Every option may be set by its name as a string, stand in the URL's
        /// query, or in an environment variable `LIGHTSTREAM_<NAME>`; what is set here goes before the URL, and the URL
        /// before the environment.
        ///
        /// ```
        /// use lightstream_core::Options;
        /// let options = Options::default().with("read_timeout", "5s")?.with("partitions", "4")?;
        /// assert_eq!(options.partitions, Some(4));
        /// assert!(options.with("partition", "4").unwrap_err().to_string().contains("partitions"));
        /// # Ok::<(), lightstream_core::Error>(())
        /// ```
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct Options {
            $($(#[$doc])* pub $field: Option<$type>,)*
        }

        impl Options {
            /// The names of all options.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Sets one option from a string.
            ///
            /// # Errors
            /// `invalid_argument` for a name that is no option (the nearest one is named) or a value it does not take.
            pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
                match name {
                    $(stringify!($field) => {
                        self.$field = Some($parse(value).map_err(|expected| {
                            let value = shown(name, value);
                            Error::invalid_argument(format!(
                                "option {name:?} does not take the value {value}: {expected}"
                            ))
                        })?);
                    })*
                    _ => return Err(unknown(name)),
                }
                Ok(())
            }

            /// These options, and from `fallback` those that are not set here.
            #[must_use]
            pub fn or(self, fallback: Options) -> Options {
                Options { $($field: self.$field.or(fallback.$field),)* }
            }
        }
    };
}

options! {
    /// Bearer token shown to the server. It is never printed.
    token: Secret = secret;
    /// File that holds the token, read when it is needed and again when the server refuses what was in it: a path.
    token_file: String = text;
    /// Name of a user, shown to the server with `password`.
    username: String = text;
    /// Password of the user that `username` names. It is never printed.
    password: Secret = secret;
    /// TLS: `off`, `on` or `skip-verify`. By default it is on unless the host is a loopback address.
    tls: TlsMode = tls_mode;
    /// Authorities that the server's certificate is checked against, instead of the system's: the path of a PEM file.
    tls_ca: String = text;
    /// Certificate to show to servers that want one: the path of a PEM file. It goes with `tls_key`.
    tls_cert: String = text;
    /// Private key of `tls_cert`: the path of a PEM file.
    tls_key: String = text;
    /// The name that the server's certificate must be for: a name or address. By default the host of the URL.
    tls_server_name: String = text;
    /// Longest wait for a connection, and for a provider of tokens: a duration. Default `10s`.
    connect_timeout: Duration = duration;
    /// Longest silence of a server while an answer is awaited: a duration. Default `60s`.
    read_timeout: Duration = duration;
    /// Longest time for a whole scan: a duration. No limit by default.
    timeout: Duration = duration;
    /// How often an attempt that failed in a retryable way is made again before something comes of it: a number. Default
    /// 3; 0 means one attempt.
    retries: u32 = number;
    /// Longest pause before the first retry, doubled before each further one up to a minute: a duration. Default `50ms`.
    /// Pauses are shortened by chance, by half at most, and longer where a busy server asks for more time. Another server
    /// that has the same rows is tried without a pause.
    retry_backoff: Duration = duration;
    /// Hosts that the server may send the client on to, for rows that other servers have too: host names, addresses, paths
    /// of sockets or patterns such as `*.example.org`, separated by commas. By default only the host of the URL, on any
    /// port; other places that a server names are left alone, and all is read from the server itself.
    allowed_hosts: AllowedHosts = hosts;
    /// A connection on which nothing goes is probed after so long, and given up where the other machine leaves three probes
    /// unanswered, which takes half as long again: a duration of at least a second. Default `60s`.
    keepalive: Duration = keepalive;
    /// Most partitions of a scan: a number. By default the engine or the server chooses.
    partitions: u32 = positive;
    /// Connections over which each partition is read: a number. By default one, and several for long partitions of a
    /// server on another machine.
    streams: u32 = positive;
    /// Plain mode (`arrow+tcp://` and its like): wait at the URL's address until so many writers have connected, instead of
    /// connecting to it: a number. By default the client connects.
    listen: u32 = positive;
    /// Bytes that each partition read over several connections is read ahead: a size. Default `16MiB`, or `4MiB` where
    /// the server is on this machine.
    prefetch_bytes: u64 = size;
    /// Rows that consumers in this process may hold, counted by the memory of their arrays, before readers with this option
    /// wait for some to be dropped: a size. It is soft, as whoever sorts holds all: where nothing is dropped for a while,
    /// more comes. No limit by default.
    memory_limit: u64 = size;
    /// Rows come in the table's order: `true` or `false`. Default `false`.
    ordered: bool = truth;
    /// Most rows in a batch: a number. By default the server chooses.
    batch_rows: u64 = positive;
    /// Frames are cut to about this size: a size. By default the server chooses.
    max_frame_bytes: u64 = size;
    /// What the compressed buffers of one frame may unfold to, together, before it is refused: a size. Default `8GiB`.
    max_decompressed_bytes: u64 = size;
    /// What is checked of the rows that come in: `full` or `trusted`. Default `full`; `trusted` leaves out the values of
    /// strings, dictionary keys and offsets, and is for servers that one would run code of.
    validate: Validation = validation;
    /// Plain mode: how the rows that are written are compressed, `none`, `lz4` or `zstd`. Default `none`. Who reads takes what
    /// comes.
    compression: Compression = compression;
    /// Checksums of everything that goes over a connection, both ways: `off` or `crc32c`. Default `off`. With `crc32c` a byte
    /// that is changed on the way is a failed attempt, which is made again, and never a wrong row. TLS does as much already.
    checksum: Checksums = checksums;
    /// The snapshot to read: its id. By default the newest.
    snapshot: String = text;
    /// Where the client's requests stand in a trace, for the server's spans and logs: a `traceparent` of W3C Trace Context. A
    /// program that records its own traces sets a [`Propagator`](crate::trace::Propagator) instead.
    traceparent: TraceContext = traceparent;
}

impl Options {
    /// The same options with one set from a string.
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn with(mut self, name: &str, value: &str) -> Result<Self> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Bounds on what comes in.
    pub(crate) fn decode_limits(&self) -> DecodeLimits {
        let default = DecodeLimits::default();
        DecodeLimits {
            decompressed_bytes: self
                .max_decompressed_bytes
                .unwrap_or(default.decompressed_bytes),
            validation: self.validate.unwrap_or_default(),
            ..default
        }
    }

    /// Refuses options that do not go together.
    ///
    /// # Errors
    /// `invalid_argument` that names them.
    pub(crate) fn check(&self) -> Result<()> {
        let together = |one: &str, other: &str| {
            Err(Error::invalid_argument(format!(
                "the options {one} and {other} go together: one of them is missing"
            )))
        };
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return together("tls_cert", "tls_key");
        }
        if self.username.is_some() != self.password.is_some() {
            return together("username", "password");
        }
        if self.username.is_some() && (self.token.is_some() || self.token_file.is_some()) {
            return Err(Error::invalid_argument(
                "there is a username and a token: a server takes one or the other",
            ));
        }
        Ok(())
    }

    /// Options from names and values.
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn from_map(values: &BTreeMap<String, String>) -> Result<Self> {
        values
            .iter()
            .try_fold(Self::default(), |options, (name, value)| {
                options.with(name, value)
            })
    }

    /// Options from the environment: `LIGHTSTREAM_READ_TIMEOUT` and so on.
    ///
    /// # Errors
    /// `invalid_argument` for a value that the option does not take.
    pub fn from_env() -> Result<Self> {
        let mut options = Self::default();
        for name in Self::NAMES {
            let variable = format!("LIGHTSTREAM_{}", name.to_uppercase());
            if let Ok(value) = std::env::var(&variable) {
                options
                    .set(name, &value)
                    .map_err(|error| error.context(format!("environment variable {variable}")))?;
            }
        }
        Ok(options)
    }
}

/// A value as errors show it.
fn shown(name: &str, value: &str) -> String {
    if name == "token" || name == "password" {
        "…".to_owned()
    } else {
        format!("{value:?}")
    }
}

fn unknown(name: &str) -> Error {
    let nearest = Options::NAMES
        .iter()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| *known)
        .unwrap_or_default();
    Error::invalid_argument(format!(
        "there is no option {name:?}; the nearest is {nearest:?}"
    ))
}

type Parsed<T> = std::result::Result<T, &'static str>;

fn tls_mode(value: &str) -> Parsed<TlsMode> {
    match value {
        "off" => Ok(TlsMode::Off),
        "on" => Ok(TlsMode::On),
        "skip-verify" => Ok(TlsMode::SkipVerify),
        _ => Err("expected off, on or skip-verify"),
    }
}

fn hosts(value: &str) -> Parsed<AllowedHosts> {
    AllowedHosts::parse(value)
}

fn checksums(value: &str) -> Parsed<Checksums> {
    match value {
        "off" => Ok(Checksums::Off),
        "crc32c" => Ok(Checksums::Crc32c),
        _ => Err("expected off or crc32c"),
    }
}

fn compression(value: &str) -> Parsed<Compression> {
    match value {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err("expected none, lz4 or zstd"),
    }
}

fn traceparent(value: &str) -> Parsed<TraceContext> {
    value.parse().map_err(|_| {
        "expected a traceparent such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    })
}

fn validation(value: &str) -> Parsed<Validation> {
    match value {
        "full" => Ok(Validation::Full),
        "trusted" => Ok(Validation::Trusted),
        _ => Err("expected full or trusted"),
    }
}

fn truth(value: &str) -> Parsed<bool> {
    match value {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("expected true or false"),
    }
}

fn text(value: &str) -> Parsed<String> {
    if value.is_empty() {
        Err("expected some text")
    } else {
        Ok(value.to_owned())
    }
}

fn keepalive(value: &str) -> Parsed<Duration> {
    // The system counts in whole seconds.
    duration(value)
        .ok()
        .filter(|&after| after >= Duration::from_secs(1))
        .ok_or("expected a duration such as 30s or 5m, of at least 1s")
}

fn secret(value: &str) -> Parsed<Secret> {
    text(value).map(Secret::new)
}

fn number<T: std::str::FromStr>(value: &str) -> Parsed<T> {
    value.parse().map_err(|_| "expected a whole number")
}

fn positive<T: std::str::FromStr + Default + PartialEq>(value: &str) -> Parsed<T> {
    match value.parse() {
        Ok(number) if number != T::default() => Ok(number),
        _ => Err("expected a whole number above 0"),
    }
}

/// Splits `64MiB` into number and unit.
fn quantity(value: &str) -> Option<(f64, &str)> {
    let digits = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    number.parse().ok().map(|number| (number, unit.trim()))
}

/// Reads a duration such as `250ms`, `5s`, `1.5m` or `2h`.
///
/// # Errors
/// A sentence that says what was expected.
pub fn duration(value: &str) -> Parsed<Duration> {
    const EXPECTED: &str = "expected a duration such as 250ms, 5s, 2m or 1h, above 0";
    let (number, unit) = quantity(value).ok_or(EXPECTED)?;
    let unit_seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(EXPECTED),
    };
    match Duration::try_from_secs_f64(number * unit_seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(EXPECTED),
    }
}

/// Reads a size such as `4096`, `64KiB`, `8MiB`, `1.5GiB` or `10MB`, in bytes.
///
/// # Errors
/// A sentence that says what was expected.
pub fn size(value: &str) -> Parsed<u64> {
    const EXPECTED: &str = "expected a size such as 4096, 64KiB, 8MiB or 10MB, above 0";
    let (number, unit) = quantity(value).ok_or(EXPECTED)?;
    let unit_bytes = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(EXPECTED),
    };
    let bytes = (number * unit_bytes).round();
    // Up to 2^53 every whole number is exact.
    if (1.0..=9_007_199_254_740_992.0).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(EXPECTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("10MB"), Ok(10_000_000));
        for bad in ["", "s", "5", "-5s", "5 parsecs", "0s", "nan", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["", "MiB", "0", "-1", "5QiB", "99999999999999999999GiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bad_names_and_values_are_refused_by_name() {
        let error = Options::default()
            .with("read_timout", "5s")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("read_timout") && error.contains("\"read_timeout\""),
            "{error}"
        );
        let error = Options::default()
            .with("read_timeout", "soon")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("read_timeout") && error.contains("soon"),
            "{error}"
        );
        assert!(Options::default().with("partitions", "0").is_err());
    }

    #[test]
    fn what_is_set_goes_before_the_fallback() {
        let first = Options::default().with("retries", "0").unwrap();
        let second = Options::default()
            .with("retries", "5")
            .unwrap()
            .with("ordered", "true")
            .unwrap();
        let both = first.or(second);
        assert_eq!((both.retries, both.ordered), (Some(0), Some(true)));
    }
}
