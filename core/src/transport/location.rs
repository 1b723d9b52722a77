//! Where a server or table is: every URL that Lightstream knows, taken apart.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, Result};

/// How a peer is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// `lightstream://`: TCP, with TLS unless the host is a loopback address or `tls` says otherwise.
    Lightstream,
    /// `lightstream+tcp://`
    Tcp,
    /// `lightstream+tls://`
    Tls,
    /// `lightstream+unix://`
    Unix,
    /// `lightstream+shm://`
    Shm,
    /// `lightstream+quic://`
    Quic,
    /// `lightstream+ws://`
    Ws,
    /// `lightstream+wss://`
    Wss,
    /// `lightstream+http2://`
    Http2,
    /// `lightstream+wt://`
    WebTransport,
    /// `lightstream+stdio:`
    Stdio,
    /// `arrow+tcp://`
    ArrowTcp,
    /// `arrow+tls://`
    ArrowTls,
    /// `arrow+unix://`
    ArrowUnix,
    /// `arrow+ws://`
    ArrowWs,
    /// `arrow+quic://`
    ArrowQuic,
    /// `arrow+http2://`
    ArrowHttp2,
    /// `arrow+stdio:`
    ArrowStdio,
    /// `flight://`, also `grpc://`
    Flight,
    /// `flight+tls://`, also `grpc+tls://`
    FlightTls,
    /// `flight+unix://`, also `grpc+unix://`
    FlightUnix,
}

/// What follows the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Hosts,
    Path,
    Command,
}

impl Scheme {
    const ALL: &'static [(&'static str, Scheme, Form)] = &[
        ("lightstream", Scheme::Lightstream, Form::Hosts),
        ("lightstream+tcp", Scheme::Tcp, Form::Hosts),
        ("lightstream+tls", Scheme::Tls, Form::Hosts),
        ("lightstream+unix", Scheme::Unix, Form::Path),
        ("lightstream+shm", Scheme::Shm, Form::Path),
        ("lightstream+quic", Scheme::Quic, Form::Hosts),
        ("lightstream+ws", Scheme::Ws, Form::Hosts),
        ("lightstream+wss", Scheme::Wss, Form::Hosts),
        ("lightstream+http2", Scheme::Http2, Form::Hosts),
        ("lightstream+wt", Scheme::WebTransport, Form::Hosts),
        ("lightstream+stdio", Scheme::Stdio, Form::Command),
        ("arrow+tcp", Scheme::ArrowTcp, Form::Hosts),
        ("arrow+tls", Scheme::ArrowTls, Form::Hosts),
        ("arrow+unix", Scheme::ArrowUnix, Form::Path),
        ("arrow+ws", Scheme::ArrowWs, Form::Hosts),
        ("arrow+quic", Scheme::ArrowQuic, Form::Hosts),
        ("arrow+http2", Scheme::ArrowHttp2, Form::Hosts),
        ("arrow+stdio", Scheme::ArrowStdio, Form::Command),
        ("flight", Scheme::Flight, Form::Hosts),
        ("flight+tls", Scheme::FlightTls, Form::Hosts),
        ("flight+unix", Scheme::FlightUnix, Form::Path),
        ("grpc", Scheme::Flight, Form::Hosts),
        ("grpc+tls", Scheme::FlightTls, Form::Hosts),
        ("grpc+unix", Scheme::FlightUnix, Form::Path),
    ];

    fn parse(name: &str) -> Result<(Scheme, Form)> {
        if let Some(&(_, scheme, form)) = Self::ALL.iter().find(|(known, ..)| *known == name) {
            return Ok((scheme, form));
        }
        let nearest = Self::ALL
            .iter()
            .map(|(known, ..)| (strsim::jaro_winkler(known, name), *known))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, known)| known)
            .unwrap_or_default();
        Err(Error::invalid_argument(format!(
            "there is no URL scheme {name:?}; the nearest is {nearest:?}"
        )))
    }

    /// The scheme's name in a URL.
    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, scheme, _)| *scheme == self)
            .map(|(name, ..)| *name)
            .unwrap_or_default()
    }

    /// Whether what is spoken there are bare Arrow IPC streams.
    pub fn is_plain(self) -> bool {
        matches!(
            self,
            Scheme::ArrowTcp
                | Scheme::ArrowTls
                | Scheme::ArrowUnix
                | Scheme::ArrowWs
                | Scheme::ArrowQuic
                | Scheme::ArrowHttp2
                | Scheme::ArrowStdio
        )
    }

    /// The same transport, secured.
    pub(crate) fn secured(self) -> Scheme {
        if self.is_plain() {
            Scheme::ArrowTls
        } else {
            Scheme::Tls
        }
    }

    /// The feature that brings this scheme, where this build is without it.
    pub(crate) fn missing_feature(self) -> Option<&'static str> {
        match self {
            Scheme::Lightstream
            | Scheme::Tcp
            | Scheme::Tls
            | Scheme::Unix
            | Scheme::ArrowTcp
            | Scheme::ArrowTls
            | Scheme::ArrowUnix => None,
            Scheme::Shm => Some("shm"),
            Scheme::Quic | Scheme::ArrowQuic => Some("quic"),
            Scheme::Ws | Scheme::Wss | Scheme::ArrowWs => Some("websocket"),
            Scheme::Http2 | Scheme::ArrowHttp2 => Some("http2"),
            Scheme::WebTransport => Some("webtransport"),
            Scheme::Stdio | Scheme::ArrowStdio => Some("stdio"),
            Scheme::Flight | Scheme::FlightTls | Scheme::FlightUnix => Some("flight"),
        }
    }
}

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name or an address; IPv6 addresses without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Whether the host is this machine by name or address, without looking it up.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self
                .host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What follows the scheme in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// One or more hosts that hold the same data.
    Hosts(Vec<HostPort>),
    /// A socket in the file system.
    Path(PathBuf),
    /// A command whose standard input and output are the connection.
    Command(String),
}

/// Where a server is: scheme and address, without table and options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// How it is reached.
    pub scheme: Scheme,
    /// Where it is.
    pub address: Address,
}

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedUrl {
    /// Where the server is.
    pub location: Location,
    /// The table, decoded, where the URL names one.
    pub table: Option<String>,
    /// The options in the URL's query, in order.
    pub options: Vec<(String, String)>,
}

/// The port where a URL names none.
pub const DEFAULT_PORT: u16 = 7654;

const FLIGHT_PORT: u16 = 8815;

impl Location {
    /// Takes a URL apart. No host is looked up.
    ///
    /// # Errors
    /// `invalid_argument` that names the part that cannot be understood.
    pub fn parse(url: &str) -> Result<ParsedUrl> {
        let shown = without_secrets(url);
        let refused = |why: String| {
            Error::invalid_argument(format!("the URL {shown:?} cannot be understood: {why}"))
        };
        let (scheme, rest) = url.split_once(':').ok_or_else(|| {
            refused("it has no scheme, such as lightstream://host:7654/table".to_owned())
        })?;
        let (scheme, form) = Scheme::parse(scheme)?;
        let decode = |text: &str| -> Result<String> {
            percent_decode_str(text)
                .decode_utf8()
                .map(|text| text.into_owned())
                .map_err(|_| refused(format!("{text:?} is not percent-encoded UTF-8")))
        };
        let (rest, fragment) = match (form, rest.split_once('#')) {
            (Form::Hosts, Some(_)) => {
                return Err(refused(
                    "a table follows the host after a slash, not after #".to_owned(),
                ));
            }
            (_, Some((rest, fragment))) => (rest, Some(fragment)),
            (_, None) => (rest, None),
        };
        // A command may hold question marks of its own.
        let (rest, query) = match (form, rest.split_once('?')) {
            (Form::Hosts | Form::Path, Some((rest, query))) => (rest, Some(query)),
            _ => (rest, None),
        };
        let mut options = Vec::new();
        for pair in query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| refused(format!("the option {pair:?} has no value")))?;
            options.push((decode(name)?, decode(value)?));
        }
        let slashes = || {
            rest.strip_prefix("//")
                .ok_or_else(|| refused(format!("{}: is not followed by //", scheme.as_str())))
        };
        let (address, table) = match form {
            Form::Hosts => {
                let rest = slashes()?;
                let (hosts, table) = match rest.split_once('/') {
                    Some((hosts, table)) => (hosts, Some(table)),
                    None => (rest, None),
                };
                let default_port = match scheme {
                    Scheme::Flight | Scheme::FlightTls => FLIGHT_PORT,
                    _ => DEFAULT_PORT,
                };
                let hosts = hosts
                    .split(',')
                    .map(|host| parse_host(host, default_port).map_err(&refused))
                    .collect::<Result<Vec<_>>>()?;
                (Address::Hosts(hosts), table)
            }
            Form::Path => {
                let path = decode(slashes()?)?;
                if !path.starts_with('/') {
                    return Err(refused(
                        "the path of a socket must be absolute, as in unix:///run/x.sock"
                            .to_owned(),
                    ));
                }
                (Address::Path(PathBuf::from(path)), fragment)
            }
            Form::Command => {
                if rest.trim().is_empty() {
                    return Err(refused("it names no command".to_owned()));
                }
                (Address::Command(decode(rest)?), fragment)
            }
        };
        let table = table
            .filter(|table| !table.is_empty())
            .map(decode)
            .transpose()?;
        Ok(ParsedUrl {
            location: Location { scheme, address },
            table,
            options,
        })
    }

    /// The place that a URL names without table and options.
    ///
    /// # Errors
    /// `invalid_argument` as [`Location::parse`], and where the URL names more than a place.
    pub fn of_server(url: &str) -> Result<Location> {
        let parsed = Self::parse(url)?;
        if parsed.table.is_some() || !parsed.options.is_empty() {
            return Err(Error::invalid_argument(format!(
                "the URL {:?} names a table or options, not only a server",
                without_secrets(url)
            )));
        }
        Ok(parsed.location)
    }

    /// The URL of a table at this place.
    pub fn table_url(&self, table: &str) -> String {
        const ENCODED: &AsciiSet = &CONTROLS
            .add(b' ')
            .add(b'"')
            .add(b'#')
            .add(b'%')
            .add(b'<')
            .add(b'>')
            .add(b'?')
            .add(b'`')
            .add(b'/')
            .add(b'&');
        let table = utf8_percent_encode(table, ENCODED);
        match &self.address {
            Address::Hosts(_) => format!("{self}/{table}"),
            Address::Path(_) | Address::Command(_) => format!("{self}#{table}"),
        }
    }

    /// Whether nothing but this machine can take part.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Hosts(hosts) => hosts.iter().all(HostPort::is_loopback),
            Address::Path(_) | Address::Command(_) => true,
        }
    }
}

/// The URL as errors show it: without its query and without credentials.
fn without_secrets(url: &str) -> String {
    let shown = url.split('?').next().unwrap_or_default();
    match (shown.find("//"), shown.find('@')) {
        (Some(slashes), Some(at)) if slashes + 2 <= at => {
            format!("{}…{}", &shown[..slashes + 2], &shown[at..])
        }
        _ => shown.to_owned(),
    }
}

fn parse_host(text: &str, default_port: u16) -> std::result::Result<HostPort, String> {
    if text.contains('@') {
        return Err("credentials do not belong in a URL's host".to_owned());
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest
            .split_once(']')
            .ok_or_else(|| format!("{text:?} has no closing bracket"))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("{host:?} is not an IPv6 address"));
        }
        (
            host,
            port.strip_prefix(':')
                .or(if port.is_empty() { Some("") } else { None }),
        )
    } else {
        match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        }
    };
    if host.is_empty() {
        return Err("a host is missing".to_owned());
    }
    if !text.starts_with('[') && host.contains(':') {
        return Err(format!(
            "an IPv6 address stands in brackets, as in [{host}]"
        ));
    }
    let port = match port {
        Some("") => default_port,
        Some(port) => port
            .parse()
            .map_err(|_| format!("{port:?} is not a port"))?,
        None => return Err(format!("{text:?} is not a host and port")),
    };
    Ok(HostPort {
        host: host.to_owned(),
        port,
    })
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Hosts(hosts) => {
                write!(f, "{}://", self.scheme.as_str())?;
                for (index, host) in hosts.iter().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{host}")?;
                }
                Ok(())
            }
            Address::Path(path) => {
                const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%').add(b'?');
                let path = path.to_string_lossy();
                write!(
                    f,
                    "{}://{}",
                    self.scheme.as_str(),
                    utf8_percent_encode(&path, ENCODED)
                )
            }
            Address::Command(command) => {
                const ENCODED: &AsciiSet = &CONTROLS.add(b'#').add(b'%');
                write!(
                    f,
                    "{}:{}",
                    self.scheme.as_str(),
                    utf8_percent_encode(command, ENCODED)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<String> {
        match Location::parse(url).unwrap().location.address {
            Address::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_form_of_url_is_taken_apart() {
        let parsed =
            Location::parse("lightstream://h:1/a.b%2Fc%20d?retries=0&read_timeout=5s").unwrap();
        assert_eq!(parsed.table.as_deref(), Some("a.b/c d"));
        assert_eq!(
            parsed.options[1],
            ("read_timeout".to_owned(), "5s".to_owned())
        );
        assert_eq!(
            hosts("lightstream://a:1,b,[::1]:3/t"),
            ["a:1", "b:7654", "[::1]:3"]
        );
        assert_eq!(hosts("grpc://h"), ["h:8815"]);
        let parsed = Location::parse("lightstream+unix:///run/a%20b.sock?retries=1#s.t").unwrap();
        assert_eq!(
            parsed.location.address,
            Address::Path("/run/a b.sock".into())
        );
        assert_eq!(
            (parsed.table.as_deref(), parsed.options.len()),
            (Some("s.t"), 1)
        );
        let parsed =
            Location::parse("lightstream+stdio:ssh host lightstream serve --stdio#t").unwrap();
        assert_eq!(
            parsed.location.address,
            Address::Command("ssh host lightstream serve --stdio".into())
        );
        for (name, scheme, form) in Scheme::ALL {
            let url = match form {
                Form::Hosts => format!("{name}://h:1/t"),
                Form::Path => format!("{name}:///p#t"),
                Form::Command => format!("{name}:cmd#t"),
            };
            let parsed = Location::parse(&url).unwrap();
            assert_eq!(
                (parsed.location.scheme, parsed.table.as_deref()),
                (*scheme, Some("t")),
                "{url}"
            );
        }
    }

    #[test]
    fn a_location_reads_back_what_it_prints() {
        for url in [
            "lightstream://[::1]:3,h:4",
            "lightstream+unix:///a%20b",
            "lightstream+stdio:x --y",
            "flight://h:1",
        ] {
            let parsed = Location::parse(url).unwrap();
            assert_eq!(parsed.location.to_string(), url);
            let table = "a/b?c#d %x.\u{e9}";
            let again = Location::parse(&parsed.location.table_url(table)).unwrap();
            assert_eq!(
                (again.location, again.table.as_deref()),
                (parsed.location, Some(table))
            );
        }
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        for (url, part) in [
            ("flights", "scheme"),
            ("lightsteam://h", "\"lightstream\""),
            ("lightstream:h", "//"),
            ("lightstream://h:port/t", "\"port\""),
            ("lightstream://:1/t", "host"),
            ("lightstream://::1/t", "brackets"),
            ("lightstream://[::1/t", "bracket"),
            ("lightstream://h/t?retries", "retries"),
            ("lightstream://h#t", "slash"),
            ("lightstream://u:p@h/t", "credentials"),
            ("lightstream+unix://a.sock#t", "absolute"),
            ("lightstream+stdio:", "command"),
            ("lightstream://h/%ff", "%ff"),
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("u:p"), "{error}");
        }
    }
}
