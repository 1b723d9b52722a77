//! `ls`, `schema`, `head` and `ping`.

use serde_json::json;

use crate::harness::*;

#[test]
fn a_folder_is_served_over_tcp_and_unix() {
    let folder = tempfile::tempdir().unwrap();
    let socket = format!(
        "--listen=lightstream+unix://{}/a b.sock",
        folder.path().display()
    );
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap(), &socket]);
    assert!(served.urls[1].ends_with("a%20b.sock"), "{:?}", served.urls);
    for url in &served.urls {
        assert_eq!(
            ok(&["ls", url]).text(),
            "airlines\nairports\nflights\nplanes\nweather\n"
        );
        let listed = ok(&["ls", url, "--json"]).json();
        assert_eq!(
            listed["tables"][2],
            json!({ "name": "flights", "kind": "table" })
        );
        let ping = ok(&["ping", url, "--json"]).json();
        assert_eq!(ping["url"], json!(url));
        assert!(ping["round_trip_ms"].as_f64().unwrap() > 0.0);
        assert!(ok(&["ping", url]).text().contains(" ms"));
    }
    let head = ok(&["head", &format!("{}#airlines", served.urls[1]), "-n", "1"]);
    assert!(head.text().contains("Endeavor Air Inc."), "{}", head.text());
}

#[test]
fn a_schema_tells_names_types_and_nulls() {
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    let text = ok(&["schema", &served.table("flights")]);
    for word in [
        "336776",
        "time_hour",
        "Timestamp(µs, \"UTC\")",
        "COLUMN",
        "NULLABLE",
    ] {
        assert!(text.text().contains(word), "{word}: {}", text.text());
    }
    let json = ok(&["schema", &served.table("flights"), "--json"]).json();
    assert_eq!(json["table"], json!("flights"));
    assert_eq!(
        (json["rows"].as_u64(), json["rows_exact"].as_bool()),
        (Some(336_776), Some(true))
    );
    assert!(json["snapshot"].is_string());
    let year = json!({ "name": "year", "type": "Int32", "nullable": false, "metadata": {} });
    assert_eq!(
        (
            json["columns"].as_array().unwrap().len(),
            &json["columns"][0]
        ),
        (19, &year)
    );
    assert_eq!(json["columns"][3]["nullable"], json!(true));
}

#[test]
fn the_first_rows_come_in_order() {
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    let head = ok(&["head", &served.table("airlines")]);
    assert_eq!(head.text().lines().count(), 10 + 4, "{}", head.text());
    assert!(
        head.text().lines().nth(3).unwrap().contains("9E"),
        "{}",
        head.text()
    );
    let json = ok(&["head", &served.table("airlines"), "-n", "2", "--json"]).json();
    let rows = json!([
        { "carrier": "9E", "name": "Endeavor Air Inc." },
        { "carrier": "AA", "name": "American Airlines Inc." },
    ]);
    assert_eq!(json["rows"], rows);
    assert_eq!(
        ok(&["head", &served.table("airlines"), "-n", "0", "--json"]).json(),
        json!({ "rows": [] })
    );
    assert_eq!(
        ok(&["head", &served.table("airlines"), "-n", "0"])
            .text()
            .lines()
            .count(),
        4
    );
}

#[test]
fn field_metadata_is_shown() {
    use arrow_schema::{DataType, Field, Schema};
    let folder = tempfile::tempdir().unwrap();
    let tagged = [("ARROW:extension:name".to_owned(), "my.type".to_owned())].into();
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int32, false).with_metadata(tagged),
        Field::new("b", DataType::Utf8, true),
    ]);
    let path = folder.path().join("t.arrow");
    write(
        &path,
        &ipc_file(&[arrow_array::RecordBatch::new_empty(schema.into())]),
    );
    let served = Served::start(&[&table_arg("t", &path)]);
    let text = ok(&["schema", &served.table("t")]);
    assert!(
        text.text().contains("ARROW:extension:name=my.type"),
        "{}",
        text.text()
    );
    let json = ok(&["schema", &served.table("t"), "--json"]).json();
    assert_eq!(
        json["columns"][0]["metadata"],
        json!({ "ARROW:extension:name": "my.type" })
    );
    assert_eq!(json["rows"], json!(0));
    assert_eq!(ok(&["cat", &served.table("t")]).text(), "a,b\n");
}

#[test]
fn odd_names_are_served_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Größe der Bäume (2024).arrow");
    write(&path, &ipc_file(&[rows()]));
    let csv = folder.path().join("a=b.csv");
    write(&csv, b"x,y\n1,a\n2,b\n");
    let args = [
        table_arg("sales.2024.q1", &path),
        table_arg("dotted.csv", &csv),
    ];
    let served = Served::start(&["--dir", folder.path().to_str().unwrap(), &args[0], &args[1]]);
    let names = "Größe der Bäume (2024)\na=b\ndotted.csv\nsales.2024.q1\n";
    assert_eq!(ok(&["ls", served.url()]).text(), names);
    for table in [
        "sales.2024.q1",
        "sales%2E2024.q1",
        "Gr%C3%B6%C3%9Fe%20der%20B%C3%A4ume%20(2024)",
        "Größe der Bäume (2024)",
    ] {
        let json = ok(&["head", &served.table(table), "--json"]).json();
        assert_eq!(json["rows"].as_array().unwrap().len(), 3, "{table}");
    }
    for table in ["dotted.csv", "a=b"] {
        assert_eq!(ok(&["cat", &served.table(table)]).text(), "x,y\n1,a\n2,b\n");
    }
}

#[test]
fn options_in_the_url_work_on_every_command() {
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    let bare = format!("{}?read_timeout=50s&retries=0", served.url());
    let table = served.table("airlines?read_timeout=50s&batch_rows=3&partitions=2");
    for args in [
        ["ls", &bare],
        ["ping", &bare],
        ["schema", &table],
        ["head", &table],
        ["cat", &table],
    ] {
        ok(&args);
    }
    let bare = format!("{}?read_timout=5s", served.url());
    let table = served.table("airlines?retries=many");
    for command in ["ls", "ping"] {
        fails(2, &[command, &bare], &["read_timout", "\"read_timeout\""]);
    }
    for command in ["schema", "head", "cat"] {
        fails(2, &[command, &table], &["retries", "many"]);
    }
}
