//! Which tables an identity may see: names by patterns.

use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Error, Result};

/// Names of tables by patterns, in which `*` stands for any text, `?` for one character, `[ab]` for one of some, and
/// `{a,b}` for one of some texts.
#[derive(Debug, Clone)]
pub struct TableNames {
    patterns: Arc<[String]>,
    set: GlobSet,
}

impl PartialEq for TableNames {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for TableNames {}

impl TableNames {
    /// The names that one of the patterns stands for; none where there is no pattern.
    ///
    /// # Errors
    /// `invalid_argument` for a pattern that cannot be understood.
    pub fn matching(patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        let mut builder = GlobSetBuilder::new();
        let refused =
            |error: globset::Error| Error::invalid_argument(format!("a table name: {error}"));
        for pattern in &patterns {
            builder.add(GlobBuilder::new(pattern).build().map_err(refused)?);
        }
        Ok(Self {
            patterns: patterns.into(),
            set: builder.build().map_err(refused)?,
        })
    }

    /// Whether a name is one of these.
    pub fn contains(&self, name: &str) -> bool {
        self.set.is_match(name)
    }

    /// Whether every name is one of these.
    pub fn are_all(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern == "*")
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
