//! Tables that a client is not granted: for it there are none.

use std::sync::Arc;

use async_trait::async_trait;
use lightstream_core::Result;
use lightstream_core::protocol::messages::error::Code;
use lightstream_core::protocol::messages::request::Kind;
use lightstream_core::protocol::messages::{self, response};
use lightstream_core::protocol::table::{TableEntry, TableKind};
use lightstream_core::server::{Catalog, Table};

use super::{RawClient, Served, describe, list, plan, read, table, tokens, whole};

/// Names in one page, and where the next starts.
fn page(client: &mut RawClient, prefix: &str, page_token: &str) -> (Vec<String>, String) {
    match client.ask(list(prefix, page_token)).kind {
        response::Kind::Tables(page) => {
            let names = page.tables.into_iter().map(|table| table.name);
            (names.collect(), page.page_token)
        }
        kind => panic!("{kind:?}"),
    }
}

fn nothing() -> (Vec<String>, String) {
    Default::default()
}

/// Requests that name a table, some of them wrong in another way too.
fn about(name: &str) -> Vec<Kind> {
    let of_snapshot = |snapshot: &str| messages::DescribeTable {
        name: name.to_owned(),
        snapshot: snapshot.to_owned(),
    };
    let beyond = messages::Projection { columns: vec![9] };
    let unresolved = messages::Filter {
        conjuncts: vec![messages::Expr::default()],
        ..Default::default()
    };
    vec![
        describe(name),
        Kind::DescribeTable(of_snapshot("x")),
        plan(whole(name)),
        Kind::Plan(messages::Plan {
            request: Some(whole(name)),
            inline_up_to_bytes: u64::MAX,
        }),
        plan(messages::ScanRequest {
            projection: Some(beyond),
            ..whole(name)
        }),
        plan(messages::ScanRequest {
            filter: Some(unresolved),
            snapshot: "x".to_owned(),
            limit: Some(0),
            ..whole(name)
        }),
        read(b"", whole(name)),
    ]
}

/// The answers about a table, which must be errors, without its name.
fn refusals(client: &mut RawClient, name: &str) -> Vec<messages::Error> {
    let refusal = |kind| {
        let mut error = client.ask(kind).error();
        error.message = error.message.replace(name, "");
        let details = error.details.as_mut().unwrap();
        details.table = details.table.replace(name, "");
        error
    };
    about(name).into_iter().map(refusal).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_granted_is_as_one_that_is_not_there() {
    let served = Served::start(&tokens(&[("bob", "\"codes\"")]), |server| server).await;
    let mut bob = served.known("bob");
    let there = refusals(&mut bob, "wages");
    assert_eq!(there, refusals(&mut bob, "waves"));
    assert!(there.iter().all(|e| e.code() == Code::PermissionDenied));
    assert_eq!(
        page(&mut bob, "", ""),
        (vec!["codes".to_owned()], String::new())
    );
    for (prefix, after) in [
        ("w", ""),
        ("wages", ""),
        ("", "codes"),
        ("w", "v"),
        ("", "wages"),
    ] {
        assert_eq!(page(&mut bob, prefix, after), nothing(), "{prefix} {after}");
    }
    assert_eq!(served.server.stats().plans, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_listing_end_where_what_is_granted_says() {
    let clients = tokens(&[("few", "\"z*\""), ("many", "\"*0\", \"*5\"")]);
    let served = Served::start(&clients, |server| {
        let one: Arc<dyn Table> = Arc::new(table());
        let names = (0..6000).map(|number| format!("t{number:04}"));
        names.chain(["z".to_owned()]).fold(server, |server, name| {
            server.shared_table(name, Arc::clone(&one))
        })
    })
    .await;
    let mut few = served.known("few");
    let only_z = (vec!["z".to_owned()], String::new());
    for after in ["", "t0999", "t", "wages"] {
        assert_eq!(page(&mut few, "", after), only_z, "{after}");
    }
    assert_eq!(page(&mut few, "t", ""), nothing());

    let mut many = served.known("many");
    let (first, token) = page(&mut many, "", "");
    assert_eq!((first.len(), token.as_str()), (1000, "t4995"));
    let (second, token) = page(&mut many, "", &token);
    assert_eq!((second.len(), token.as_str()), (200, ""));
    let expected = (0..6000).step_by(5).map(|number| format!("t{number:04}"));
    assert!(first.into_iter().chain(second).eq(expected));
    // A page that is full is the last where nothing follows that is granted.
    let (third, token) = page(&mut many, "", "t0995");
    assert_eq!((third.len(), token.as_str()), (1000, ""));
}

/// One table, listed as `hidden` and found as `other.hidden` too.
struct TwoNames(Arc<dyn Table>);

#[async_trait]
impl Catalog for TwoNames {
    async fn list(&self, prefix: &str, after: Option<&str>, _: usize) -> Result<Vec<TableEntry>> {
        let is_listed = "hidden".starts_with(prefix) && after.is_none_or(|after| after < "hidden");
        Ok(Vec::from_iter(is_listed.then(|| TableEntry {
            name: "hidden".to_owned(),
            kind: TableKind::Table,
        })))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn Table>>> {
        let is_known = self.listed_name(name).await? == "hidden";
        Ok(is_known.then(|| Arc::clone(&self.0)))
    }

    async fn listed_name(&self, name: &str) -> Result<String> {
        Ok(name.strip_prefix("other.").unwrap_or(name).to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_name_of_a_table_needs_the_grant_of_the_one_it_is_listed_under() {
    let by_both = "\"other.*\", \"hidden\"";
    let clients = tokens(&[("ann", by_both), ("bob", "\"other.*\"")]);
    let served = Served::start(&clients, |server| {
        server.catalog(TwoNames(Arc::new(table())))
    })
    .await;
    let (mut ann, mut bob) = (served.known("ann"), served.known("bob"));
    let there = refusals(&mut bob, "other.hidden");
    assert_eq!(there, refusals(&mut bob, "other.hobbit"));
    assert_eq!(there[0].code(), Code::NotFound);

    let planned = ann.ask(plan(whole("other.hidden"))).plan();
    let ticket = &planned.partitions[0].ticket;
    assert!(ann.ask(read(ticket, whole("other.hidden"))).batches > 0);
    std::fs::write(&served.tokens, tokens(&[("ann", "\"other.*\"")])).unwrap();
    served.server.reload().unwrap();
    let code = ann.ask(read(ticket, whole("other.hidden"))).code();
    assert_eq!(code, Code::NotFound);
}
