//! Paths as tables, and what is said of those that are none.

use std::fs;
use std::path::Path;

use datafusion::prelude::SessionContext;
use lightstream_core::ErrorCode;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_datafusion::serve::register_path;
use tempfile::TempDir;

use crate::serving::*;

async fn count(path: &Path) -> usize {
    let context = SessionContext::new();
    register_path(&context, "My Table", path).await.unwrap();
    let scan = plan(&context, &ScanRequest::table("My Table"))
        .await
        .unwrap();
    read_all(scan.as_ref()).await.num_rows()
}

#[tokio::test]
async fn files_folders_globs_and_odd_names() {
    let folder = TempDir::new().unwrap();
    let sub = folder.path().join("a b%20c [1]? ü");
    fs::create_dir(&sub).unwrap();
    for name in [
        "one.csv",
        "two three.csv",
        "per%cent.csv",
        "per%20cent.csv",
        "br[a]cket.csv",
        "what?.csv",
    ] {
        fs::write(sub.join(name), "n,w\n1,x\n2,y\n").unwrap();
        assert_eq!(count(&sub.join(name)).await, 2, "{name}");
    }
    assert_eq!(count(&sub).await, 12);
    let plain = folder.path().join("plain");
    fs::create_dir(&plain).unwrap();
    for name in ["a1.csv", "a2.csv", "b1.csv", "_SUCCESS", ".hidden"] {
        fs::write(plain.join(name), "n,w\n1,x\n2,y\n").unwrap();
    }
    assert_eq!(count(&plain).await, 6);
    assert_eq!(count(&plain.join("a*.csv")).await, 4);
    assert_eq!(count(&plain.join("?1.csv")).await, 4);
    assert_eq!(count(&folder.path().join("*/a*.csv")).await, 4);
    assert_eq!(count(&folder.path().join("*/*.csv")).await, 18);
    assert_eq!(count(&folder.path().join("**/b1.csv")).await, 2);
}

#[tokio::test]
async fn what_is_no_table_says_why() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("empty")).unwrap();
    fs::create_dir(path.join("mixed")).unwrap();
    fs::write(path.join("mixed/a.csv"), "n\n1\n").unwrap();
    fs::write(path.join("mixed/b.json"), "{\"n\":1}\n").unwrap();
    fs::write(path.join("readme.txt"), "hello").unwrap();
    fs::write(path.join("broken.parquet"), "hello, this is no parquet").unwrap();
    for (name, code, word) in [
        ("missing.parquet", ErrorCode::NotFound, "no such file"),
        ("missing/*.csv", ErrorCode::NotFound, "no file matches"),
        ("empty", ErrorCode::InvalidArgument, "no files"),
        ("mixed", ErrorCode::InvalidArgument, ".json"),
        ("readme.txt", ErrorCode::InvalidArgument, ".txt"),
        ("broken.parquet", ErrorCode::DataLoss, "schema"),
    ] {
        let error = expect_error(register_path(&SessionContext::new(), "t", path.join(name)).await);
        assert_eq!(error.code(), code, "{error}");
        let said = error.to_string();
        assert!(said.contains(word) && said.contains(name), "{said}");
    }
}
