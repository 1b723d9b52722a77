//! The harness from end to end, over tables so small that their numbers mean nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use serde_json::Value;

const SYSTEMS: [&str; 7] = [
    "raw-tcp",
    "raw-tcp-fresh",
    "lightstream",
    "lightstream-2mib",
    "lightstream-unix",
    "flight",
    "flight-8mib",
];

fn transport(out: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transport"));
    command
        .args(["--rounds=1", "--bytes=3MiB", "--retain-bytes=3MiB", "--out"])
        .arg(out);
    command
}

#[test]
fn every_system_goes_through_every_cell_and_is_reported() {
    let out = tempfile::tempdir().unwrap();
    let ran = transport(out.path())
        .args(["--streams=1,3"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");

    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    let records: Vec<Value> = serde_json::from_str(&read("transport.json")).unwrap();
    for shape in ["numeric", "mixed", "string-heavy", "wide"] {
        for system in SYSTEMS {
            for streams in [1, 3] {
                let found: Vec<_> = records
                    .iter()
                    .filter(|record| {
                        record["system"] == system
                            && record["shape"] == shape
                            && record["streams"] == streams
                    })
                    .collect();
                let expected = match (system, streams) {
                    // Without order, in order, and with all kept.
                    ("lightstream", 1) => 3,
                    ("lightstream", _) | ("flight", 1) => 2,
                    ("lightstream-unix" | "raw-tcp-fresh", 3) => 0,
                    _ => 1,
                };
                assert_eq!(found.len(), expected, "{shape} {system} {streams}");
                for record in found {
                    assert!(record.pointer("/gib_s/median").unwrap().as_f64().unwrap() > 0.0);
                    assert!(record["cpu_s_per_gib"].as_f64().unwrap() > 0.0);
                    assert!(record["peak_rss_bytes"].as_u64().unwrap() > 0);
                }
            }
        }
        assert!(read(&format!("transport-{shape}.svg")).contains("lightstream ordered"));
    }
    let small = records.iter().filter(|record| record["shape"] == "one-row");
    assert_eq!(small.count(), 2);
    let machine: Value = serde_json::from_str(&read("machine.json")).unwrap();
    assert_eq!(machine["rounds"], 1);
    assert!(String::from_utf8_lossy(&ran.stdout).contains("x flight"));
}

#[test]
fn one_host_sends_and_another_receives() {
    let out = tempfile::tempdir().unwrap();
    // Below the ports that the system gives out by itself, so that none of the eight is taken by chance.
    let port = 21_000 + std::process::id() % 1000 * 8;
    let mut sender = Command::new(env!("CARGO_BIN_EXE_transport"))
        .arg(format!("--listen=lightstream://127.0.0.1:{port}"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    for _ in 0..200 {
        if std::net::TcpStream::connect(&address).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let ran = transport(out.path())
        .args(["--streams=2", "--shapes=mixed", "--flight-info"])
        .args(["--connect", &address])
        .output()
        .unwrap();
    sender.kill().unwrap();
    sender.wait().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let text = std::fs::read_to_string(out.path().join("transport.json")).unwrap();
    assert!(text.contains("\"flight_info\":true"));
    for system in SYSTEMS {
        assert_eq!(
            text.contains(&format!("\"{system}\"")),
            system != "lightstream-unix"
        );
    }
}
