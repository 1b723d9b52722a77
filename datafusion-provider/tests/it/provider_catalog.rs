//! Whole servers as catalogs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::prelude::{SessionConfig, SessionContext};
use lightstream_core::Result;
use lightstream_core::protocol::table::{TableEntry, TableKind};
use lightstream_core::server::{Catalog, MemoryTable, Server, Table};
use lightstream_datafusion::{
    LightstreamCatalog, Options, register_lightstream, register_lightstream_as,
};

use crate::provider_support::{Asked, Pieces, lines, register_local, rows, session};

/// A server of tables of these names, of which each has as many rows as its place in the list, from 1.
async fn server_of(names: &[String]) -> (Server, Arc<Asked>) {
    let asked = Arc::<Asked>::default();
    let mut builder = Server::builder();
    for (place, name) in names.iter().enumerate() {
        let table = Pieces {
            asked: asked.clone(),
            ..Pieces::new(rows(1, (place + 1) % 100))
        };
        builder = builder.table(name, table);
    }
    (
        builder.listen("lightstream://127.0.0.1:0").await.unwrap(),
        asked,
    )
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn count(ctx: &SessionContext, table: &str) -> String {
    let answer = lines(ctx, &format!("SELECT count(id) FROM {table}")).await;
    answer[0].trim_matches(['|', ' ']).to_owned()
}

#[tokio::test]
async fn tables_are_reached_by_bare_and_by_full_name() {
    let (server, _) = server_of(&names(&[
        "flights",
        "sales.orders",
        "europe.sales.orders",
        "Mixed",
    ]))
    .await;
    let ctx = session(2);
    let catalog = register_lightstream(&ctx, &server.url().to_string(), Options::default())
        .await
        .unwrap();
    for (table, rows) in [
        ("flights", "1"),
        ("lightstream.public.flights", "1"),
        ("lightstream.sales.orders", "2"),
        ("\"sales.orders\"", "2"),
        ("lightstream.\"europe.sales\".orders", "3"),
        ("\"Mixed\"", "4"),
    ] {
        assert_eq!(count(&ctx, table).await, rows, "{table}");
    }
    assert!(ctx.sql("SELECT * FROM mixed").await.is_err());
    assert!(
        ctx.sql("SELECT * FROM lightstream.nowhere.flights")
            .await
            .is_err()
    );
    use datafusion::catalog::CatalogProvider;
    assert_eq!(catalog.schema_names(), ["europe.sales", "public", "sales"]);
}

#[tokio::test]
async fn local_tables_live_beside_remote_ones() {
    let (server, _) = server_of(&names(&["flights"])).await;
    let ctx = session(2);
    register_local(&ctx, rows(1, 5));
    register_lightstream(&ctx, &server.url().to_string(), Options::default())
        .await
        .unwrap();
    ctx.sql("CREATE TABLE made AS SELECT id FROM flights")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(
        lines(
            &ctx,
            "SELECT count(*) FROM t JOIN made USING (id) JOIN flights USING (id)"
        )
        .await
        .len(),
        1
    );
    ctx.sql("DROP TABLE made")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let error = ctx
        .sql("CREATE TABLE flights AS SELECT 1")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("flights"), "{error}");
}

#[tokio::test]
async fn clashes_are_named_and_nothing_is_registered() {
    let (server, _) = server_of(&names(&["t", "u"])).await;
    let url = server.url().to_string();
    let ctx = session(2);
    register_local(&ctx, rows(1, 5));
    let error = register_lightstream(&ctx, &url, Options::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"t\"") && error.contains("register_lightstream_as"),
        "{error}"
    );
    assert!(ctx.catalog("lightstream").is_none());
    assert!(!ctx.table_exist("u").unwrap());

    register_lightstream_as(&ctx, "north", &url, Options::default())
        .await
        .unwrap();
    assert_eq!(count(&ctx, "north.public.u").await, "2");
    assert_eq!(count(&ctx, "t").await, "5");
    let error = register_lightstream_as(&ctx, "north", &url, Options::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("north"), "{error}");
}

#[tokio::test]
async fn two_servers_stand_side_by_side() {
    let (north, _) = server_of(&names(&["a"])).await;
    let (south, _) = server_of(&names(&["x", "a"])).await;
    let ctx = session(2);
    register_lightstream(&ctx, &north.url().to_string(), Options::default())
        .await
        .unwrap();
    let error = register_lightstream(&ctx, &south.url().to_string(), Options::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("lightstream"), "{error}");
    register_lightstream_as(&ctx, "south", &south.url().to_string(), Options::default())
        .await
        .unwrap();
    let both = "SELECT count(*) FROM (SELECT id FROM a UNION ALL SELECT id FROM south.public.a)";
    assert_eq!(lines(&ctx, both).await, ["| 3        |"]);
}

#[tokio::test]
async fn a_server_without_tables_is_an_empty_catalog() {
    let server = Server::builder()
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let ctx = session(2);
    let catalog = register_lightstream(&ctx, &server.url().to_string(), Options::default())
        .await
        .unwrap();
    use datafusion::catalog::CatalogProvider;
    assert_eq!(catalog.schema_names(), ["public"]);
    assert!(catalog.schema("public").unwrap().table_names().is_empty());
    assert!(ctx.sql("SELECT * FROM anything").await.is_err());
}

#[tokio::test]
async fn ten_thousand_names_are_listed_and_none_is_described() {
    let all: Vec<String> = (0..10_000).map(|number| format!("t{number:05}")).collect();
    let table = Pieces::new(rows(1, 3));
    let asked = table.asked.clone();
    let mut builder = Server::builder();
    for name in &all {
        builder = builder.table(name, table.clone());
    }
    let server = builder.listen("lightstream://127.0.0.1:0").await.unwrap();
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
    let started = Instant::now();
    register_lightstream(&ctx, &server.url().to_string(), Options::default())
        .await
        .unwrap();
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_catalog = 'lightstream' AND table_schema = 'public'";
    assert_eq!(lines(&ctx, listed).await, ["| 10000    |"]);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(asked.describes(), 0);
    assert_eq!(count(&ctx, "t09999").await, "3");
    assert_eq!(asked.describes(), 1);
}

#[tokio::test]
async fn a_url_that_names_a_table_is_no_catalog() {
    let server = Server::builder().table("t", MemoryTable::try_new(rows(1, 1)).unwrap());
    let server = server.listen("lightstream://127.0.0.1:0").await.unwrap();
    let url = crate::provider_support::url_of(&server, "t");
    let error = LightstreamCatalog::connect(&url, Options::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("LightstreamTable::connect"), "{error}");
}

#[tokio::test]
async fn a_table_that_comes_later_is_found_by_full_name_and_after_a_refresh_by_bare_name() {
    let tables = Arc::new(Mutex::new(BTreeMap::from([(
        "a".to_owned(),
        Pieces::new(rows(1, 1)),
    )])));
    let server = Server::builder().catalog(Growing(tables.clone()));
    let server = server.listen("lightstream://127.0.0.1:0").await.unwrap();
    let ctx = session(2);
    let url = server.url().to_string();
    let catalog = register_lightstream(&ctx, &url, Options::default())
        .await
        .unwrap();
    tables
        .lock()
        .unwrap()
        .insert("b".to_owned(), Pieces::new(rows(1, 2)));
    assert_eq!(count(&ctx, "lightstream.public.b").await, "2");
    assert!(ctx.sql("SELECT * FROM b").await.is_err());
    catalog.refresh().await.unwrap();
    assert_eq!(count(&ctx, "b").await, "2");
}

/// A catalog to which the test adds tables.
struct Growing(Arc<Mutex<BTreeMap<String, Pieces>>>);

#[async_trait]
impl Catalog for Growing {
    async fn list(
        &self,
        _prefix: &str,
        after: Option<&str>,
        _limit: usize,
    ) -> Result<Vec<TableEntry>> {
        let tables = self.0.lock().unwrap();
        let entry = |name: &String| TableEntry {
            name: name.clone(),
            kind: TableKind::Table,
        };
        Ok(tables
            .keys()
            .filter(|name| Some(name.as_str()) > after)
            .map(entry)
            .collect())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn Table>>> {
        let table = self.0.lock().unwrap().get(name).cloned();
        Ok(table.map(|table| Arc::new(table) as Arc<dyn Table>))
    }
}
