//! Signals: servers drain, commands end and clean up.

use std::io::Read;
use std::process::Child;
use std::time::Duration;

use crate::harness::*;

/// Long enough to see that a process goes on.
const A_WHILE: Duration = Duration::from_millis(500);

/// A `cat` of the largest table whose reader has read a little and then paused.
fn slow_reader(served: &Served) -> (Child, std::process::ChildStdout) {
    let mut child = command(&["cat", &served.table("flights")]).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    (child, out)
}

fn finishes_while_the_server_drains(mut served: Served) {
    let (mut reader, mut out) = slow_reader(&served);
    signal(&served.child, "TERM");
    assert_eq!(wait(&mut served.child, A_WHILE), None);
    fails(5, &["ping", &format!("{}?retries=0", served.url())], &[]);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let mut said = String::new();
    reader
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!((wait(&mut reader, DEADLINE), said.as_str()), (Some(0), ""));
    let newlines = rest.iter().filter(|&&byte| byte == b'\n').count();
    assert!((336_760..=336_776).contains(&newlines), "{newlines}");
    assert_eq!(wait(&mut served.child, DEADLINE), Some(0));
}

#[test]
fn scans_under_way_finish_while_a_server_drains() {
    let folder = tempfile::tempdir().unwrap();
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap(), "--drain", "10m"]);
    let mapped = folder.path().join("flights.arrow");
    ok(&[
        "cat",
        &served.table("flights"),
        "-o",
        mapped.to_str().unwrap(),
    ]);
    finishes_while_the_server_drains(served);
    // This one is served by the core itself.
    finishes_while_the_server_drains(Served::start(&[
        &table_arg("flights", &mapped),
        "--drain",
        "10m",
    ]));
}

#[test]
fn a_server_without_work_ends_at_once() {
    let data = examples();
    for name in ["INT", "TERM"] {
        let socket = tempfile::tempdir().unwrap();
        let path = socket.path().join("x.sock");
        let listen = format!("--listen=lightstream+unix://{}", path.display());
        let mut served =
            Served::start(&["--dir", data.to_str().unwrap(), &listen, "--drain", "10m"]);
        ok(&["head", &served.table("flights")]);
        signal(&served.child, name);
        assert_eq!(wait(&mut served.child, DEADLINE), Some(0), "{name}");
        assert!(!path.exists());
    }
}

#[test]
fn a_second_signal_and_the_end_of_patience_end_scans() {
    let data = examples();
    let mut served = Served::start(&["--dir", data.to_str().unwrap(), "--drain", "10m"]);
    let (mut reader, out) = slow_reader(&served);
    signal(&served.child, "TERM");
    assert_eq!(wait(&mut served.child, A_WHILE), None);
    signal(&served.child, "INT");
    assert_eq!(wait(&mut served.child, DEADLINE), Some(130));
    reader.kill().unwrap();
    reader.wait().unwrap();
    drop(out);

    let mut served = Served::start(&["--dir", data.to_str().unwrap(), "--drain", "200ms"]);
    let (mut reader, mut out) = slow_reader(&served);
    signal(&served.child, "TERM");
    assert_eq!(wait(&mut served.child, DEADLINE), Some(0));
    // What was cut off says so.
    let _ = out.read_to_end(&mut Vec::new());
    assert!(matches!(wait(&mut reader, DEADLINE), Some(5 | 6)));
}

#[test]
fn an_interrupted_cat_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = examples();
    let served = Served::start(&["--dir", data.to_str().unwrap()]);
    let file = folder.path().join("flights.csv");
    let mut child = command(&[
        "cat",
        &served.table("flights"),
        "-o",
        file.to_str().unwrap(),
    ])
    .spawn()
    .unwrap();
    let start = std::time::Instant::now();
    while std::fs::read_dir(folder.path()).unwrap().next().is_none() {
        assert!(start.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "INT");
    let code = wait(&mut child, DEADLINE);
    // It may have been done already.
    assert!(
        code == Some(130) && !file.exists() || code == Some(0) && file.exists(),
        "{code:?}"
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        usize::from(file.exists())
    );

    // With its output stuck in a pipe it ends all the same.
    let (mut child, out) = slow_reader(&served);
    signal(&child, "TERM");
    assert_eq!(wait(&mut child, DEADLINE), Some(143));
    drop(out);
}
