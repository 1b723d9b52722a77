//! Connections over TLS: right and wrong set-ups, each with what comes of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{
    Authenticator, Credentials, Identity, MemoryTable, Server, TlsFiles,
};
use lightstream_core::{Client, Error, ErrorCode, Options};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

const ROWS: i64 = 300_000;

/// A certificate authority and what it has signed, as files.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

fn named(params: &mut CertificateParams, name: &str) {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        named(&mut params, "An authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn text(&self, file: &str) -> String {
        self.path(file).to_str().unwrap().to_owned()
    }

    /// Signs a certificate for hosts and keeps it with its key under a name.
    fn sign(&self, name: &str, hosts: &[&str]) -> TlsFiles {
        self.sign_with(name, hosts, |_| ())
    }

    fn sign_with(
        &self,
        name: &str,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> TlsFiles {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        named(&mut params, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = TlsFiles {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            client_ca: None,
        };
        std::fs::write(&files.cert, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// A server on this machine with a certificate for `localhost` and 127.0.0.1.
    async fn serve(&self) -> Server {
        serve(Some(self.sign("server", &["localhost", "127.0.0.1"]))).await
    }

    /// A server that wants certificates of this authority.
    async fn serve_mutual(&self) -> Server {
        let mut files = self.sign("server", &["localhost", "127.0.0.1"]);
        files.client_ca = Some(self.path("ca.pem"));
        serve(Some(files)).await
    }
}

fn table() -> MemoryTable {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    MemoryTable::try_new(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap()
}

async fn serve(files: Option<TlsFiles>) -> Server {
    let mut builder = Server::builder().table("t", table());
    if let Some(files) = files {
        builder = builder.tls(files);
    }
    builder.listen("lightstream://127.0.0.1:0").await.unwrap()
}

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().fold(
        Options::default().with("retries", "0").unwrap(),
        |options, (name, value)| options.with(name, value).unwrap(),
    )
}

async fn sum(client: &Client) -> i64 {
    let reader = client.scan(&ScanRequest::table("t")).await.unwrap();
    let batches: Vec<RecordBatch> = reader.try_collect().await.unwrap();
    let sums = batches.iter().map(|batch| {
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>();
        column.unwrap().values().iter().sum::<i64>()
    });
    sums.sum()
}

async fn works(url: &str, pairs: &[(&str, &str)]) {
    for streams in ["1", "3"] {
        let options = options(pairs).with("streams", streams).unwrap();
        let client = Client::connect(url, options).await.unwrap();
        assert_eq!(sum(&client).await, ROWS * (ROWS - 1) / 2);
    }
}

/// That a connection is refused, with these words, at once and without another attempt.
async fn is_refused(url: &str, pairs: &[(&str, &str)], code: ErrorCode, words: &[&str]) {
    let start = Instant::now();
    let options = options(pairs).with("retries", "3").unwrap();
    let options = options.with("retry_backoff", "30s").unwrap();
    let error = Client::connect(url, options).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(25), "{error}");
    assert_eq!(error.code(), code, "{error}");
    assert!(!error.is_retryable(), "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text}");
    }
    assert!(text.contains(url), "{text}");
}

/// The same place by another scheme or host.
fn elsewhere(server: &Server, scheme: &str, host: &str) -> String {
    let url = server.url();
    let port = url.rsplit_once(':').unwrap().1;
    format!("{scheme}://{host}:{port}")
}

#[tokio::test(flavor = "multi_thread")]
async fn right_certificates_work_by_name_and_address() {
    let authority = Authority::new();
    let server = authority.serve().await;
    assert!(server.url().starts_with("lightstream+tls://127.0.0.1:"));
    let ca = authority.text("ca.pem");
    works(&server.url(), &[("tls_ca", &ca)]).await;
    let by_name = elsewhere(&server, "lightstream+tls", "localhost");
    works(&by_name, &[("tls_ca", &ca)]).await;
    let switched_on = elsewhere(&server, "lightstream", "localhost");
    works(&switched_on, &[("tls_ca", &ca), ("tls", "on")]).await;
    works(&format!("{switched_on}?tls=on&tls_ca={ca}"), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_authority_is_refused_unless_told_not_to_look() {
    let authority = Authority::new();
    let server = authority.serve().await;
    let other = Authority::new();
    let ca = other.text("ca.pem");
    let words = ["certificate", "no authority", "tls_ca"];
    is_refused(
        &server.url(),
        &[("tls_ca", &ca)],
        ErrorCode::Unavailable,
        &words,
    )
    .await;
    works(&server.url(), &[("tls", "skip-verify")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_is_refused_unless_expected() {
    let authority = Authority::new();
    let server = serve(Some(authority.sign("server", &["db.example"]))).await;
    let ca = authority.text("ca.pem");
    let words = ["certificate", "name", "db.example", "tls_server_name"];
    is_refused(
        &server.url(),
        &[("tls_ca", &ca)],
        ErrorCode::Unavailable,
        &words,
    )
    .await;
    works(
        &server.url(),
        &[("tls_ca", &ca), ("tls_server_name", "db.example")],
    )
    .await;
    works(&server.url(), &[("tls", "skip-verify")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_has_expired_is_refused() {
    let authority = Authority::new();
    let files = authority.sign_with("server", &["127.0.0.1"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let server = serve(Some(files)).await;
    let ca = authority.text("ca.pem");
    let words = ["certificate", "expired"];
    is_refused(
        &server.url(),
        &[("tls_ca", &ca)],
        ErrorCode::Unavailable,
        &words,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_certificates_where_they_are_wanted() {
    let authority = Authority::new();
    let server = authority.serve_mutual().await;
    let url = server.url();
    let ca = authority.text("ca.pem");
    let client = authority.sign("client", &["client"]);
    let (cert, key) = (client.cert.to_str().unwrap(), client.key.to_str().unwrap());
    works(
        &url,
        &[("tls_ca", &ca), ("tls_cert", cert), ("tls_key", key)],
    )
    .await;
    // Not to look whom one talks to does not hide who one is.
    works(
        &url,
        &[("tls", "skip-verify"), ("tls_cert", cert), ("tls_key", key)],
    )
    .await;

    let words = ["client certificate", "tls_cert"];
    is_refused(&url, &[("tls_ca", &ca)], ErrorCode::Unauthenticated, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_a_certificate_is_refused() {
    let authority = Authority::new();
    let server = authority.serve_mutual().await;
    let others = Authority::new();
    let client = others.sign("client", &["client"]);
    let shown = [
        ("tls_ca", authority.text("ca.pem")),
        ("tls_cert", client.cert.to_str().unwrap().to_owned()),
        ("tls_key", client.key.to_str().unwrap().to_owned()),
    ];
    let shown: Vec<_> = shown
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    is_refused(
        &server.url(),
        &shown,
        ErrorCode::Unauthenticated,
        &["certificate"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_and_secure_peers_tell_each_other() {
    let authority = Authority::new();
    let secure = authority.serve().await;
    let plain_to_secure = elsewhere(&secure, "lightstream", "127.0.0.1");
    let words = ["TLS", "tls=on"];
    is_refused(&plain_to_secure, &[], ErrorCode::Unavailable, &words).await;

    let plain = serve(None).await;
    let secure_to_plain = elsewhere(&plain, "lightstream+tls", "127.0.0.1");
    let ca = authority.text("ca.pem");
    let words = ["TLS is not spoken", "tls=off"];
    is_refused(
        &secure_to_plain,
        &[("tls_ca", &ca)],
        ErrorCode::Unavailable,
        &words,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_cannot_be_right_are_refused_by_name() {
    let authority = Authority::new();
    let server = authority.serve().await;
    let ca = authority.text("ca.pem");
    let missing = authority.text("nothing.pem");
    let key = authority.text("server.key");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("tls_ca", &key)], "certificate authority"),
        (&[("tls_ca", &ca), ("tls_cert", &ca)], "tls_key"),
        (
            &[("tls_ca", &ca), ("tls_cert", &ca), ("tls_key", &ca)],
            "private key",
        ),
        (
            &[("tls_ca", &ca), ("tls_server_name", "not a name")],
            "not a name",
        ),
        (&[("tls", "off")], "tls=off"),
    ];
    for (pairs, word) in cases {
        let error = Client::connect(&server.url(), options(pairs))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    let files = |cert: &str, key: &str| TlsFiles {
        cert: cert.into(),
        key: key.into(),
        client_ca: None,
    };
    for (cert, key) in [(&missing, &key), (&ca, &missing), (&ca, &key)] {
        let refused = Server::builder()
            .tls(files(cert, key))
            .listen("lightstream://127.0.0.1:0")
            .await
            .unwrap_err();
        let is_missing = [cert, key].contains(&&missing);
        let code = if is_missing {
            ErrorCode::NotFound
        } else {
            ErrorCode::InvalidArgument
        };
        assert_eq!(refused.code(), code, "{refused}");
    }
    let options = options(&[("tls_ca", &missing)]);
    let error = Client::connect(&server.url(), options).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound, "{error}");
    assert!(error.to_string().contains("nothing.pem"), "{error}");
    let without = Server::builder()
        .listen("lightstream+tls://127.0.0.1:0")
        .await
        .unwrap_err();
    assert!(without.to_string().contains("certificate"), "{without}");
    let public = Server::builder()
        .listen("lightstream://0.0.0.0:0")
        .await
        .unwrap_err();
    assert!(public.to_string().contains("certificate"), "{public}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_up_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let server = authority.serve().await;
    let ca = authority.text("ca.pem");
    works(&server.url(), &[("tls_ca", &ca)]).await;

    // Another authority signs from now on.
    let next = Authority::new();
    let files = next.sign("server", &["127.0.0.1"]);
    std::fs::copy(&files.cert, authority.path("server.pem")).unwrap();
    std::fs::copy(&files.key, authority.path("server.key")).unwrap();
    server.reload().unwrap();
    let next_ca = next.text("ca.pem");
    works(&server.url(), &[("tls_ca", &next_ca)]).await;

    std::fs::write(authority.path("server.pem"), "no certificate").unwrap();
    let error = server.reload().unwrap_err();
    assert!(error.to_string().contains("server.pem"), "{error}");
    works(&server.url(), &[("tls_ca", &next_ca)]).await;

    // Nobody has to say that files have changed.
    authority.sign("server", &["127.0.0.1"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while Client::connect(&server.url(), options(&[("tls_ca", &ca)]))
        .await
        .is_err()
    {
        assert!(
            Instant::now() < deadline,
            "the new certificate is not taken up"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Takes certificates, and gives out whose they are.
struct BySubject;

impl Authenticator for BySubject {
    fn authenticate<'a>(
        &'a self,
        credentials: &'a Credentials,
    ) -> BoxFuture<'a, Result<Identity, Error>> {
        Box::pin(async {
            match credentials.certificate.as_deref() {
                Some("CN=client") => Ok(Identity::default()),
                other => Err(Error::unauthenticated(format!("{other:?} is nobody"))),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_says_who_a_client_is() {
    let authority = Authority::new();
    let mut files = authority.sign("server", &["127.0.0.1"]);
    files.client_ca = Some(authority.path("ca.pem"));
    let server = Server::builder()
        .table("t", table())
        .tls(files)
        .authenticator(BySubject)
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let ca = authority.text("ca.pem");
    for (name, is_known) in [("client", true), ("somebody", false)] {
        let files = authority.sign(name, &["any"]);
        let shown = options(&[
            ("tls_ca", &ca),
            ("tls_cert", files.cert.to_str().unwrap()),
            ("tls_key", files.key.to_str().unwrap()),
        ]);
        match Client::connect(&server.url(), shown).await {
            Ok(client) => assert_eq!((sum(&client).await > 0, is_known), (true, true)),
            Err(error) => {
                assert!(!is_known, "{error}");
                assert!(error.to_string().contains("CN=somebody"), "{error}");
            }
        }
    }
}

fn openssl(arguments: &[&str], ca: &Path) -> (bool, String) {
    let output = Command::new("openssl")
        .arg("s_client")
        .args(arguments)
        .args(["-verify_return_error", "-brief", "-CAfile"])
        .arg(ca)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_agrees() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("openssl is not installed: what it says of the server is not tested");
        return;
    }
    let authority = Authority::new();
    let server = authority.serve().await;
    let ca = authority.path("ca.pem");
    let address = server.url().rsplit_once('/').unwrap().1.to_owned();
    let run = |arguments: Vec<String>| {
        let ca = ca.clone();
        tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            openssl(&arguments, &ca)
        })
    };
    let connect = |more: &[&str]| {
        let mut arguments = vec!["-connect".to_owned(), address.clone()];
        arguments.extend(more.iter().map(ToString::to_string));
        arguments
    };
    let (is_fine, text) = run(connect(&["-alpn", "lightstream/1"])).await.unwrap();
    assert!(is_fine && text.contains("TLSv1.3"), "{text}");
    let (is_fine, text) = run(connect(&["-tls1_2"])).await.unwrap();
    assert!(!is_fine, "{text}");
    let (is_fine, text) = run(connect(&["-alpn", "h2"])).await.unwrap();
    assert!(!is_fine, "{text}");
}
