//! Real processes over real sockets: servers, commands, and files to serve.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Longest wait for anything: far above what a slow machine needs.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightstream"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap()
    }
}

pub fn run(args: &[&str]) -> Ran {
    ran(command(args))
}

pub fn ran(mut command: Command) -> Ran {
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).unwrap();
        text
    });
    let printed = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let code = wait(&mut child, DEADLINE).unwrap_or_else(|| {
        child.kill().unwrap();
        panic!("{command:?} did not end");
    });
    Ran {
        code,
        out: printed.join().unwrap(),
        err: reader.join().unwrap(),
    }
}

/// A command that must succeed without a word on standard error.
pub fn ok(args: &[&str]) -> Ran {
    let ran = run(args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    ran
}

/// A command that must fail with that code, with nothing on standard output, and an error that holds these words.
pub fn fails(code: i32, args: &[&str], words: &[&str]) {
    let ran = run(args);
    assert_eq!(
        (ran.code, String::from_utf8_lossy(&ran.out).as_ref()),
        (code, ""),
        "{args:?}: {}",
        ran.err
    );
    for word in words {
        assert!(
            ran.err.contains(word),
            "{args:?}: {word:?} is not in {}",
            ran.err
        );
    }
    assert!(
        ran.err.starts_with("error: ") && !ran.err.contains("panicked"),
        "{args:?}: {}",
        ran.err
    );
}

/// The exit code, or `None` where it is still running after so long. A signal counts as 128 and its number.
pub fn wait(child: &mut Child, patience: Duration) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let start = Instant::now();
    while start.elapsed() < patience {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(
                status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap()),
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

pub fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status()
            .unwrap()
            .success()
    );
}

/// A server in a process of its own, ended when dropped.
pub struct Served {
    pub child: Child,
    pub urls: Vec<String>,
    out: BufReader<ChildStdout>,
}

impl Served {
    /// Serves at a free port, and at the places that the arguments add.
    pub fn start(args: &[&str]) -> Self {
        Self::start_at("lightstream://127.0.0.1:0", args)
    }

    /// Serves at a place, and at those that the arguments add.
    pub fn start_at(url: &str, args: &[&str]) -> Self {
        let listen = format!("--listen={url}");
        let listening = 1 + args
            .iter()
            .filter(|arg| arg.starts_with("--listen="))
            .count();
        let mut all = vec!["serve", "--quiet", &listen];
        all.extend(args);
        let mut command = command(&all);
        command.stderr(Stdio::inherit());
        Self::spawn(command, listening)
    }

    /// What a command serves at so many places.
    pub fn spawn(mut command: Command, listening: usize) -> Self {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let urls = (0..listening)
            .map(|_| {
                let mut line = String::new();
                out.read_line(&mut line).unwrap();
                line.trim_end()
                    .strip_prefix("listening on ")
                    .unwrap_or_else(|| panic!("{line:?}"))
                    .to_owned()
            })
            .collect();
        Self { child, urls, out }
    }

    /// What it says next.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    pub fn url(&self) -> &str {
        &self.urls[0]
    }

    pub fn table(&self, table: &str) -> String {
        format!("{}/{table}", self.url())
    }
}

impl Served {
    /// Ends the process at once, as SIGKILL does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data")
}

pub fn table_arg(name: &str, path: &Path) -> String {
    format!("--table={name}={}", path.display())
}

/// A few rows of many types.
pub fn rows() -> RecordBatch {
    let days = Date32Array::from(vec![Some(0), None, Some(19_000)]);
    let times = TimestampMicrosecondArray::from(vec![Some(1_700_000_000_123_456), None, Some(0)]);
    let words: DictionaryArray<Int32Type> =
        [Some("red"), None, Some("gr,een")].into_iter().collect();
    let money = Decimal128Array::from(vec![Some(12_345), None, Some(-1)])
        .with_precision_and_scale(20, 2)
        .unwrap();
    let views = StringViewArray::from(vec![
        Some("a text that is longer than twelve"),
        None,
        Some("say \"hi\""),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        (
            "text",
            Arc::new(StringArray::from(vec![
                Some("plain"),
                None,
                Some("naïve, ok"),
            ])),
        ),
        ("view", Arc::new(views)),
        ("word", Arc::new(words)),
        ("money", Arc::new(money)),
        ("day", Arc::new(days)),
        ("time", Arc::new(times.with_timezone("Europe/Berlin"))),
        (
            "ratio",
            Arc::new(Float64Array::from(vec![Some(0.5), None, Some(-1.25)])),
        ),
        (
            "flag",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            "bytes",
            Arc::new(BinaryArray::from_opt_vec(vec![
                Some(b"\x00\xff"),
                None,
                Some(b""),
            ])),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, name != "id")),
    )
    .unwrap()
}

pub fn ipc_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

pub fn ipc_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

pub fn write(path: &Path, bytes: &[u8]) {
    std::fs::File::create(path)
        .unwrap()
        .write_all(bytes)
        .unwrap();
}

/// All rows of a file that `cat` wrote, by its extension.
pub fn read_back(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let (schema, batches): (_, Vec<RecordBatch>) = match path.extension().unwrap().to_str().unwrap()
    {
        "arrow" | "feather" => {
            let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            (reader.schema(), reader.map(Result::unwrap).collect())
        }
        "arrows" => {
            let reader = arrow_ipc::reader::StreamReader::try_new(file, None).unwrap();
            (reader.schema(), reader.map(Result::unwrap).collect())
        }
        "parquet" => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let schema = Arc::clone(reader.schema());
            (
                schema,
                reader.build().unwrap().map(Result::unwrap).collect(),
            )
        }
        other => panic!("{other}"),
    };
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

/// Rows as text, so that dictionaries that differ in layout alone are equal.
pub fn pretty(batch: &RecordBatch) -> String {
    arrow_cast::pretty::pretty_format_batches(std::slice::from_ref(batch))
        .unwrap()
        .to_string()
}
