//! `serve`: what is served, checked and refused.

use std::fs::create_dir;

use futures::{TryStreamExt, future};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::{Client, ErrorCode, Options};

use crate::harness::*;

#[test]
fn a_check_prints_the_tables_and_ends() {
    let data = examples();
    let ran = ok(&["serve", "--check", "--dir", data.to_str().unwrap()]);
    for line in [
        "table airlines: 16 rows, 2 columns",
        "table flights: 336776 rows, 19 columns",
    ] {
        assert!(
            ran.text().lines().any(|printed| printed == line),
            "{}",
            ran.text()
        );
    }
    assert_eq!(ran.text().lines().count(), 5);
}

#[test]
fn files_folders_globs_and_streams_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("one.csv"), b"a,b\n1,x\n2,\n");
    write(&at("two.ndjson"), b"{\"a\":1}\n{\"a\":2}\n");
    write(&at("three.arrows"), &ipc_stream(&[rows()]));
    write(&at("four.feather"), &ipc_file(&[rows()]));
    write(&at("five"), &ipc_stream(&[rows()]));
    write(&at("six.data"), &ipc_file(&[rows()]));
    write(&at("readme.md"), b"no table");
    write(&at("_hidden.csv"), b"a\n1\n");
    for month in ["month=1", "month=2"] {
        std::fs::create_dir_all(at("hive").join(month)).unwrap();
        write(&at("hive").join(month).join("part.csv"), b"a\n1\n");
    }
    create_dir(at("parts")).unwrap();
    write(&at("parts/1.csv"), b"a\n1\n");
    write(&at("parts/2.csv"), b"a\n2\n");
    create_dir(at("empty")).unwrap();
    let named = [
        table_arg("five", &at("five")),
        table_arg("six", &at("six.data")),
        table_arg("some", &at("parts/*.csv")),
    ];
    let served = Served::start(&[
        "--dir",
        folder.path().to_str().unwrap(),
        &named[0],
        &named[1],
        &named[2],
    ]);
    assert_eq!(
        ok(&["ls", served.url()]).text(),
        "five\nfour\nhive\none\nparts\nsix\nsome\nthree\ntwo\n"
    );
    for (table, rows) in [
        ("one", 2),
        ("two", 2),
        ("three", 3),
        ("four", 3),
        ("five", 3),
        ("six", 3),
        ("hive", 2),
        ("parts", 2),
        ("some", 2),
    ] {
        let json = ok(&["head", &served.table(table), "--json"]).json();
        assert_eq!(json["rows"].as_array().unwrap().len(), rows, "{table}");
    }
    assert_eq!(
        ok(&["cat", &served.table("hive"), "--where", "month = '2'"]).text(),
        "a,month\n1,2\n"
    );
}

#[test]
fn bad_usage_of_serve_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    write(&folder.path().join("t.csv"), b"a\n1\n");
    write(&folder.path().join("short.key"), &[7; 31]);
    create_dir(folder.path().join("empty")).unwrap();
    let table = format!("t={}", path("t.csv"));
    fails(2, &["serve"], &["--table"]);
    fails(2, &["serve", "--table", "t"], &["NAME=PATH"]);
    fails(2, &["serve", "--table", "=x.csv"], &["name"]);
    fails(
        2,
        &["serve", "--table", "t=s3://bucket/t"],
        &["s3://bucket/t"],
    );
    fails(
        2,
        &["serve", "--table", &table, "--table", &table],
        &["\"t\"", &path("t.csv")],
    );
    fails(
        2,
        &["serve", "--dir", &path("empty")],
        &["empty", "no data file"],
    );
    fails(3, &["serve", "--dir", &path("missing")], &["missing"]);
    fails(
        3,
        &[
            "serve",
            "--table",
            &format!("t={}", path("missing.parquet")),
        ],
        &["missing.parquet"],
    );
    fails(
        3,
        &["serve", "--table", &format!("t={}", path("missing.arrow"))],
        &["missing.arrow"],
    );
    fails(
        3,
        &["serve", "--table", &format!("t={}", path("*.parquet"))],
        &["*.parquet"],
    );
    fails(
        2,
        &["serve", "--table", &format!("t={}", path("short.key"))],
        &["short.key"],
    );
    fails(
        2,
        &[
            "serve",
            "--table",
            &table,
            "--ticket-key-file",
            &path("short.key"),
        ],
        &["short.key", "32 bytes"],
    );
    fails(
        3,
        &[
            "serve",
            "--table",
            &table,
            "--ticket-key-file",
            &path("no.key"),
        ],
        &["no.key"],
    );
    fails(
        2,
        &["serve", "--table", &table, "--drain", "soon"],
        &["soon"],
    );
    fails(
        2,
        &[
            "serve",
            "--table",
            &table,
            "--listen",
            "lightstream://0.0.0.0:0",
        ],
        &["--insecure"],
    );
    fails(
        2,
        &[
            "serve",
            "--table",
            &table,
            "--listen",
            "lightstream+quic://127.0.0.1:0",
        ],
        &["lightstream+quic"],
    );
    for later in [
        "--flight=x",
        "--http=x",
        "--sql=x",
        "--writable=x",
        "--config=x",
        "--stdio",
    ] {
        fails(
            2,
            &["serve", "--table", &table, later],
            &[later.split('=').next().unwrap()],
        );
    }
}

#[test]
fn two_files_of_one_stem_clash() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.csv"), b"a\n1\n");
    write(&folder.path().join("t.ndjson"), b"{\"a\":1}\n");
    fails(
        2,
        &["serve", "--dir", folder.path().to_str().unwrap()],
        &["t.csv", "t.ndjson", "\"t\""],
    );
}

#[test]
fn damaged_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let flights = std::fs::read(examples().join("airlines.parquet")).unwrap();
    let ipc = ipc_file(&[rows()]);
    let stream = ipc_stream(&[rows()]);
    let mut footer = ipc.clone();
    let length = footer.len();
    footer[length - 10..length - 6].copy_from_slice(&[0xff; 4]);
    let damaged: [(&str, &[u8]); 7] = [
        ("cut.parquet", &flights[..flights.len() / 2]),
        ("cut.arrow", &ipc[..ipc.len() / 2]),
        ("cut.arrows", &stream[..stream.len() - 20]),
        ("footer.arrow", &footer),
        ("noise.feather", &[0xab; 1000]),
        ("noise.parquet", &[0xab; 1000]),
        ("empty.arrow", &[]),
    ];
    for (name, bytes) in damaged {
        let path = folder.path().join(name);
        write(&path, bytes);
        fails(6, &["serve", &table_arg("t", &path)], &[name, "\"t\""]);
        fails(
            6,
            &["serve", "--check", &table_arg("t", &path)],
            &[name, "\"t\""],
        );
    }
}

#[test]
fn a_public_address_is_served_when_asked_for() {
    let data = examples();
    let args = [
        "serve",
        "--insecure",
        "--listen",
        "lightstream://0.0.0.0:0",
        "--dir",
        data.to_str().unwrap(),
    ];
    let mut child = command(&args).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || lines.next().unwrap().unwrap();
    let url = line().strip_prefix("listening on ").unwrap().to_owned();
    assert!(url.starts_with("lightstream+tcp://0.0.0.0:"), "{url}");
    let here = line()
        .strip_prefix("on this machine also ")
        .unwrap()
        .to_owned();
    assert_eq!(line(), "transport security: no TLS");
    for url in [url, here] {
        assert_eq!(ok(&["ls", &url]).text().lines().count(), 5);
        ok(&["head", &format!("{url}/planes")]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_place_that_is_taken_is_a_failure() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("lightstream://{}", taken.local_addr().unwrap());
    let data = examples();
    fails(
        1,
        &["serve", "--dir", data.to_str().unwrap(), "--listen", &url],
        &["cannot listen"],
    );
}

#[test]
fn help_and_version_are_there() {
    for command in ["serve", "ls", "schema", "head", "cat", "ping"] {
        assert!(
            ok(&[command, "--help"])
                .text()
                .contains("Examples:\n  lightstream "),
            "{command}"
        );
    }
    assert!(ok(&["--help"]).text().contains("Exit codes:"));
    assert_eq!(
        ok(&["--version"]).text(),
        concat!("lightstream ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn a_query_that_wants_more_memory_than_each_may_have_is_refused() {
    let data = examples();
    let dir = data.to_str().unwrap();
    let answer = |args: &[&str]| {
        let served = Served::start(&[&["--dir", dir], args].concat());
        // The rows of one side are held to find those of the other.
        let joined = "SELECT a.flight FROM flights a JOIN flights b ON a.time_hour = b.time_hour AND a.tailnum = b.tailnum";
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = Client::new(served.url(), Options::default()).unwrap();
            let scan = client.scan(&ScanRequest::sql(joined)).await?;
            scan.try_fold(0, |rows, batch| future::ok(rows + batch.num_rows()))
                .await
        })
    };
    assert!(answer(&[]).unwrap() > 300_000);
    let error = answer(&["--scan-memory-limit", "1MiB"]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
}
