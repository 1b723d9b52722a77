//! What a server has: `ls`, `schema` and `ping`.

use arrow_schema::Field;
use lightstream_core::protocol::statistics::Precision;
use lightstream_core::protocol::table::{TableInfo, TableKind};
use lightstream_core::{Client, Options};
use serde_json::{Value, json};

use crate::args::{LsArgs, PingArgs, SchemaArgs};
use crate::exit::{Failure, Outcome};
use crate::terminal::{aligned, one_line, print};

/// A client of a server that is named without a table.
fn server(url: &str, command: &str) -> Outcome<Client> {
    let client = Client::new(url, Options::default())?;
    match client.table_name() {
        _ if client.location().scheme.is_plain() => Err(Failure::usage(format!(
            "{command} asks a server, and whoever writes the stream at {} takes no requests: `lightstream cat` reads it",
            client.location()
        ))),
        None => Ok(client),
        Some(table) => Err(Failure::usage(format!(
            "{command} takes the URL of a server, such as {}, without the table {table:?}",
            client.location()
        ))),
    }
}

/// A client and the table that its URL names.
pub fn table(url: &str) -> Outcome<(Client, String)> {
    let client = Client::new(url, Options::default())?;
    match client.table_name().map(str::to_owned) {
        Some(table) => Ok((client, table)),
        None => Err(Failure::usage(format!(
            "the URL names no table: expected one such as {}; `lightstream ls {}` lists them",
            client.location().table_url("TABLE"),
            client.location()
        ))),
    }
}

pub async fn ls(args: LsArgs) -> Outcome {
    let entries = server(&args.url, "ls")?.tables("").await?;
    if args.json {
        let tables: Vec<Value> = entries
            .iter()
            .map(|entry| json!({ "name": entry.name, "kind": entry.kind.as_str() }))
            .collect();
        return print_json(&json!({ "tables": tables }));
    }
    let lines = entries.iter().map(|entry| match entry.kind {
        TableKind::Table => format!("{}\n", one_line(&entry.name)),
        TableKind::View => format!("{}\tview\n", one_line(&entry.name)),
    });
    print(&lines.collect::<String>())
}

pub async fn schema(args: SchemaArgs) -> Outcome {
    let (client, name) = table(&args.url)?;
    let info = client.describe(&name, None).await?;
    if args.json {
        print_json(&schema_json(&name, &info))
    } else {
        print(&schema_text(&name, &info))
    }
}

fn schema_json(name: &str, info: &TableInfo) -> Value {
    let columns: Vec<Value> = info
        .schema
        .fields()
        .iter()
        .map(|field| {
            json!({
                "name": field.name(),
                "type": field.data_type().to_string(),
                "nullable": field.is_nullable(),
                "metadata": field.metadata(),
            })
        })
        .collect();
    json!({
        "table": name,
        "snapshot": info.snapshot,
        "rows": info.statistics.rows.value(),
        "rows_exact": matches!(info.statistics.rows, Precision::Exact(_)),
        "columns": columns,
        "metadata": info.schema.metadata(),
    })
}

fn schema_text(name: &str, info: &TableInfo) -> String {
    let mut about = vec![vec!["table".to_owned(), one_line(name)]];
    about.push(vec!["rows".to_owned(), rows_text(info.statistics.rows)]);
    if let Some(snapshot) = &info.snapshot {
        about.push(vec!["snapshot".to_owned(), one_line(snapshot)]);
    }
    about.extend(
        pairs(info.schema.metadata())
            .into_iter()
            .map(|pair| vec!["metadata".to_owned(), pair]),
    );
    let has_metadata = info
        .schema
        .fields()
        .iter()
        .any(|field| !field.metadata().is_empty());
    let mut columns = vec![vec![
        "COLUMN".to_owned(),
        "TYPE".to_owned(),
        "NULLABLE".to_owned(),
    ]];
    if has_metadata {
        columns[0].push("METADATA".to_owned());
    }
    columns.extend(
        info.schema
            .fields()
            .iter()
            .map(|field| column_row(field, has_metadata)),
    );
    format!("{}\n{}", aligned(&about), aligned(&columns))
}

fn column_row(field: &Field, has_metadata: bool) -> Vec<String> {
    let nullable = if field.is_nullable() { "yes" } else { "no" };
    let mut row = vec![
        one_line(field.name()),
        one_line(&field.data_type().to_string()),
        nullable.to_owned(),
    ];
    if has_metadata {
        row.push(pairs(field.metadata()).join(", "));
    }
    row
}

fn pairs(metadata: &std::collections::HashMap<String, String>) -> Vec<String> {
    let mut pairs: Vec<String> = metadata
        .iter()
        .map(|(key, value)| one_line(&format!("{key}={value}")))
        .collect();
    pairs.sort_unstable();
    pairs
}

/// How many rows, in words.
pub fn rows_text(rows: Precision) -> String {
    match rows {
        Precision::Exact(rows) => rows.to_string(),
        Precision::Inexact(rows) => format!("about {rows}"),
        Precision::Absent => "unknown".to_owned(),
    }
}

pub async fn ping(args: PingArgs) -> Outcome {
    let client = server(&args.url, "ping")?;
    // The first answer includes the connection; the second is a round trip alone.
    client.ping().await?;
    let round_trip_ms = client.ping().await?.as_secs_f64() * 1e3;
    let url = client.location().to_string();
    if args.json {
        return print_json(&json!({ "url": url, "round_trip_ms": round_trip_ms }));
    }
    print(&format!(
        "{} answered in {round_trip_ms:.3} ms\n",
        one_line(&url)
    ))
}

fn print_json(value: &Value) -> Outcome {
    print(&format!("{value:#}\n"))
}
