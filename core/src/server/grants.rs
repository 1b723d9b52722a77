//! Which tables an identity may see: names by patterns.

use crate::error::{Error, Result};
use crate::patterns::Patterns;

/// Names of tables by patterns, in which `*` stands for any text, `?` for one character, `[ab]` for one of some, and
/// `{a,b}` for one of some texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableNames(Patterns);

impl TableNames {
    /// The names that one of the patterns stands for; none where there is no pattern.
    ///
    /// # Errors
    /// `invalid_argument` for a pattern that cannot be understood.
    pub fn matching(patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let patterns = patterns.into_iter().map(Into::into).collect();
        Patterns::try_new(patterns).map(Self).map_err(|error| {
            Error::invalid_argument(format!("a table name: {error}")).with_source(error)
        })
    }

    /// Whether a name is one of these.
    pub fn contains(&self, name: &str) -> bool {
        self.0.matches(name)
    }

    /// Whether every name is one of these.
    pub fn are_all(&self) -> bool {
        self.0.iter().any(|pattern| pattern == "*")
    }
}

/// What an identity may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// The tables that it may see and read.
    pub read: TableNames,
    /// The tables that it may write.
    pub write: TableNames,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        let names = TableNames::matching(["sales.*", "code?", "{a,b}.t"]).unwrap();
        for name in ["sales.2024", "sales.", "sales.a/b.c", "codes", "a.t", "b.t"] {
            assert!(names.contains(name), "{name}");
        }
        for name in ["sales", "xsales.1", "Sales.1", "code", "codes2", "c.t", ""] {
            assert!(!names.contains(name), "{name}");
        }
        assert!(!names.are_all());
        assert!(TableNames::matching(["x", "*"]).unwrap().are_all());
        assert!(!TableNames::matching([""; 0]).unwrap().contains(""));
        assert!(TableNames::matching(["[a"]).is_err());
    }
}
