//! The other processes, and the lines of JSON by which they are told what to do.
//!
//! A peer is a child of this process or, on another host, one that was started there for us.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command as Program, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;

/// Another process, which is told what to do and answers line by line.
pub struct Peer {
    name: String,
    input: Option<Box<dyn Write + Send>>,
    output: Box<dyn BufRead + Send>,
    child: Option<Child>,
}

impl Peer {
    /// Starts a child of this process: this program again, with the name of a role and a specification in JSON.
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

    /// Has a peer started on another host, by whoever listens at this address.
    pub fn dial(address: &str, name: String, spec: &impl Serialize) -> Result<Self> {
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

    /// Tells it what to do and waits for the answer.
    pub fn ask<T: DeserializeOwned>(&mut self, command: impl Serialize) -> Result<T> {
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
pub fn commands<C: DeserializeOwned>() -> impl Iterator<Item = Result<C>> {
    std::io::stdin()
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
}
