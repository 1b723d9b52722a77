//! Hosts that a client may be sent on to.

use crate::patterns::Patterns;

/// Hosts by patterns: the option `allowed_hosts`. Names are compared without regard to case; a socket in the file system
/// counts by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHosts(Patterns);

impl AllowedHosts {
    /// Reads patterns that are separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str =
            "expected hosts or patterns such as *.example.org, separated by commas";
        let patterns: Vec<String> = text
            .split(',')
            .map(|pattern| pattern.trim().to_ascii_lowercase())
            .collect();
        if patterns.iter().any(String::is_empty) {
            return Err(EXPECTED);
        }
        Patterns::try_new(patterns).map(Self).map_err(|_| EXPECTED)
    }

    /// Whether a host, or the path of a socket, is allowed.
    pub(crate) fn contains(&self, host: &str) -> bool {
        self.0.matches(&host.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        for bad in ["", "a,,b", ",", "[a"] {
            assert!(AllowedHosts::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(AllowedHosts::parse("a, B"), AllowedHosts::parse("A,b"));
        assert!(AllowedHosts::parse("*.A").unwrap().contains("x.a"));
    }
}
