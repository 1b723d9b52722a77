//! Where to listen: which addresses are refused, and how those taken are announced.

use std::fmt::Write as _;
use std::net::IpAddr;

use lightstream_core::Error;
use lightstream_core::transport::{Address, HostPort, Location, Scheme};

use crate::exit::{Failure, Outcome};
use crate::terminal::one_line;

/// What keeps strangers out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protection {
    /// There is a certificate to serve TLS with.
    pub has_certificate: bool,
    /// Clients must show who they are.
    pub asks_who: bool,
    /// The user has said that neither is needed.
    pub insecure: bool,
}

/// The URLs to listen at, as the core takes them. Addresses that other machines can reach take TLS and a token, or must be
/// asked for twice.
pub fn check(urls: &[String], protection: Protection) -> Outcome<Vec<String>> {
    urls.iter().map(|url| check_one(url, protection)).collect()
}

fn check_one(url: &str, protection: Protection) -> Outcome<String> {
    let parsed = Location::parse(url).map_err(|error| Failure::from(error).context("--listen"))?;
    let location = &parsed.location;
    if let Some(table) = parsed.table {
        let message = format!(
            "--listen takes a place alone, such as {location}, without the table {table:?}"
        );
        return Err(Failure::usage(message));
    }
    let is_known = matches!(
        location.scheme,
        Scheme::Lightstream | Scheme::Tcp | Scheme::Tls | Scheme::Unix
    );
    if !is_known {
        let error = Error::unimplemented(format!(
            "--listen: this release does not serve {}://",
            location.scheme.as_str()
        ));
        return Err(Failure::usage(error.to_string()));
    }
    let tls = parsed
        .options
        .iter()
        .find(|(name, _)| name == "tls")
        .map(|(_, value)| value.as_str());
    let has_tls = match (tls, location.scheme) {
        (Some("off"), _) | (None, Scheme::Tcp | Scheme::Unix) => false,
        (Some("on"), _) | (None, Scheme::Tls) => true,
        (None, _) => protection.has_certificate,
        (Some(other), _) => {
            return Err(Failure::usage(format!(
                "--listen {location}: tls={other} means nothing to a server: say on or off"
            )));
        }
    };
    if has_tls && !protection.has_certificate {
        return Err(Failure::usage(format!(
            "--listen {location} is for TLS, which needs --tls-cert and --tls-key"
        )));
    }
    if location.is_local() {
        return Ok(url.to_owned());
    }
    let lacking = match (has_tls, protection.asks_who) {
        (true, true) => None,
        (true, false) => Some("nobody would be asked for a token (--token-file)"),
        (false, true) => Some("nothing would be encrypted (--tls-cert and --tls-key)"),
        (false, false) => Some("nothing would be encrypted or ask for a token"),
    };
    if let Some(lacking) = lacking
        && !protection.insecure
    {
        return Err(Failure::usage(format!(
            "--listen {location}: other machines can reach this address, and {lacking}. Give --tls-cert, --tls-key and \
             --token-file, listen on a loopback address such as lightstream://127.0.0.1:7654 or on a unix socket, or add \
             --insecure on a network that you trust"
        )));
    }
    Ok(if tls.is_some() || has_tls {
        url.to_owned()
    } else {
        format!("{location}?tls=off")
    })
}

/// What scripts and people are told of the addresses, a line each.
pub fn announced(locations: &[Location]) -> String {
    let mut text = String::new();
    for location in locations {
        let _ = writeln!(
            text,
            "listening on {}",
            one_line(&without_tls(location).to_string())
        );
    }
    for location in locations {
        if let Some(here) = on_this_machine(location) {
            let _ = writeln!(text, "on this machine also {here}");
        }
    }
    text
}

/// The same place with a scheme that never means TLS, so that the URL works as it is, with a table after it too.
fn without_tls(location: &Location) -> Location {
    match location.scheme {
        Scheme::Lightstream if !location.is_local() => Location {
            scheme: Scheme::Tcp,
            address: location.address.clone(),
        },
        _ => location.clone(),
    }
}

/// The loopback address of a place that stands for all addresses.
fn on_this_machine(location: &Location) -> Option<Location> {
    let Address::Hosts(hosts) = &location.address else {
        return None;
    };
    let [host] = hosts.as_slice() else {
        return None;
    };
    let loopback = match host.host.parse().ok()? {
        IpAddr::V4(address) if address.is_unspecified() => "127.0.0.1",
        IpAddr::V6(address) if address.is_unspecified() => "::1",
        _ => return None,
    };
    let host = HostPort {
        host: loopback.to_owned(),
        port: host.port,
    };
    Some(Location {
        scheme: location.scheme,
        address: Address::Hosts(vec![host]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Protection = Protection {
        has_certificate: false,
        asks_who: false,
        insecure: false,
    };

    #[test]
    fn public_addresses_take_tls_and_a_token_or_must_be_asked_for() {
        let urls = [
            "lightstream://0.0.0.0:0",
            "lightstream+tcp://db.example",
            "lightstream://10.0.0.1?tls=off",
        ];
        for url in urls {
            for protection in [
                OPEN,
                Protection {
                    asks_who: true,
                    ..OPEN
                },
                Protection {
                    has_certificate: true,
                    ..OPEN
                },
            ] {
                let failure = check_one(url, protection).unwrap_err();
                assert_eq!(failure.code(), 2, "{url}");
                let report = failure.report();
                assert!(report.contains("--insecure"), "{report}");
            }
            let insecure = Protection {
                insecure: true,
                ..OPEN
            };
            assert!(
                check_one(url, insecure).unwrap().ends_with("tls=off"),
                "{url}"
            );
        }
        let protected = Protection {
            has_certificate: true,
            asks_who: true,
            insecure: false,
        };
        for (url, is_fine) in urls.iter().zip([true, false, false]) {
            assert_eq!(check_one(url, protected).is_ok(), is_fine, "{url}");
        }
        assert!(check_one("lightstream+tls://10.0.0.1", protected).is_ok());
        for url in [
            "lightstream://127.0.0.1:0",
            "lightstream://[::1]:0",
            "lightstream+unix:///x.sock",
        ] {
            assert_eq!(check_one(url, OPEN).unwrap(), url);
        }
    }

    #[test]
    fn what_cannot_be_served_is_bad_usage() {
        let insecure = Protection {
            insecure: true,
            ..OPEN
        };
        for url in [
            "127.0.0.1:7654",
            "lightstream+quic://localhost",
            "lightstream://localhost?tls=on",
            "lightstream+tls://localhost",
            "lightstream://localhost?tls=skip-verify",
            "lightstream://localhost/t",
        ] {
            assert_eq!(check_one(url, insecure).unwrap_err().code(), 2, "{url}");
        }
    }

    #[test]
    fn announced_urls_work_as_they_are() {
        let locations: Vec<_> = [
            "lightstream://0.0.0.0:7",
            "lightstream://127.0.0.1:8",
            "lightstream+unix:///a%20b",
        ]
        .map(|url| Location::parse(url).unwrap().location)
        .to_vec();
        assert_eq!(
            announced(&locations),
            "listening on lightstream+tcp://0.0.0.0:7\n\
             listening on lightstream://127.0.0.1:8\n\
             listening on lightstream+unix:///a%20b\n\
             on this machine also lightstream://127.0.0.1:7\n"
        );
    }
}
