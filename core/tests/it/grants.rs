//! Who may connect and what they may see, as a token file says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server, TokenFile};
use lightstream_core::{Client, Error, ErrorCode, Options};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const TABLES: [&str; 4] = ["codes", "sales.2023", "sales.2024", "wages"];

fn hash(token: &str) -> String {
    let digest = Sha256::digest(token.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn entry(name: &str, token: &str, read: &str, more: &str) -> String {
    format!(
        "[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\nread = [{read}]\n{more}\n",
        hash(token)
    )
}

struct Served {
    server: Server,
    path: PathBuf,
    _folder: TempDir,
}

async fn serve(text: &str) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, text).unwrap();
    let mut builder = Server::builder().authenticator(TokenFile::try_new(&path).unwrap());
    for (index, name) in (0..).zip(TABLES) {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000 + index));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        builder = builder.table(name, MemoryTable::try_new(vec![batch]).unwrap());
    }
    Served {
        server: builder.listen("lightstream://127.0.0.1:0").await.unwrap(),
        path,
        _folder: folder,
    }
}

fn with(pairs: &[(&str, &str)]) -> Options {
    pairs
        .iter()
        .fold(Options::default(), |options, (name, value)| {
            options.with(name, value).unwrap()
        })
}

async fn connect(served: &Served, token: &str) -> Result<Client, Error> {
    Client::connect(&served.server.url(), with(&[("token", token)])).await
}

async fn names(client: &Client) -> Vec<String> {
    let tables = client.tables("").await.unwrap();
    tables.into_iter().map(|table| table.name).collect()
}

async fn rows(client: &Client, table: &str) -> Result<usize, Error> {
    let reader = client.scan(&ScanRequest::table(table)).await?;
    let batches: Vec<RecordBatch> = reader.try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_sees_what_it_is_granted_and_nothing_else() {
    let text = entry("all", "t-all", "\"*\"", "")
        + &entry("sales", "t-sales", "\"sales.*\", \"codes\"", "")
        + &entry("none", "t-none", "", "");
    let served = serve(&text).await;
    let all = connect(&served, "t-all").await.unwrap();
    assert_eq!(names(&all).await, TABLES);
    let sales = connect(&served, "t-sales").await.unwrap();
    assert_eq!(names(&sales).await, ["codes", "sales.2023", "sales.2024"]);
    let none = connect(&served, "t-none").await.unwrap();
    assert!(names(&none).await.is_empty());
    for (index, name) in TABLES.into_iter().enumerate() {
        assert_eq!(rows(&all, name).await.unwrap(), 100_000 + index);
        let is_granted = name != "wages";
        assert_eq!(rows(&sales, name).await.is_ok(), is_granted, "{name}");
        assert_eq!(
            sales.describe(name, None).await.is_ok(),
            is_granted,
            "{name}"
        );
    }
    // What is not granted looks like what does not exist.
    for name in [
        "wages", "nothing", "../wages", "wages\0", "sales", "Wages", "",
    ] {
        let error = rows(&sales, name).await.unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::PermissionDenied,
            "{name:?}: {error}"
        );
    }
    let query = ScanRequest::sql("select * from wages");
    let error = sales.plan(&query).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_wrong_missing_or_expired_are_refused() {
    let text = entry(
        "old",
        "t-old",
        "\"*\"",
        "expires = \"2020-01-01T00:00:00Z\"",
    ) + &entry(
        "moment",
        "t-moment",
        "\"*\"",
        "expires = 2020-01-01T00:00:00Z",
    ) + &entry(
        "new",
        "t-new",
        "\"*\"",
        "expires = \"2999-01-01T00:00:00+02:00\"",
    );
    let served = serve(&text).await;
    assert_eq!(
        rows(&connect(&served, "t-new").await.unwrap(), "codes")
            .await
            .unwrap(),
        100_000
    );
    for (token, word) in [
        ("t-old", "expired at 2020"),
        ("t-moment", "expired at 2020"),
        ("t-ne", "not known"),
        ("t-new ", "not known"),
        (hash("t-new").as_str(), "not known"),
    ] {
        let error = connect(&served, token).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unauthenticated, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!error.to_string().contains(token), "{error}");
    }
    let error = Client::connect(&served.server.url(), Options::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("token_file"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_and_its_password_are_an_entry() {
    let text = entry("ann", "secret", "\"codes\"", "") + &entry("bob", "other", "\"*\"", "");
    let served = serve(&text).await;
    let url = served.server.url();
    let ann = Client::connect(&url, with(&[("username", "ann"), ("password", "secret")]));
    assert_eq!(names(&ann.await.unwrap()).await, ["codes"]);
    for (name, password) in [("bob", "secret"), ("ann", "other"), ("eve", "secret")] {
        let options = with(&[("username", name), ("password", password)]);
        let error = Client::connect(&url, options).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unauthenticated, "{error}");
        assert!(!error.to_string().contains(password), "{error}");
    }
    for pairs in [
        &[("username", "ann")][..],
        &[("password", "secret")],
        &[
            ("username", "ann"),
            ("password", "secret"),
            ("token", "secret"),
        ],
    ] {
        let error = Client::connect(&url, with(pairs)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_are_of_no_use_to_others_nor_once_the_grant_is_gone() {
    let text = entry("ann", "t-ann", "\"*\"", "") + &entry("bob", "t-bob", "\"*\"", "");
    let served = serve(&text).await;
    let ann = connect(&served, "t-ann").await.unwrap();
    let bob = connect(&served, "t-bob").await.unwrap();
    let plan = ann.plan(&ScanRequest::table("wages")).await.unwrap();
    let ticket = &plan.partitions[0];
    let count =
        |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(
        count(ann.read(ticket).try_collect().await.unwrap()),
        100_003
    );
    let error = bob.read(ticket).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied, "{error}");

    // A connection that is open has no more leave than a new one.
    std::fs::write(&served.path, entry("ann", "t-ann", "\"codes\"", "")).unwrap();
    served.server.reload().unwrap();
    let error = ann.read(ticket).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied, "{error}");
    assert_eq!(rows(&ann, "codes").await.unwrap(), 100_000);
    let error = rows(&bob, "codes").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unauthenticated, "{error}");

    std::fs::write(&served.path, "[[token]]\nnam").unwrap();
    assert!(served.server.reload().is_err());
    assert_eq!(rows(&ann, "codes").await.unwrap(), 100_000);

    // Nobody has to say that the file has changed.
    std::fs::write(&served.path, entry("bob", "t-bob", "\"codes\"", "")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while rows(&bob, "codes").await.is_err() {
        assert!(Instant::now() < deadline, "the file is not read again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(rows(&ann, "codes").await.is_err());
}

#[test]
fn what_a_file_must_not_say_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let good = hash("x");
    for (text, word) in [
        ("[[token]]\nname = \"a\"\n".to_owned(), "sha256"),
        (format!("[[token]]\nsha256 = \"{good}\"\n"), "name"),
        (
            format!("[[token]]\nname = \"\"\nsha256 = \"{good}\"\n"),
            "empty name",
        ),
        (
            "[[token]]\nname = \"a\"\nsha256 = \"abc\"\n".to_owned(),
            "64 hexadecimal",
        ),
        (
            format!("[[token]]\nname = \"a\"\nsha256 = \"{}\"\n", "z".repeat(64)),
            "64 hexadecimal",
        ),
        (
            format!("[[token]]\nname = \"a\"\nsha256 = \"{good}\"\nreed = []\n"),
            "reed",
        ),
        (
            format!("[[token]]\nname = \"a\"\nsha256 = \"{good}\"\nread = [\"[a\"]\n"),
            "[a",
        ),
        (
            format!("[[token]]\nname = \"a\"\nsha256 = \"{good}\"\nexpires = \"soon\"\n"),
            "soon",
        ),
        (
            format!("[[token]]\nname = \"a\"\nsha256 = \"{good}\"\nexpires = 2030-01-01\n"),
            "2030-01-01",
        ),
        ("[[tokens]]\n".to_owned(), "tokens"),
        ("[[certificate]]\nread = []\n".to_owned(), "subject"),
        ("not toml".to_owned(), "line 1"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let error = TokenFile::try_new(&path).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        let shown = error.to_string();
        assert!(
            shown.contains(word) && shown.contains("tokens.toml"),
            "{word}: {shown}"
        );
    }
    assert!(TokenFile::try_new(folder.path().join("none")).is_err());
}
