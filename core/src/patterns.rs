//! Texts by patterns, in which `*` stands for any text, `?` for one character, `[ab]` for one of some, and `{a,b}` for one
//! of some texts.

use std::sync::Arc;

use globset::{Error, GlobBuilder, GlobSet, GlobSetBuilder};

/// The texts that one of the patterns stands for; none where there is no pattern.
#[derive(Debug, Clone)]
pub(crate) struct Patterns {
    texts: Arc<[String]>,
    set: GlobSet,
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Patterns {}

impl Patterns {
    /// # Errors
    /// For a pattern that cannot be understood.
    pub(crate) fn try_new(texts: Vec<String>) -> Result<Self, Error> {
        let mut builder = GlobSetBuilder::new();
        for text in &texts {
            builder.add(GlobBuilder::new(text).build()?);
        }
        Ok(Self {
            texts: texts.into(),
            set: builder.build()?,
        })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }
}
