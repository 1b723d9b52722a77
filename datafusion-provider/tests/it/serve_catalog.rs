//! Names: what is listed can be found, and what is found is what was meant.

use std::sync::Arc;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::catalog::memory::{MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::catalog::{CatalogProvider, MemTable, SchemaProvider};
use datafusion::prelude::{SessionConfig, SessionContext};
use lightstream_core::protocol::statistics::Precision;
use lightstream_core::protocol::table::TableKind;
use lightstream_core::server::Catalog;
use lightstream_datafusion::serve::DataFusionCatalog;

fn numbers(count: i32) -> Arc<MemTable> {
    let column = Arc::new(Int32Array::from_iter_values(0..count));
    let batch =
        RecordBatch::try_from_iter([("n", column as datafusion::arrow::array::ArrayRef)]).unwrap();
    Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
}

/// Tables by the count of their rows.
fn session() -> SessionContext {
    let context =
        SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
    let default = context.catalog("datafusion").unwrap();
    let public = default.schema("public").unwrap();
    public.register_table("plain".into(), numbers(1)).unwrap();
    public.register_table("Plain".into(), numbers(2)).unwrap();
    public
        .register_table("sales.east".into(), numbers(3))
        .unwrap();
    let sales = Arc::new(MemorySchemaProvider::new());
    sales.register_table("east".into(), numbers(4)).unwrap();
    sales.register_table("west".into(), numbers(5)).unwrap();
    default.register_schema("sales", sales).unwrap();
    let other = Arc::new(MemoryCatalogProvider::new());
    let dotted = Arc::new(MemorySchemaProvider::new());
    dotted.register_table("t.u".into(), numbers(6)).unwrap();
    other.register_schema("a.b", dotted).unwrap();
    context.register_catalog("other", other);
    context
}

async fn rows(catalog: &DataFusionCatalog, name: &str) -> Option<u64> {
    let info = catalog
        .table(name)
        .await
        .unwrap()?
        .describe(name, None)
        .await
        .unwrap();
    assert_eq!(info.name, name);
    match info.statistics.rows {
        Precision::Exact(rows) => Some(rows),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn names_are_whole_first_then_cut_at_dots() {
    let catalog = DataFusionCatalog::new(session());
    for (name, expected) in [
        ("plain", Some(1)),
        ("Plain", Some(2)),
        ("PLAIN", None),
        ("sales.east", Some(3)),
        ("datafusion.sales.east", Some(4)),
        ("sales.west", Some(5)),
        ("public.plain", Some(1)),
        ("other.a.b.t.u", Some(6)),
        ("other.a.b", None),
        ("information_schema.tables", None),
        ("", None),
        (".", None),
    ] {
        assert_eq!(rows(&catalog, name).await, expected, "{name:?}");
    }
}

#[tokio::test]
async fn a_table_is_listed_under_one_of_its_names() {
    let catalog = DataFusionCatalog::new(session());
    for (name, listed) in [
        ("plain", "plain"),
        ("public.plain", "plain"),
        ("datafusion.public.Plain", "Plain"),
        ("public.sales.east", "sales.east"),
        ("sales.west", "sales.west"),
        ("datafusion.sales.west", "sales.west"),
        ("other.a.b.t.u", "other.a.b.t.u"),
        ("public.absent", "public.absent"),
    ] {
        assert_eq!(catalog.listed_name(name).await.unwrap(), listed);
    }
}

#[tokio::test]
async fn listings_come_in_pages_and_every_name_is_found() {
    let context = session();
    context
        .sql("create view v as select n + 1 as m from plain")
        .await
        .unwrap();
    let catalog = DataFusionCatalog::new(context);
    let all = catalog.list("", None, 100).await.unwrap();
    let names: Vec<_> = all.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Plain",
            "other.a.b.t.u",
            "plain",
            "sales.east",
            "sales.west",
            "v"
        ]
    );
    assert_eq!(all[5].kind, TableKind::View);
    assert_eq!(all[0].kind, TableKind::Table);
    let mut paged = Vec::new();
    while let Some(entry) = catalog
        .list(
            "",
            paged
                .last()
                .map(|entry: &lightstream_core::protocol::table::TableEntry| entry.name.as_str()),
            1,
        )
        .await
        .unwrap()
        .pop()
    {
        assert!(catalog.table(&entry.name).await.unwrap().is_some());
        paged.push(entry);
    }
    assert_eq!(paged, all);
    assert_eq!(
        catalog.list("sales.", Some("sales.east"), 9).await.unwrap()[0].name,
        "sales.west"
    );
    assert!(catalog.list("zz", None, 9).await.unwrap().is_empty());
}
