//! Who may connect: tokens shown, refused, renewed and kept out of sight.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use lightstream_core::client::TokenProvider;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{Authenticator, Credentials, Identity, MemoryTable, Server};
use lightstream_core::{Client, Error, ErrorCode, Options, Result, Secret};

/// Takes `<subject>-<version>` while the version is the one that is good.
#[derive(Clone)]
struct Versions {
    good: Arc<AtomicUsize>,
    lifetime: Option<Duration>,
    asked: Arc<AtomicUsize>,
}

impl Versions {
    fn new(lifetime: Option<Duration>) -> Self {
        Self {
            good: Arc::default(),
            lifetime,
            asked: Arc::default(),
        }
    }
}

impl Authenticator for Versions {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials) -> BoxFuture<'a, Result<Identity>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        async move {
            let refused = || Error::unauthenticated("this token is not known");
            let token = credentials.token.as_ref().ok_or_else(refused)?;
            let (subject, version) = token.expose().split_once('-').ok_or_else(refused)?;
            if version != self.good.load(Ordering::SeqCst).to_string() {
                return Err(refused());
            }
            Ok(Identity {
                subject: subject.to_owned(),
                expires: self.lifetime.map(|lifetime| SystemTime::now() + lifetime),
                grants: None,
            })
        }
        .boxed()
    }
}

async fn serve(versions: Versions) -> Server {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    Server::builder()
        .table("t", MemoryTable::try_new(vec![batch]).unwrap())
        .authenticator(versions)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap()
}

async fn count(client: &Client) -> Result<usize> {
    let scan = client.scan(&ScanRequest::table("t")).await?;
    let batches: Vec<RecordBatch> = scan.try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

fn options(token: &str) -> Options {
    Options::default().with("token", token).unwrap()
}

#[tokio::test]
async fn only_who_shows_a_good_token_is_served() {
    let server = serve(Versions::new(None)).await;
    let url = server.url();
    for options in [Options::default(), options("alice-7"), options("nonsense")] {
        let client = Client::new(&url, options).unwrap();
        for code in [
            client.ping().await.unwrap_err(),
            client.tables("").await.unwrap_err(),
            client.describe("t", None).await.unwrap_err(),
            count(&client).await.unwrap_err(),
        ] {
            assert_eq!(code.code(), ErrorCode::Unauthenticated, "{code}");
            assert!(!code.is_retryable() && !code.to_string().contains("alice-7"));
        }
    }
    let client = Client::connect(&url, options("alice-0")).await.unwrap();
    assert_eq!(count(&client).await.unwrap(), 200_000);
    let in_url = Client::connect(&format!("{url}?token=bob-0"), Options::default()).await;
    assert_eq!(count(&in_url.unwrap()).await.unwrap(), 200_000);
}

#[tokio::test]
async fn a_token_is_never_printed() {
    let options = options("alice-0");
    assert!(!format!("{options:?}").contains("alice"), "{options:?}");
    let client = Client::new("lightstream://127.0.0.1:1/t?token=alice-0", options).unwrap();
    for text in [
        format!("{client:?}"),
        client.location().to_string(),
        client.ping().await.unwrap_err().to_string(),
        Options::default()
            .with("token", "")
            .unwrap_err()
            .to_string(),
    ] {
        assert!(!text.contains("alice"), "{text}");
    }
}

#[tokio::test]
async fn a_ticket_is_good_for_whom_it_was_given_to() {
    let server = serve(Versions::new(None)).await;
    let alice = Client::new(&server.url(), options("alice-0")).unwrap();
    let bob = Client::new(&server.url(), options("bob-0")).unwrap();
    let plan = alice.plan(&ScanRequest::table("t")).await.unwrap();
    let partition = &plan.partitions[0];
    let read: Result<Vec<RecordBatch>> = bob.read(partition).try_collect().await;
    assert_eq!(read.unwrap_err().code(), ErrorCode::PermissionDenied);
    let read: Vec<RecordBatch> = alice.read(partition).try_collect().await.unwrap();
    assert!(!read.is_empty());
}

#[tokio::test]
async fn a_token_file_is_read_again_when_its_token_is_refused() {
    let versions = Versions::new(None);
    let server = serve(versions.clone()).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let options = Options::default().with("token_file", path).unwrap();

    let empty = Client::new(&server.url(), options.clone()).unwrap();
    let error = empty.ping().await.unwrap_err();
    assert!(error.to_string().contains("empty"), "{error}");

    std::fs::write(path, "alice-0\n").unwrap();
    let client = Client::connect(&server.url(), options).await.unwrap();
    assert_eq!(count(&client).await.unwrap(), 200_000);
    versions.good.store(1, Ordering::SeqCst);
    // The connection that is open was let in; a new one is not, until the file holds what is good now.
    let second = Client::new(&server.url(), client.options().clone()).unwrap();
    let error = second.ping().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unauthenticated);
    std::fs::write(path, "alice-1").unwrap();
    assert_eq!(count(&second).await.unwrap(), 200_000);
}

/// Gives out one token after the other.
struct Row {
    given: AtomicUsize,
    tokens: Mutex<std::vec::IntoIter<&'static str>>,
}

impl TokenProvider for Row {
    fn token(&self) -> BoxFuture<'_, Result<Secret>> {
        self.given.fetch_add(1, Ordering::SeqCst);
        let next = self.tokens.lock().unwrap().next();
        async move { Ok(Secret::new(next.unwrap_or("alice-0"))) }.boxed()
    }
}

fn row(tokens: Vec<&'static str>) -> Arc<Row> {
    Arc::new(Row {
        given: AtomicUsize::new(0),
        tokens: Mutex::new(tokens.into_iter()),
    })
}

#[tokio::test]
async fn scans_that_are_refused_together_ask_for_one_token() {
    let server = serve(Versions::new(None)).await;
    let provider = row(vec!["alice-9", "alice-0", "nobody"]);
    let client = Client::with_tokens(&server.url(), Options::default(), provider.clone()).unwrap();
    let counts = futures::future::join_all((0..10).map(|_| count(&client))).await;
    for count in counts {
        assert_eq!(count.unwrap(), 200_000);
    }
    assert_eq!(provider.given.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn credentials_that_expire_are_asked_for_again() {
    let lifetime = Duration::from_millis(300);
    let versions = Versions::new(Some(lifetime));
    let server = serve(versions.clone()).await;
    let provider = row(vec!["alice-0"]);
    let fixed = Client::new(&server.url(), options("alice-0")).unwrap();
    assert_eq!(count(&fixed).await.unwrap(), 200_000);
    let client = Client::with_tokens(&server.url(), Options::default(), provider.clone()).unwrap();
    let plan = client.plan(&ScanRequest::table("t")).await.unwrap();
    tokio::time::sleep(lifetime * 2).await;
    versions.good.store(1, Ordering::SeqCst);
    *provider.tokens.lock().unwrap() = vec!["alice-1"].into_iter();
    // Tickets outlive the credentials: the subject is the same.
    let mut rows = 0;
    for partition in &plan.partitions {
        let batches: Vec<RecordBatch> = client.read(partition).try_collect().await.unwrap();
        rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!(rows, 200_000);
    assert_eq!(provider.given.load(Ordering::SeqCst), 2);
    let error = count(&fixed).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unauthenticated);
}
