//! Runs a test in a process of its own, where its threads, descriptors and memory can be counted.

use std::future::Future;
use std::process::Command;

const VARIABLE: &str = "TEST_IN_ITS_OWN_PROCESS";

/// Runs the body in a process of its own, on a runtime of two threads. `test` is the full name of the test that calls this.
pub fn isolated(test: &str, body: impl Future<Output = ()>) {
    if std::env::var_os(VARIABLE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(body);
    }
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{stdout}{stderr}");
    assert!(output.status.success(), "{test} failed: {}", output.status);
    assert!(stdout.contains("1 passed"), "no test is called {test}");
}
