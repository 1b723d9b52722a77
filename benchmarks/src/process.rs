//! The other processes, and the lines of JSON by which they are told what to do.
//!
//! A peer is a child of this process or, on another host, one that was started there for us.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command as Program, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::measure::Usage;
use crate::shapes::{Facts, Shape};
use crate::systems::System;
use crate::systems::raw_tcp::Variant;

/// What a sender is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SenderSpec {
    pub system: System,
    pub shape: Shape,
    pub bytes: u64,
    /// The address to listen at; on another host that host's own choice.
    pub host: String,
    /// 0 for any that is free.
    pub port: u16,
}

/// What a sender says once it listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    pub place: Place,
    pub facts: Facts,
}

/// Where a sender listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    Port(u16),
    Path(String),
}

/// What a receiver is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReceiverSpec {
    pub system: System,
    pub shape: Shape,
    pub streams: usize,
    /// The rows are wanted as one stream in the table's order.
    pub ordered: bool,
    /// Everything that is received is kept until the end.
    pub retain: bool,
    pub variant: Option<Variant>,
    pub flight_window: Option<u64>,
    /// The Flight client asks for a plan before it reads.
    pub flight_info: bool,
    pub host: String,
    pub place: Place,
    pub facts: Facts,
}

/// What peers are asked. Each is answered by one line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// To a sender: start counting what you cost. Answered by null.
    Mark,
    /// To a sender: what did it cost? Answered by a [`Usage`].
    Read,
    /// To a receiver: receive the table. Answered by a [`Run`].
    Run,
    /// To a receiver: scan the table of one row. Answered by [`Small`].
    Small {
        /// So often, one after the other.
        alone: usize,
        /// Then by so many tasks at once,
        tasks: usize,
        /// so often each.
        each: usize,
    },
}

/// One table received.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub seconds: f64,
    /// From the request until something was handed out.
    pub first_batch_s: f64,
    pub usage: Usage,
    pub gaps_us: Vec<u32>,
}

/// Many small scans.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Small {
    /// How long each took, one after the other, in nanoseconds.
    pub alone_ns: Vec<u32>,
    /// Scans by several tasks at once, and how long all took.
    pub together: usize,
    pub together_s: f64,
    /// Of the scans together.
    pub usage: Usage,
}

pub struct Peer {
    name: String,
    input: Option<Box<dyn Write + Send>>,
    output: Box<dyn BufRead + Send>,
    child: Option<Child>,
}

impl Peer {
    /// Starts a child of this process.
    pub fn start(role: &str, name: String, spec: &impl Serialize) -> Result<Self> {
        let mut child = spawn(role, &serde_json::to_string(spec)?)?;
        let (input, output) = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .ok_or("a child process without pipes")?;
        Ok(Self {
            name,
            input: Some(Box::new(input)),
            output: Box::new(BufReader::new(output)),
            child: Some(child),
        })
    }

    /// Has a sender started on another host.
    pub fn dial(address: &str, name: String, spec: &SenderSpec) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .map_err(|error| format!("nobody listens at {address}: {error}"))?;
        stream.set_nodelay(true)?;
        let mut input = stream.try_clone()?;
        writeln!(input, "{}", serde_json::to_string(spec)?)?;
        Ok(Self {
            name,
            input: Some(Box::new(input)),
            output: Box::new(BufReader::new(stream)),
            child: None,
        })
    }

    /// Waits for the next answer.
    pub fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("the {} has ended", self.name).into());
        }
        let answer: std::result::Result<T, String> = serde_json::from_str(&line)
            .map_err(|error| format!("the {} said {line:?}: {error}", self.name))?;
        answer.map_err(|error| format!("{}: {error}", self.name).into())
    }

    pub fn ask<T: DeserializeOwned>(&mut self, command: Command) -> Result<T> {
        let input = self.input.as_mut().ok_or("a peer that was let go")?;
        writeln!(input, "{}", serde_json::to_string(&command)?)?;
        input.flush()?;
        self.answer()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input is the sign to end.
        self.input = None;
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// Starts this program again in another role.
pub fn spawn(role: &str, spec: &str) -> Result<Child> {
    Ok(Program::new(std::env::current_exe()?)
        .arg(role)
        .arg(spec)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Says something to the process that started this one.
pub fn say<T: Serialize>(answer: Result<T>) -> Result<()> {
    let answer = answer.map_err(|error| error.to_string());
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&answer)?)?;
    Ok(output.flush()?)
}

/// The commands of the process that started this one, until it ends.
pub fn commands() -> impl Iterator<Item = Result<Command>> {
    std::io::stdin()
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
}
