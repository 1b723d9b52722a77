//! `cat`: formats, choices of rows and columns, and what is left behind.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use crate::harness::*;

fn serve_batches(folder: &Path, batches: &[RecordBatch]) -> Served {
    let path = folder.join("served.arrows");
    write(&path, &ipc_stream(batches));
    Served::start(&[&table_arg("t", &path)])
}

#[test]
fn every_format_reads_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve_batches(folder.path(), &[rows(), rows()]);
    let expected =
        arrow_select::concat::concat_batches(&rows().schema(), &[rows(), rows()]).unwrap();
    for file in ["a.arrow", "a.feather", "a.arrows", "a.parquet"] {
        let path = folder.path().join(file);
        assert_eq!(
            ok(&["cat", &served.table("t"), "-o", path.to_str().unwrap()]).text(),
            ""
        );
        let read = read_back(&path);
        assert_eq!(read.schema(), expected.schema(), "{file}");
        assert_eq!(pretty(&read), pretty(&expected), "{file}");
    }
    let csv = "id,text,view,word,money,day,time,ratio,flag,bytes\n\
        1,plain,a text that is longer than twelve,red,123.45,1970-01-01,2023-11-14T23:13:20.123456+01:00,0.5,true,00ff\n\
        2,,,,,,,,,\n\
        3,\"naïve, ok\",\"say \"\"hi\"\"\",\"gr,een\",-0.01,2022-01-08,1970-01-01T01:00:00+01:00,-1.25,false,\n";
    let csv = format!("{csv}{}", csv.split_once('\n').unwrap().1);
    assert_eq!(ok(&["cat", &served.table("t")]).text(), csv);
    let path = folder.path().join("a.csv");
    ok(&[
        "cat",
        &served.table("t"),
        "--output",
        path.to_str().unwrap(),
    ]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), csv);
    for file in ["a.ndjson", "a.jsonl", "a.json"] {
        let path = folder.path().join(file);
        ok(&["cat", &served.table("t"), "-o", path.to_str().unwrap()]);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!((lines.len(), lines[1].as_object().unwrap().len()), (6, 10));
        assert_eq!(
            (lines[5]["id"].as_i64(), lines[5]["text"].as_str()),
            (Some(3), Some("naïve, ok"))
        );
        assert!(lines[1]["text"].is_null());
    }
    let stream = ok(&["cat", &served.table("t"), "--format", "arrow"]).out;
    let path = folder.path().join("stdout.arrows");
    write(&path, &stream);
    assert_eq!(pretty(&read_back(&path)), pretty(&expected));
    let parquet = ok(&["cat", &served.table("t"), "--format=parquet", "-o", "-"]).out;
    let path = folder.path().join("stdout.parquet");
    write(&path, &parquet);
    assert_eq!(pretty(&read_back(&path)), pretty(&expected));
    let table = ok(&["cat", &served.table("t"), "--format", "table"]);
    assert!(
        table.text().contains("| NULL") && table.text().lines().count() == 10,
        "{}",
        table.text()
    );
    let path = folder.path().join("really.parquet");
    ok(&[
        "cat",
        &served.table("t"),
        "--format",
        "csv",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), csv);
}

#[test]
fn a_large_table_comes_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    let path = folder.path().join("flights.parquet");
    ok(&[
        "cat",
        &served.table("flights"),
        "-o",
        path.to_str().unwrap(),
    ]);
    assert_eq!(read_back(&path), read_back(&data.join("flights.parquet")));
}

#[test]
fn rows_and_columns_are_chosen() {
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    let flights = served.table("flights");
    let all = read_back(&data.join("flights.parquet"));
    let ints = |name: &str| {
        all.column_by_name(name)
            .unwrap()
            .as_any()
            .downcast_ref::<Int32Array>()
            .unwrap()
            .clone()
    };
    let texts = |name: &str| {
        all.column_by_name(name)
            .unwrap()
            .as_any()
            .downcast_ref::<StringArray>()
            .unwrap()
            .clone()
    };
    let (month, dest, carrier, flight) = (
        ints("month"),
        texts("dest"),
        texts("carrier"),
        ints("flight"),
    );
    let expected: Vec<String> = (0..all.num_rows())
        .filter(|&row| month.value(row) == 7 && dest.value(row) == "LAX")
        .map(|row| {
            format!(
                "{},{},{}",
                flight.value(row),
                carrier.value(row),
                flight.value(row)
            )
        })
        .collect();
    let condition = "month = 7 AND dest = 'LAX'";
    let base = [
        "cat",
        &flights,
        "--columns",
        "flight,carrier,flight",
        "--where",
        condition,
    ];
    let found = ok(&base);
    let lines: Vec<&str> = found.text().lines().collect();
    assert_eq!(lines[0], "flight,carrier,flight");
    assert!(
        expected.len() > 100 && lines[1..] == expected,
        "{} of {}",
        lines.len() - 1,
        expected.len()
    );
    let found = ok(&[&base[..], &["--limit", "5"]].concat());
    assert_eq!(
        found.text().lines().skip(1).collect::<Vec<_>>(),
        expected[..5]
    );
    assert_eq!(
        ok(&["cat", &flights, "--limit", "0", "--columns", "day"]).text(),
        "day\n"
    );
    assert_eq!(
        ok(&["cat", &flights, "--where", "month = 13", "--columns", "day"]).text(),
        "day\n"
    );
}

#[test]
fn columns_of_one_name_keep_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let field = |name| Field::new(name, DataType::Int32, false);
    let schema = Arc::new(Schema::new(vec![field("a"), field("b,\"c\""), field("a")]));
    let column = |values: [i32; 2]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    let batch =
        RecordBatch::try_new(schema, vec![column([1, 2]), column([3, 4]), column([5, 6])]).unwrap();
    let served = serve_batches(folder.path(), &[batch]);
    let table = served.table("t");
    assert_eq!(
        ok(&["cat", &table]).text(),
        "a,\"b,\"\"c\"\"\",a\n1,3,5\n2,4,6\n"
    );
    let columns = "\"b,\"\"c\"\"\",a";
    assert_eq!(
        ok(&["cat", &table, "--columns", columns]).text(),
        "\"b,\"\"c\"\"\",a,a\n3,1,5\n4,2,6\n"
    );
    fails(
        1,
        &["cat", &table, "--format", "ndjson"],
        &["two columns named \"a\""],
    );
    fails(1, &["head", &table, "--json"], &["two columns named \"a\""]);
    assert!(ok(&["head", &table]).text().contains("| 1 | 3"));
}

#[test]
fn dictionaries_that_change_are_joined_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let batch = |words: &[Option<&str>]| {
        let column: DictionaryArray<Int8Type> = words.iter().copied().collect();
        RecordBatch::try_from_iter_with_nullable([("d", Arc::new(column) as ArrayRef, true)])
            .unwrap()
    };
    let batches = [
        batch(&[Some("a"), Some("b")]),
        batch(&[Some("c"), None, Some("a")]),
        batch(&[Some("b")]),
    ];
    let served = serve_batches(folder.path(), &batches);
    let expected = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
    for file in ["a.arrow", "a.arrows", "a.parquet"] {
        let path = folder.path().join(file);
        ok(&[
            "cat",
            &served.table("t?batch_rows=2"),
            "-o",
            path.to_str().unwrap(),
        ]);
        let read = read_back(&path);
        assert_eq!(
            (read.schema(), pretty(&read)),
            (expected.schema(), pretty(&expected)),
            "{file}"
        );
        // What was written can be served in turn.
        if file != "a.parquet" {
            let again = Served::start(&[&table_arg("t", &path)]);
            assert_eq!(
                ok(&["cat", &again.table("t")]).text(),
                "d\na\nb\nc\n\"\"\na\nb\n",
                "{file}"
            );
        }
    }
}

#[test]
fn what_is_wrong_is_named_before_anything_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let items = DataType::new_list(DataType::Int32, true);
    let schema = Schema::new(vec![Field::new("list", items, true)]);
    let nested = folder.path().join("nested.arrow");
    write(&nested, &ipc_file(&[RecordBatch::new_empty(schema.into())]));
    let data = examples();
    let served = Served::start(&[
        "--dir",
        data.to_str().unwrap(),
        &table_arg("nested", &nested),
    ]);
    let flights = served.table("flights");
    fails(
        2,
        &["cat", &flights, "--columns", "carier"],
        &["\"carier\"", "\"carrier\""],
    );
    fails(2, &["cat", &flights, "--columns", ""], &["--columns"]);
    fails(
        2,
        &["cat", &flights, "--where", "month ="],
        &["--where", "SQL"],
    );
    fails(
        2,
        &["cat", &flights, "--where", "moth = 1"],
        &["\"moth\"", "\"month\""],
    );
    fails(
        2,
        &["cat", &flights, "--where", "month = 'x'"],
        &["--where"],
    );
    fails(2, &["cat", &flights, "--format", "xml"], &["xml", "ndjson"]);
    fails(2, &["cat", &flights, "-o", "x.xyz"], &["x.xyz", "--format"]);
    fails(2, &["cat", served.url()], &["/TABLE", "lightstream ls"]);
    fails(2, &["ls", &flights], &["flights"]);
    fails(2, &["ping", &flights], &["flights"]);
    fails(2, &["ls", "flights"], &["scheme"]);
    fails(2, &["query", served.url(), "SELECT 1"], &["query"]);
    fails(
        1,
        &["cat", &served.table("nested")],
        &["\"list\"", "List(Int32)", "CSV"],
    );
    fails(
        3,
        &["cat", &served.table("flihgts")],
        &["flihgts", served.url()],
    );
    fails(3, &["head", &served.table("Flights")], &["Flights"]);
    fails(3, &["schema", &served.table("nothing")], &["nothing"]);
    let nowhere = folder.path().join("no/such/x.csv");
    fails(
        3,
        &["cat", &flights, "-o", nowhere.to_str().unwrap()],
        &["no/such/x.csv"],
    );
    fails(
        1,
        &[
            "cat",
            &flights,
            "--format",
            "csv",
            "-o",
            folder.path().to_str().unwrap(),
        ],
        &["directory"],
    );
}

#[test]
fn nobody_there_is_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("lightstream://{free}");
    fails(5, &["ping", &url], &[&url]);
    fails(5, &["ls", &url, "--json"], &[&url]);
    fails(5, &["cat", &format!("{url}/t")], &[&url]);
    fails(
        5,
        &["ping", "lightstream+unix:///nonexistent/x.sock"],
        &["/nonexistent/x.sock"],
    );
    // Somebody listens, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "lightstream://{}?read_timeout=200ms&retries=0",
        silent.local_addr().unwrap()
    );
    fails(5, &["ping", &url], &["silent"]);
}

#[test]
fn damaged_rows_are_data_loss_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["sound", "needle"]));
    let batch = RecordBatch::try_from_iter([("text", text)]).unwrap();
    let mut bytes = ipc_file(&[batch]);
    let at = bytes
        .windows(6)
        .position(|window| window == b"needle")
        .unwrap();
    bytes[at] = 0xff;
    let path = folder.path().join("damaged.arrow");
    write(&path, &bytes);
    let served = Served::start(&[&table_arg("t", &path)]);
    fails(
        6,
        &["head", &served.table("t")],
        &["damaged.arrow", "\"t\""],
    );
    let out = tempfile::tempdir().unwrap();
    let old = out.path().join("old.csv");
    write(&old, b"what was there");
    fails(
        6,
        &["cat", &served.table("t"), "-o", old.to_str().unwrap()],
        &["damaged.arrow"],
    );
    fails(
        6,
        &[
            "cat",
            &served.table("t"),
            "-o",
            out.path().join("new.arrow").to_str().unwrap(),
        ],
        &["damaged.arrow"],
    );
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 1);
}

#[test]
fn a_file_is_replaced_when_whole_with_its_link_and_rights() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let served = serve_batches(folder.path(), &[rows()]);
    let (file, link) = (
        folder.path().join("old.csv"),
        folder.path().join("link.csv"),
    );
    write(&file, b"what was there");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("old.csv", &link).unwrap();
    ok(&[
        "cat",
        &served.table("t"),
        "--columns",
        "id",
        "-o",
        link.to_str().unwrap(),
    ]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "id\n1\n2\n3\n");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o640
    );
    // A device is written to, not replaced.
    ok(&[
        "cat",
        &served.table("t"),
        "--format",
        "csv",
        "-o",
        "/dev/null",
    ]);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    for format in ["csv", "ndjson", "arrow", "parquet", "table"] {
        let mut child = command(&["cat", &served.table("flights"), "--format", format])
            .spawn()
            .unwrap();
        let mut start = [0; 64];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut start).unwrap();
        drop(out);
        let code = wait(&mut child, DEADLINE);
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{format}");
    }
}
