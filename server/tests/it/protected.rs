//! Servers that encrypt and ask who one is.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::{Client, ErrorCode, Options};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::harness::{DEADLINE, Served, command, examples, fails, ok, run, signal, write};

/// Certificates and tokens, as files.
pub struct Papers(TempDir);

impl Papers {
    pub fn new() -> Self {
        let papers = Self(tempfile::tempdir().unwrap());
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        write(&papers.path("ca.pem"), authority.pem().as_bytes());
        let issuer = Issuer::new(params, key);
        for (name, host) in [
            ("server", "127.0.0.1"),
            ("other", "db.example"),
            ("client", "ann"),
        ] {
            let mut params = CertificateParams::new([host.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            write(
                &papers.path(&format!("{name}.pem")),
                certificate.pem().as_bytes(),
            );
            write(
                &papers.path(&format!("{name}.key")),
                key.serialize_pem().as_bytes(),
            );
        }
        papers.grant(&[("all", "\"*\""), ("some", "\"planes\", \"air*\"")]);
        papers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a token file in which each name has the token `t-NAME`.
    fn grant(&self, entries: &[(&str, &str)]) {
        let mut text = String::new();
        for (name, read) in entries {
            let digest = Sha256::digest(format!("t-{name}").as_bytes());
            let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            text +=
                &format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nread = [{read}]\n\n");
        }
        text += "[[token]]\nname = \"old\"\nread = [\"*\"]\nexpires = \"2020-01-01T00:00:00Z\"\n";
        let digest = Sha256::digest(b"t-old");
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("sha256 = \"{hash}\"\n");
        // Renamed into place, so that nobody reads half of it.
        write(&self.path("tokens.new"), text.as_bytes());
        std::fs::rename(self.path("tokens.new"), self.path("tokens.toml")).unwrap();
    }

    fn serve(&self, args: &[&str]) -> Served {
        let data = examples();
        let mut all = vec!["--dir", data.to_str().unwrap()];
        all.extend(args);
        Served::start(&all)
    }

    fn serve_tls(&self, certificate: &str, more: &[&str]) -> Served {
        let (cert, key) = (
            self.text(&format!("{certificate}.pem")),
            self.text(&format!("{certificate}.key")),
        );
        let mut args = vec!["--tls-cert", &cert, "--tls-key", &key];
        args.extend(more);
        self.serve(&args)
    }
}

fn names(ran: &super::harness::Ran) -> Vec<&str> {
    ran.text().lines().collect()
}

#[test]
fn tokens_say_what_is_listed_and_read() {
    let papers = Papers::new();
    let tokens = papers.text("tokens.toml");
    let served = papers.serve(&["--token-file", &tokens]);
    let url = served.url();
    assert_eq!(names(&ok(&["ls", &format!("{url}?token=t-all")])).len(), 5);
    let some = ok(&["ls", &format!("{url}?token=t-some")]);
    assert_eq!(names(&some), ["airlines", "airports", "planes"]);
    ok(&["head", &format!("{url}/planes?token=t-some")]);
    ok(&[
        "head",
        &format!("{url}/planes?username=some&password=t-some"),
    ]);
    write(&papers.path("token"), b"t-some\n");
    ok(&[
        "head",
        &format!("{url}/planes?token_file={}", papers.text("token")),
    ]);
    for command in ["head", "cat", "schema"] {
        fails(
            4,
            &[command, &format!("{url}/flights?token=t-some")],
            &["flights"],
        );
        fails(
            4,
            &[command, &format!("{url}/nothing?token=t-some")],
            &["nothing"],
        );
    }
    fails(4, &["ls", url], &["token"]);
    fails(4, &["ping", url], &["token"]);
    fails(4, &["ls", &format!("{url}?token=wrong")], &["not known"]);
    fails(4, &["ls", &format!("{url}?token=t-old")], &["expired"]);

    // A signal makes it read the file again, and a broken one changes nothing.
    papers.grant(&[("some", "\"weather\"")]);
    signal(&served.child, "HUP");
    let deadline = Instant::now() + DEADLINE;
    while names(&ok(&["ls", &format!("{url}?token=t-some")])) != ["weather"] {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    fails(4, &["ls", &format!("{url}?token=t-all")], &["not known"]);
}

#[test]
fn tls_failures_say_what_is_wrong() {
    let papers = Papers::new();
    let served = papers.serve_tls("server", &[]);
    let url = served.url();
    assert!(url.starts_with("lightstream+tls://127.0.0.1:"), "{url}");
    let ca = papers.text("ca.pem");
    assert_eq!(names(&ok(&["ls", &format!("{url}?tls_ca={ca}")])).len(), 5);
    let strange = papers.text("other.pem");
    fails(
        5,
        &["ls", &format!("{url}?tls_ca={strange}")],
        &["certificate"],
    );
    fails(
        3,
        &["ls", &format!("{url}?tls_ca=/nowhere/ca.pem")],
        &["/nowhere/ca.pem"],
    );
    let plain = url.replace("lightstream+tls", "lightstream");
    fails(5, &["ls", &plain], &["TLS"]);
    fails(2, &["ls", &format!("{url}?tls=off")], &["tls=off"]);
    let unsafe_but_wanted = run(&["ls", &format!("{url}?tls=skip-verify")]);
    assert_eq!(unsafe_but_wanted.code, 0);
    assert!(
        unsafe_but_wanted.err.contains("skip-verify"),
        "{}",
        unsafe_but_wanted.err
    );

    let other = papers.serve_tls("other", &[]);
    let url = other.url();
    fails(
        5,
        &["ls", &format!("{url}?tls_ca={ca}")],
        &["certificate", "name"],
    );
    ok(&[
        "ls",
        &format!("{url}?tls_ca={ca}&tls_server_name=db.example"),
    ]);

    let plain = papers.serve(&[]);
    let secure = plain.url().replace("lightstream", "lightstream+tls");
    fails(
        5,
        &["ls", &format!("{secure}?tls_ca={ca}")],
        &["TLS is not spoken"],
    );
}

#[test]
fn client_certificates_are_asked_for() {
    let papers = Papers::new();
    let ca = papers.text("ca.pem");
    let served = papers.serve_tls("server", &["--tls-client-ca", &ca]);
    let url = served.url();
    let (cert, key) = (papers.text("client.pem"), papers.text("client.key"));
    ok(&[
        "ls",
        &format!("{url}?tls_ca={ca}&tls_cert={cert}&tls_key={key}"),
    ]);
    fails(
        4,
        &["ls", &format!("{url}?tls_ca={ca}")],
        &["client certificate"],
    );
    fails(
        2,
        &["ls", &format!("{url}?tls_ca={ca}&tls_cert={cert}")],
        &["tls_key"],
    );
}

#[test]
fn a_public_address_takes_tls_and_a_token() {
    let papers = Papers::new();
    let data = examples();
    let (cert, key) = (papers.text("server.pem"), papers.text("server.key"));
    let tokens = papers.text("tokens.toml");
    let base = [
        "serve",
        "--dir",
        data.to_str().unwrap(),
        "--listen",
        "lightstream://0.0.0.0:0",
    ];
    let with = |more: &[&str]| {
        let mut args = base.to_vec();
        args.extend(more);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let refused = |more: &[&str], word: &str| {
        let args = with(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fails(2, &args, &[word]);
    };
    refused(&[], "--insecure");
    refused(&["--tls-cert", &cert, "--tls-key", &key], "--token-file");
    refused(&["--token-file", &tokens], "--tls-cert");
    refused(&["--tls-cert", &cert], "--tls-key");
    refused(&["--tls-key", &key], "--tls-cert");
    refused(&["--tls-client-ca", &cert], "--tls-cert");

    let args = with(&[
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--token-file",
        &tokens,
    ]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut child = command(&args).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || lines.next().unwrap().unwrap();
    assert!(line().starts_with("listening on lightstream+tls://0.0.0.0:"));
    let here = line()
        .strip_prefix("on this machine also ")
        .unwrap()
        .to_owned();
    assert_eq!(line(), "transport security: TLS 1.3, tokens");
    let ca = papers.text("ca.pem");
    assert_eq!(
        names(&ok(&["ls", &format!("{here}?tls_ca={ca}&token=t-all")])).len(),
        5
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn papers_that_are_not_in_order_are_named() {
    let papers = Papers::new();
    let data = examples();
    let serve = |more: &[&str], code: i32, words: &[&str]| {
        let mut args = vec!["serve", "--dir", data.to_str().unwrap()];
        args.extend(more);
        fails(code, &args, words);
    };
    let file = |name: &str, text: &str| {
        write(&papers.path(name), text.as_bytes());
        papers.text(name)
    };
    let bad_hash = file("hash.toml", "[[token]]\nname = \"a\"\nsha256 = \"12\"\n");
    serve(&["--token-file", &bad_hash], 2, &["hash.toml", "sha256"]);
    let bad_key = file("key.toml", "[[token]]\nnome = \"a\"\n");
    serve(&["--token-file", &bad_key], 2, &["key.toml", "nome"]);
    serve(&["--token-file", "/nowhere.toml"], 3, &["/nowhere.toml"]);
    let (cert, key, broken) = (
        papers.text("server.pem"),
        papers.text("server.key"),
        file("x.pem", "x"),
    );
    serve(&["--tls-cert", &broken, "--tls-key", &key], 2, &["x.pem"]);
    serve(
        &["--tls-cert", &cert, "--tls-key", "/nowhere.key"],
        3,
        &["/nowhere.key"],
    );
    serve(
        &["--tls-cert", &cert, "--tls-key", &papers.text("other.key")],
        2,
        &["server.pem"],
    );
    serve(
        &["--listen", "lightstream+tls://127.0.0.1:0"],
        2,
        &["--tls-cert"],
    );
    serve(&["--max-scans", "0"], 2, &["--max-scans"]);
    serve(&["--max-connections", "many"], 2, &["--max-connections"]);
    serve(&["--memory-limit", "lots"], 2, &["--memory-limit"]);
}

#[test]
fn a_server_that_is_full_says_so() {
    let papers = Papers::new();
    let served = papers.serve(&["--max-connections", "1", "--max-scans", "1"]);
    let url = served.url();
    ok(&["cat", &format!("{url}/flights"), "--format", "csv"]);
    let held = std::net::TcpStream::connect(url.rsplit_once('/').unwrap().1).unwrap();
    let busy = run(&["ls", &format!("{url}?retries=0")]);
    assert_eq!(busy.code, 1, "{}", busy.err);
    assert!(busy.err.contains("busy"), "{}", busy.err);
    drop(held);
    ok(&["ls", &format!("{url}?retries=20")]);
}

/// Serves the tables `link`, `open`, `parts` and `wages` of a folder, beside which there is what must not be served.
fn serve_folder(papers: &Papers, more: &[&str]) -> Served {
    let at = |name: &str| papers.path(name);
    std::fs::create_dir_all(at("data/parts")).unwrap();
    for file in [
        "secret.csv",
        "data/open.csv",
        "data/wages.csv",
        "data/_hidden.csv",
        "data/.dot.csv",
        "data/parts/1.csv",
    ] {
        write(&at(file), b"n\n1\n");
    }
    write(&at("data/notes.txt"), b"n\n1\n");
    std::os::unix::fs::symlink(at("secret.csv"), at("data/link.csv")).unwrap();
    let folder = papers.text("data");
    let mut args = vec!["--dir", &folder];
    args.extend(more);
    Served::start(&args)
}

/// How a table can be described and its scan be planned, which must be the same.
async fn found(client: &Client, name: &str) -> Result<(), ErrorCode> {
    let described = client.describe(name, None).await.map(drop);
    let planned = client.plan(&ScanRequest::table(name)).await.map(drop);
    let codes = [described, planned].map(|outcome| outcome.map_err(|error| error.code()));
    assert_eq!(codes[0], codes[1], "{name:?}");
    codes[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_never_a_path() {
    let papers = Papers::new();
    let served = serve_folder(&papers, &[]);
    let client = Client::connect(served.url(), Options::default())
        .await
        .unwrap();
    // A link is there because somebody has put it there.
    for name in ["link", "open", "parts", "wages"] {
        assert_eq!(found(&client, name).await, Ok(()), "{name:?}");
    }
    let secret = papers.text("secret.csv");
    let long = ["x".repeat(1 << 20), "../".repeat(100_000) + "secret.csv"];
    for name in [
        "../secret",
        "../secret.csv",
        "parts/../../secret.csv",
        "parts/1",
        "parts/1.csv",
        "parts/",
        "./open",
        "/open",
        "open/",
        "open.csv",
        "link.csv",
        &secret,
        secret.trim_end_matches(".csv"),
        &format!("file://{secret}"),
        "%2e%2e%2fsecret",
        "..%2fsecret.csv",
        "%6fpen",
        "..\\secret",
        "parts\\1",
        "open\0",
        "open\0.csv",
        "\0",
        "_hidden",
        ".dot",
        "notes",
        "notes.txt",
        "OPEN",
        "\u{ff4f}pen",
        "\u{43e}pen",
        "open\u{200b}",
        "open ",
        " open",
        "open\n",
        "\"open\"",
        "open;",
        "*",
        "o*",
        "",
        ".",
        "..",
        "/",
        "information_schema.tables",
        "datafusion.information_schema.tables",
        &long[0],
        &long[1],
    ] {
        let start: String = name.chars().take(100).collect();
        assert_eq!(
            found(&client, name).await,
            Err(ErrorCode::NotFound),
            "{start:?}"
        );
    }
    assert_eq!(found(&client, "open").await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longer_names_of_tables_go_around_no_grant() {
    let papers = Papers::new();
    papers.grant(&[("all", "\"*\""), ("some", "\"p*\", \"datafusion.*\"")]);
    let served = serve_folder(&papers, &["--token-file", &papers.text("tokens.toml")]);
    let connect = async |token: &str| {
        let options = Options::default().with("token", token).unwrap();
        Client::connect(served.url(), options).await.unwrap()
    };
    let (all, some) = (connect("t-all").await, connect("t-some").await);
    for prefix in ["public.", "datafusion.public."] {
        for (table, is_granted) in [("parts", true), ("wages", false), ("absent", false)] {
            let name = format!("{prefix}{table}");
            let expected = match is_granted {
                true => Ok(()),
                false => Err(ErrorCode::NotFound),
            };
            assert_eq!(found(&some, &name).await, expected, "{name}");
            assert_eq!(found(&all, &name).await.is_ok(), table != "absent");
        }
    }
    for name in ["wages", "absent"] {
        assert_eq!(found(&some, name).await, Err(ErrorCode::PermissionDenied));
    }
}
