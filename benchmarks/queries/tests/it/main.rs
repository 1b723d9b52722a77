//! The program as it is run, over tables so small that only answers matter.

use std::process::Command;

/// The program ends with an error where systems answer differently, so that success says that they agree.
#[test]
fn all_systems_answer_alike_and_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_queries"))
        .args(["--quick", "--sf=0.001", "--only=wide,q01,q06,q13,q21"])
        .arg("--out")
        .arg(folder.path())
        .output()
        .unwrap();
    let (told, failed) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{told}\n{failed}");
    for line in ["sum-8: lightstream", "where-1%", "TPC-H, 4 queries"] {
        assert!(told.contains(line), "{line:?} is missing in {told}");
    }

    let json = std::fs::read_to_string(folder.path().join("queries.json")).unwrap();
    let records: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let systems = |query: &str| -> Vec<&str> {
        records
            .iter()
            .filter(|record| record["query"] == query)
            .map(|record| record["system"].as_str().unwrap())
            .collect()
    };
    let in_memory = ["local-memory", "lightstream", "flight"];
    assert_eq!(systems("where-0.01%"), in_memory);
    assert_eq!(systems("sum-1"), [&in_memory[..], &["raw-tcp"]].concat());
    let everywhere = [
        "local-memory",
        "local-parquet",
        "lightstream",
        "lightstream-parquet",
        "flight",
    ];
    assert_eq!(systems("q21"), everywhere);
    for record in &records {
        let seconds = record.pointer("/seconds/median").unwrap();
        assert!(seconds.as_f64().unwrap() > 0.0, "{record}");
        let is_remote = !record["system"].as_str().unwrap().starts_with("local");
        assert_eq!(record["wire_bytes"].is_u64(), is_remote, "{record}");
    }
}
