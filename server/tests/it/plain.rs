//! Plain mode: Arrow streams from and to the command, with Arrow's own reader and writer at the other end.

use std::io::Write;
use std::net::TcpListener;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;

use crate::harness::*;

/// Gives these bytes to whoever connects first.
fn give(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("arrow+tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.accept()?.0.write_all(&bytes));
    url
}

#[test]
fn a_stream_is_printed() {
    let stream = || give(ipc_stream(&[rows(), rows()]));
    let ran = ok(&["cat", &stream(), "--columns", "id", "--where", "id > 1"]);
    let ids = ran.text().lines().collect::<Vec<_>>();
    assert_eq!(ids.first(), Some(&"id"));
    assert_eq!(ids.len(), 5, "{ids:?}");
    let ran = ok(&["cat", &stream(), "--columns", "id", "--limit", "1"]);
    assert_eq!(ran.text(), "id\n1\n");
    let ran = ok(&["schema", &stream(), "--json"]);
    assert_eq!(ran.json()["columns"][0]["name"], "id");
}

#[test]
fn a_stream_that_is_cut_short_is_data_loss() {
    let mut bytes = ipc_stream(&[rows()]);
    bytes.truncate(bytes.len() - 8);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.parquet");
    let out = file.to_str().unwrap();
    fails(6, &["cat", &give(bytes), "-o", out], &["end marker"]);
    assert!(!file.exists());
}

#[test]
fn rows_are_sent_to_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("served.arrows");
    write(&path, &ipc_stream(&[rows(), rows()]));
    let served = Served::start(&[&table_arg("t", &path)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("arrow+tcp://{}", listener.local_addr().unwrap());
    let reading = std::thread::spawn(move || {
        let reader = StreamReader::try_new(listener.accept().unwrap().0, None).unwrap();
        reader.collect::<Result<Vec<RecordBatch>, _>>().unwrap()
    });
    let table = served.table("t");
    let ran = ok(&["cat", &table, "--format", "arrow", "-o", &url]);
    assert_eq!(ran.text(), "");
    let expected =
        arrow_select::concat::concat_batches(&rows().schema(), &[rows(), rows()]).unwrap();
    let read = reading.join().unwrap();
    let read = arrow_select::concat::concat_batches(&read[0].schema(), &read).unwrap();
    assert_eq!(read, expected);

    fails(
        5,
        &["cat", &table, "-o", &url],
        &["sending to", "arrow+tcp"],
    );
    fails(
        2,
        &["cat", &table, "-o", &url, "--format", "csv"],
        &["Arrow stream"],
    );
    fails(2, &["ls", &url], &["takes no requests"]);
    let here = table_arg("t", &path);
    fails(
        2,
        &["serve", &here, "--listen", &url],
        &["does not serve arrow+tcp"],
    );
}
