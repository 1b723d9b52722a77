//! Which schema and table each name of a server stands for.

use std::collections::BTreeMap;

use lightstream_core::protocol::table::{TableEntry, TableKind};

/// Where tables are that the server names without a schema.
pub(super) const UNQUALIFIED_SCHEMA: &str = "public";

/// The names of a server, by schema and by the whole.
#[derive(Debug, Default)]
pub(super) struct Names {
    schemas: BTreeMap<String, BTreeMap<String, TableEntry>>,
    whole: BTreeMap<String, TableKind>,
}

impl Names {
    pub(super) fn new(mut entries: Vec<TableEntry>) -> Self {
        let mut names = Self::default();
        // DataFusion looks here for every name without a schema, so it is there even where it is empty.
        names
            .schemas
            .insert(UNQUALIFIED_SCHEMA.to_owned(), BTreeMap::new());
        // Of `t` and `public.t` the shorter name is the one that users write.
        entries.sort_by_key(|entry| entry.name.len());
        for entry in entries {
            names.whole.insert(entry.name.clone(), entry.kind);
            let (schema, table) = split(&entry.name);
            let tables = names.schemas.entry(schema.to_owned()).or_default();
            tables.entry(table.to_owned()).or_insert(entry);
        }
        names
    }

    pub(super) fn schemas(&self) -> Vec<String> {
        self.schemas.keys().cloned().collect()
    }

    pub(super) fn has_schema(&self, schema: &str) -> bool {
        self.schemas.contains_key(schema)
    }

    pub(super) fn tables_of(&self, schema: &str) -> Vec<String> {
        self.schemas
            .get(schema)
            .map(|tables| tables.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The name under which the server knows a table.
    pub(super) fn full_name(&self, schema: &str, table: &str) -> Option<String> {
        Some(self.schemas.get(schema)?.get(table)?.name.clone())
    }

    pub(super) fn kind(&self, schema: &str, table: &str) -> Option<TableKind> {
        Some(self.schemas.get(schema)?.get(table)?.kind)
    }

    /// All names as the server has them, in order.
    pub(super) fn whole(&self) -> impl Iterator<Item = &str> {
        self.whole.keys().map(String::as_str)
    }

    pub(super) fn whole_kind(&self, name: &str) -> Option<TableKind> {
        self.whole.get(name).copied()
    }
}

/// Schema and table of a name: the last dot parts them.
fn split(name: &str) -> (&str, &str) {
    match name.rsplit_once('.') {
        Some((schema, table)) if !schema.is_empty() && !table.is_empty() => (schema, table),
        _ => (UNQUALIFIED_SCHEMA, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Names {
        let entry = |name: &&str| TableEntry {
            name: (*name).to_owned(),
            kind: TableKind::Table,
        };
        Names::new(all.iter().map(entry).collect())
    }

    #[test]
    fn names_are_parted_at_the_last_dot() {
        let names = names(&[
            "flights",
            "sales.orders",
            "europe.sales.orders",
            ".odd",
            "odd.",
        ]);
        assert_eq!(names.schemas(), ["europe.sales", "public", "sales"]);
        assert_eq!(names.tables_of("public"), [".odd", "flights", "odd."]);
        assert_eq!(
            names.full_name("europe.sales", "orders").as_deref(),
            Some("europe.sales.orders")
        );
        assert_eq!(names.full_name("sales", "gone"), None);
        assert_eq!(names.whole().count(), 5);
    }

    #[test]
    fn an_empty_server_has_an_empty_schema() {
        assert_eq!(names(&[]).schemas(), ["public"]);
        assert!(names(&[]).tables_of("public").is_empty());
    }

    #[test]
    fn the_shorter_of_two_names_for_one_place_wins() {
        for order in [["public.t", "t"], ["t", "public.t"]] {
            assert_eq!(names(&order).full_name("public", "t").as_deref(), Some("t"));
        }
    }
}
