//! `--http`: what monitors are told, by curl and over a bare socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::*;

/// The whole answer to a request, head and body.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Each series with its value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
    pairs
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

fn metrics(address: &str) -> BTreeMap<String, f64> {
    let (head, body) = ask(address, "GET /metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    series(&body)
}

/// A server with a place for monitors, and that place.
fn watched(args: &[&str]) -> (Served, String) {
    let data = examples();
    let mut all = vec!["--dir", data.to_str().unwrap(), "--http", "127.0.0.1:0"];
    all.extend_from_slice(args);
    let mut served = Served::start(&all);
    let said = served.line();
    let address = said
        .trim_end()
        .strip_prefix("metrics http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap_or_else(|| panic!("no place for monitors in {said:?}"))
        .to_owned();
    (served, address)
}

/// Waits until a series has a value.
fn becomes(address: &str, name: &str, value: f64) -> BTreeMap<String, f64> {
    let start = std::time::Instant::now();
    loop {
        let now = metrics(address);
        if now.get(name) == Some(&value) {
            return now;
        }
        assert!(start.elapsed() < DEADLINE, "{name} is {:?}", now.get(name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn monitors_see_what_was_read_and_what_failed() {
    let (served, address) = watched(&[]);
    let before = metrics(&address);
    assert_eq!(before["lightstream_connections_total"], 0.0);
    ok(&["cat", &served.table("airlines")]);
    fails(3, &["cat", &served.table("absent")], &["absent"]);
    let after = becomes(&address, "lightstream_connections_open", 0.0);
    let of = |name: &str| after.get(name).copied();
    assert_eq!(
        of("lightstream_sent_rows_total{table=\"airlines\"}"),
        Some(16.0)
    );
    let finished = "lightstream_scans_total{table=\"airlines\",outcome=\"finished\"}";
    assert!(of(finished) >= Some(1.0), "{after:?}");
    let errors = |(name, value): (&String, &f64)| {
        name.starts_with("lightstream_request_errors_total")
            && name.contains("not_found")
            && *value > 0.0
    };
    assert!(after.iter().any(errors), "{after:?}");
    assert_eq!(of("lightstream_scans_active"), Some(0.0));
    assert!(of("lightstream_scan_seconds_count") >= Some(1.0));
}

#[test]
fn a_reader_that_leaves_is_seen_to_have_left() {
    let (served, address) = watched(&[]);
    let mut child = command(&["cat", &served.table("flights")]).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    assert!(metrics(&address)["lightstream_connections_open"] >= 1.0);
    child.kill().unwrap();
    child.wait().unwrap();
    let after = becomes(&address, "lightstream_connections_open", 0.0);
    assert_eq!(after["lightstream_scans_active"], 0.0);
    let ended = |outcome: &str| {
        let name = format!("lightstream_scans_total{{table=\"flights\",outcome=\"{outcome}\"}}");
        after.get(&name).copied().unwrap_or_default()
    };
    assert!(
        ended("abandoned") + ended("cancelled") + ended("finished") >= 1.0,
        "{after:?}"
    );
}

#[test]
fn health_tells_that_a_server_drains() {
    let (mut served, address) = watched(&["--drain", "10m"]);
    assert_eq!(ask(&address, "GET /health").1, "ok\n");
    let mut child = command(&["cat", &served.table("flights")]).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    signal(&served.child, "TERM");
    let start = std::time::Instant::now();
    while !ask(&address, "GET /health").0.starts_with("HTTP/1.1 503") {
        assert!(start.elapsed() < DEADLINE, "it does not say that it drains");
    }
    assert_eq!(metrics(&address)["lightstream_draining"], 1.0);
    out.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(wait(&mut served.child, DEADLINE), Some(0));
    child.wait().unwrap();
}

#[test]
fn nothing_else_is_answered() {
    let (_served, address) = watched(&[]);
    assert!(ask(&address, "GET /flights").0.starts_with("HTTP/1.1 404"));
    assert!(ask(&address, "POST /metrics").0.starts_with("HTTP/1.1 405"));
    assert_eq!(ask(&address, "HEAD /health").1, "");
    fails(
        2,
        &["serve", "--dir", ".", "--http", "0.0.0.0:0"],
        &["--insecure"],
    );
}

#[test]
fn curl_reads_the_metrics() {
    if Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped: there is no curl");
        return;
    }
    let (served, address) = watched(&[]);
    ok(&["head", &served.table("planes"), "-n", "3"]);
    let curl = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--include"])
        .arg(format!("http://{address}/metrics"))
        .output()
        .unwrap();
    let said = String::from_utf8(curl.stdout).unwrap();
    assert!(
        curl.status.success(),
        "{}",
        String::from_utf8_lossy(&curl.stderr)
    );
    assert!(
        said.to_lowercase()
            .contains("content-type: text/plain; version=0.0.4")
    );
    assert!(
        said.contains("# TYPE lightstream_connections_total counter")
            || said.contains("# TYPE lightstream_connections counter"),
        "{said}"
    );
}

#[test]
fn the_list_of_metrics_is_whole() {
    let (served, address) = watched(&[]);
    ok(&["cat", &served.table("airlines")]);
    becomes(&address, "lightstream_connections_open", 0.0);
    let (_, text) = ask(&address, "GET /metrics");
    let said: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .map(|name| name.trim_end_matches("_total"))
        .collect();
    let listed: BTreeSet<&str> = include_str!("../../METRICS.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `lightstream_")?.split('`').next())
        .map(|name| name.trim_end_matches("_total"))
        .collect();
    let said: BTreeSet<&str> = said
        .into_iter()
        .map(|name| name.strip_prefix("lightstream_").unwrap())
        .collect();
    assert_eq!(said, listed);
}
