//! Servers that have the same tables and share the key of tickets: plans name them all, and spread partitions over them.

use crate::error::{Error, Result};
use crate::transport::{Address, Location, Scheme};

/// Where this server and its peers are reached, as a builder was told.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) advertised: Vec<String>,
    pub(super) peers: Vec<String>,
}

/// The places of each server: this one first, then each peer. Empty where clients only ever talk to this one.
#[derive(Debug, Default)]
pub(super) struct Replicas(Vec<Vec<String>>);

impl Replicas {
    /// # Errors
    /// `invalid_argument` for a URL that is not that of a server alone, and for peers of a server that is not known to
    /// be reached anywhere.
    pub(super) fn try_new(named: Named, listening: &[Location]) -> Result<Self> {
        let mut advertised = checked(named.advertised)?;
        let peers = checked(named.peers)?;
        if advertised.is_empty() && !peers.is_empty() {
            let reached = listening.iter().filter(|location| is_somewhere(location));
            advertised.extend(reached.map(|location| as_reached(location).to_string()));
            if advertised.is_empty() {
                return Err(Error::invalid_argument(
                    "plans that name peers name this server too: advertise where clients reach it",
                ));
            }
        }
        let own = Some(advertised).filter(|urls| !urls.is_empty());
        let peers = peers.into_iter().map(|url| vec![url]);
        Ok(Self(own.into_iter().chain(peers).collect()))
    }

    /// Where a partition is read from: first another server for each partition, then the others.
    pub(super) fn of_partition(&self, index: usize) -> Vec<String> {
        let servers = self.0.len().max(1);
        let from_first = self.0.iter().cycle().skip(index % servers);
        from_first.take(self.0.len()).flatten().cloned().collect()
    }
}

fn checked(urls: Vec<String>) -> Result<Vec<String>> {
    let mut places = Vec::with_capacity(urls.len());
    for url in urls {
        let location = Location::of_server(&url)?;
        if !is_somewhere(&location) {
            return Err(Error::invalid_argument(format!(
                "{url:?} is no place that a client can connect to"
            )));
        }
        places.push(location.to_string());
    }
    Ok(places)
}

/// A place where this server listens, as a URL that means the same to a client.
fn as_reached(listening: &Location) -> Location {
    let scheme = match listening.scheme {
        // Here without TLS; a client would take it for TLS on another machine.
        Scheme::Lightstream => Scheme::Tcp,
        scheme => scheme,
    };
    Location {
        scheme,
        address: listening.address.clone(),
    }
}

/// Whether a client can connect there.
fn is_somewhere(location: &Location) -> bool {
    match &location.address {
        Address::Hosts(hosts) => hosts.iter().all(|host| {
            let address = host.host.parse::<std::net::IpAddr>();
            host.port > 0 && !address.is_ok_and(|address| address.is_unspecified())
        }),
        Address::Path(_) => true,
        Address::Command(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(advertised: &[&str], peers: &[&str], listening: &str) -> Result<Replicas> {
        let owned = |urls: &[&str]| urls.iter().map(|&url| url.to_owned()).collect();
        let named = Named {
            advertised: owned(advertised),
            peers: owned(peers),
        };
        Replicas::try_new(named, &[Location::parse(listening).unwrap().location])
    }

    #[test]
    fn partitions_are_spread_and_each_names_all() {
        let (a, b, c) = (
            "lightstream://a:1",
            "lightstream://b:1",
            "lightstream://c:1",
        );
        let unix = "lightstream+unix:///a.sock";
        let all = replicas(&[a, unix], &[b, c], a).unwrap();
        assert_eq!(all.of_partition(0), [a, unix, b, c]);
        assert_eq!(all.of_partition(1), [b, c, a, unix]);
        assert_eq!(all.of_partition(5), [c, a, unix, b]);
        let alone = replicas(&[], &[], a).unwrap();
        assert!(alone.of_partition(3).is_empty());
        let listening = replicas(&[], &[b], a).unwrap();
        assert_eq!(listening.of_partition(1), [b, "lightstream+tcp://a:1"]);
    }

    #[test]
    fn places_that_are_none_are_refused() {
        let a = "lightstream://a:1";
        for bad in [
            "lightstream://a:1/t",
            "lightstream://a:1?tls=off",
            "lightstream://0.0.0.0:1",
            "lightstream://[::]:1",
            "lightstream://a:0",
            "lightstream+stdio:x",
            "a",
        ] {
            assert!(replicas(&[bad], &[], a).is_err(), "{bad}");
            assert!(replicas(&[], &[bad], a).is_err(), "{bad}");
        }
        let error = replicas(&[], &[a], "lightstream://0.0.0.0:7654").unwrap_err();
        assert!(error.to_string().contains("advertise"), "{error}");
    }
}
