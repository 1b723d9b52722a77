//! Which of the servers that a server names are asked too: its word alone does not make a client show its token to others.

use crate::allowed_hosts::AllowedHosts;
use crate::error::Error;
use crate::transport::{Address, HostPort, Location, Security};

/// What a client may follow.
pub(super) struct Following<'a> {
    /// The server that the user named.
    pub(super) home: &'a Location,
    pub(super) security: &'a Security,
    pub(super) allowed: Option<&'a AllowedHosts>,
}

impl Following<'_> {
    /// The place that a server named, if it may be followed.
    ///
    /// # Errors
    /// `permission_denied` that says why not.
    pub(super) fn check(&self, url: &str) -> Result<Location, Error> {
        let refused = |why: &str| {
            Error::permission_denied(format!(
                "the server names {url:?}, which is not followed: {why}"
            ))
        };
        let location = Location::of_server(url).map_err(|error| refused(&error.to_string()))?;
        let is_known = match &location.address {
            Address::Hosts(hosts) => hosts.iter().all(|host| self.is_known(host)),
            Address::Path(path) => {
                location.address == self.home.address || self.is_allowed(&path.to_string_lossy())
            }
            Address::Command(_) => return Err(refused("no server makes a client run commands")),
        };
        if !is_known {
            return Err(refused("its host is not in the option allowed_hosts"));
        }
        let is_secured = |location| self.security.secures(location);
        let is_secure = is_secured(&location).map_err(|error| refused(&error.to_string()))?;
        if !is_secure && !location.is_local() && is_secured(self.home)? {
            return Err(refused("it is less secure than the server that names it"));
        }
        Ok(location)
    }

    fn is_allowed(&self, host: &str) -> bool {
        self.allowed.is_some_and(|allowed| allowed.contains(host))
    }

    fn is_known(&self, host: &HostPort) -> bool {
        let is_home = match &self.home.address {
            Address::Hosts(homes) => homes.iter().any(|home| {
                home.host.eq_ignore_ascii_case(&host.host)
                    || (home.is_loopback() && host.is_loopback())
            }),
            Address::Path(_) | Address::Command(_) => false,
        };
        is_home || self.is_allowed(&host.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TlsMode;

    fn follows(home: &str, tls: Option<TlsMode>, allowed: Option<&str>, url: &str) -> bool {
        let home = Location::parse(home).unwrap().location;
        let allowed = allowed.map(|text| AllowedHosts::parse(text).unwrap());
        let security = Security {
            mode: tls,
            ..Security::default()
        };
        let following = Following {
            home: &home,
            security: &security,
            allowed: allowed.as_ref(),
        };
        following.check(url).is_ok()
    }

    #[test]
    fn only_known_hosts_are_followed() {
        let home = "lightstream://db.example:7654";
        for url in [
            "lightstream://db.example:7655",
            "lightstream+tls://DB.Example",
            home,
        ] {
            assert!(follows(home, None, None, url), "{url}");
        }
        for url in [
            "lightstream://evil.example",
            "lightstream://db.example:1,evil.example:1",
            "lightstream://127.0.0.1:1",
            "lightstream+unix:///run/x.sock",
            "lightstream+stdio:rm",
            "lightstream://db.example/table",
            "lightstream://db.example?tls=off",
            "nonsense",
        ] {
            assert!(!follows(home, None, None, url), "{url}");
        }
        let some = Some("b.example, *.internal,10.0.0.[12],/run/ls/*.sock");
        for url in [
            "lightstream://b.example:1",
            "lightstream://x.Internal",
            "lightstream://10.0.0.2:5",
            "lightstream+unix:///run/ls/b.sock",
        ] {
            assert!(follows(home, None, some, url), "{url}");
        }
        for url in [
            "lightstream://10.0.0.3:5",
            "lightstream://internal",
            "lightstream+unix:///run/b.sock",
        ] {
            assert!(!follows(home, None, some, url), "{url}");
        }
        assert!(follows(
            "lightstream://localhost:1",
            None,
            None,
            "lightstream://127.0.0.1:2"
        ));
    }

    #[test]
    fn security_is_not_given_up_on_the_word_of_a_server() {
        let all = Some("*");
        let secured = "lightstream+tls://a.example";
        assert!(follows(secured, None, all, "lightstream://b.example"));
        assert!(!follows(secured, None, all, "lightstream+tcp://b.example"));
        let plain = "lightstream+tcp://a.example";
        assert!(follows(plain, None, all, "lightstream+tcp://b.example"));
        for url in ["lightstream+tcp://b.example", "lightstream://b.example"] {
            assert!(follows(secured, Some(TlsMode::On), all, url), "{url}");
        }
        for url in [
            "lightstream+unix:///run/x.sock",
            "lightstream+quic://b.example",
        ] {
            assert!(!follows(secured, Some(TlsMode::On), all, url), "{url}");
        }
    }
}
