//! What client and server log: the trace that a request belongs to, and never a secret.

use std::fs::File;
use std::process::Command;

use tempfile::TempDir;

use super::harness::{DEADLINE, Ran, Served, command, examples, ran, signal, wait};
use super::protected::Papers;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A server that asks who one is and writes its log, in all detail, into a file.
struct Logging {
    served: Served,
    folder: TempDir,
    _papers: Papers,
}

impl Logging {
    fn start() -> Self {
        let papers = Papers::new();
        let folder = tempfile::tempdir().unwrap();
        let (data, tokens) = (examples(), papers.text("tokens.toml"));
        let mut command = logged(&[
            "serve",
            "--listen=lightstream://127.0.0.1:0",
            "--dir",
            data.to_str().unwrap(),
            "--token-file",
            &tokens,
        ]);
        command.stderr(File::create(folder.path().join("log")).unwrap());
        Self {
            served: Served::spawn(command, 1),
            folder,
            _papers: papers,
        }
    }

    /// What it has logged, once it has ended in good order and so has said all.
    fn end(mut self) -> String {
        signal(&self.served.child, "TERM");
        assert_eq!(wait(&mut self.served.child, DEADLINE), Some(0));
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

fn logged(args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("LIGHTSTREAM_LOG", "trace");
    command
}

#[test]
fn no_log_holds_a_secret() {
    let server = Logging::start();
    let url = server.served.table("planes");
    let secrets = ["t-all", "t-some", "t-old", "not-a-token", "not-a-password"];
    let mut said = String::new();
    let mut see = |done: Ran, code: i32| {
        assert_eq!(done.code, code, "{}", done.err);
        said += &done.err;
    };
    let by_variable = |name: &str, value: &str| {
        let mut command = logged(&["cat", &url, "--format", "csv"]);
        command.env(name, value);
        ran(command)
    };
    see(by_variable("LIGHTSTREAM_TOKEN", "t-all"), 0);
    see(by_variable("LIGHTSTREAM_TOKEN", "not-a-token"), 4);
    for (query, code) in [
        ("token=t-all", 0),
        ("token=t-old", 4),
        ("username=some&password=t-some", 0),
        ("username=some&password=not-a-password", 4),
    ] {
        let url = format!("{url}?{query}");
        see(ran(logged(&["cat", &url, "--format", "csv"])), code);
        see(ran(logged(&["schema", &url])), code);
    }
    let written = server.end();
    for (whose, text) in [("the server's", &written), ("a client's", &said)] {
        assert!(
            text.contains("DEBUG"),
            "{whose} log has little in it: {text}"
        );
        for secret in secrets {
            assert!(!text.contains(secret), "{whose} log holds {secret}: {text}");
        }
    }
}

#[test]
fn a_server_s_log_names_the_trace_of_a_request() {
    let server = Logging::start();
    let mut cat = command(&["cat", &server.served.table("planes"), "--format", "csv"]);
    cat.env("LIGHTSTREAM_TOKEN", "t-all")
        .env("LIGHTSTREAM_TRACEPARENT", TRACEPARENT);
    let done = ran(cat);
    assert_eq!(done.code, 0, "{}", done.err);
    let written = server.end();
    let of_scan = written.lines().find(|line| line.contains("a scan ended"));
    let of_scan = of_scan.unwrap_or_else(|| panic!("no scan in {written}"));
    for word in [
        "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
        "parent_id=00f067aa0ba902b7",
        "subject=\"all\"",
        "table=\"planes\"",
        "outcome=\"finished\"",
    ] {
        assert!(of_scan.contains(word), "no {word} in {of_scan}");
    }
}
