//! The queries, and which systems can answer them.

use std::ops::Range;

use lightstream_benchmarks::Result;
use lightstream_tpch::queries::QUERIES;

use crate::system::System;
use crate::wide;

/// Which tables a query is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Wide,
    Tpch,
}

#[derive(Debug, Clone)]
pub struct Query {
    pub name: String,
    pub kind: Kind,
    pub sql: String,
    /// Columns of the wide table all of which are read, for raw TCP to send.
    pub columns: Option<Range<usize>>,
}

/// The query whose bytes on the wire have a target: 1 % of the rows, 2 of 16 columns.
pub const SELECTIVE: &str = "where-1%";

impl Kind {
    pub const ALL: [Kind; 2] = [Self::Wide, Self::Tpch];

    pub fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Tpch => "tpch",
        }
    }
}

impl Query {
    fn wide(name: &str, sql: String) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Wide,
            sql,
            columns: None,
        }
    }

    fn sum(name: &str, columns: Range<usize>) -> Self {
        Self {
            columns: Some(columns.clone()),
            ..Self::wide(name, wide::sums(columns))
        }
    }

    fn all() -> Vec<Self> {
        let table = wide::NAME;
        let percent = wide::GROUPS / 100;
        let mut all = vec![
            Self::sum("sum-1", 2..3),
            Self::sum("sum-8", 4..12),
            Self::wide(
                SELECTIVE,
                format!("SELECT i2, f0 FROM {table} WHERE i1 < {percent}"),
            ),
            Self::wide(
                "where-0.01%",
                format!("SELECT i2, f0 FROM {table} WHERE i1 = 77"),
            ),
            Self::wide(
                "where-0.01%-all",
                format!("SELECT * FROM {table} WHERE i1 = 77"),
            ),
        ];
        all.extend(QUERIES.iter().map(|(number, sql)| Self {
            name: format!("q{number}"),
            kind: Kind::Tpch,
            sql: (*sql).to_owned(),
            columns: None,
        }));
        all
    }

    /// Those that are named, by their own name or that of their kind; all where none is.
    pub fn selected(only: &[String]) -> Result<Vec<Self>> {
        let mut all = Self::all();
        let is_named =
            |query: &Query, name: &String| *name == query.name || name == query.kind.name();
        if let Some(unknown) = only
            .iter()
            .find(|name| !all.iter().any(|query| is_named(query, name)))
        {
            let names: Vec<&str> = all.iter().map(|query| query.name.as_str()).collect();
            return Err(format!(
                "there is no query {unknown:?}, only tpch, wide, {}",
                names.join(", ")
            )
            .into());
        }
        all.retain(|query| only.is_empty() || only.iter().any(|name| is_named(query, name)));
        Ok(all)
    }

    /// Whether it can be measured in a system.
    pub fn suits(&self, system: System) -> bool {
        match system {
            System::RawTcp => self.columns.is_some(),
            other => self.kind == Kind::Tpch || !other.reads_parquet(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_chosen_by_name_and_kind() {
        let named = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            Query::selected(&only).map(|queries| queries.len())
        };
        assert_eq!(named(&[]).unwrap(), 27);
        assert_eq!(named(&["tpch"]).unwrap(), 22);
        assert_eq!(named(&["q01", "sum-1", "wide"]).unwrap(), 6);
        assert!(named(&["q23"]).is_err());
    }
}
