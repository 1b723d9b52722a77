//! Two hosts: this one runs the senders that another asks for.
//!
//! Whoever reaches the ports may start senders; there is no check of who that is.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Result;
use crate::messages::SenderSpec;
use crate::process::spawn;
use crate::systems::System;

/// The port where senders are asked for, unless another is named. Those of the systems follow.
const DEFAULT_PORT: u16 = 7700;

/// Splits `lightstream://host:port`, `host:port` or `host`.
pub fn host_and_port(url: &str) -> Result<(String, u16)> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.trim_end_matches('/');
    match rest.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') => {
            let port = port
                .parse()
                .map_err(|error| format!("{url:?} names no port: {error}"))?;
            Ok((host.to_owned(), port))
        }
        _ if rest.is_empty() => Err(format!("{url:?} names no host").into()),
        _ => Ok((rest.to_owned(), DEFAULT_PORT)),
    }
}

/// A system's number among all.
fn place_of(system: System) -> usize {
    let place = System::ALL.iter().position(|&other| other == system);
    place.unwrap_or(System::ALL.len())
}

/// The port of a system's sender.
fn port_of(system: System, control: u16) -> Result<u16> {
    Ok(control
        .checked_add(place_of(system) as u16 + 1)
        .ok_or("there are no ports above this one")?)
}

/// Runs senders for another host until it is stopped.
pub fn listen(url: &str) -> Result<()> {
    let (host, port) = host_and_port(url)?;
    let listener = TcpListener::bind((host.as_str(), port))
        .map_err(|error| format!("cannot listen at {host}:{port}: {error}"))?;
    println!("senders are started on request at {host}:{port}; then");
    for system in System::ALL {
        if system.crosses_hosts() && system.sender() == system {
            println!("  {:<16} {host}:{}", system.name(), port_of(system, port)?);
        }
    }
    println!("on the other host: transport --connect HOST:{port}");
    let ports = Arc::new(System::ALL.map(|_| Mutex::new(())));
    loop {
        let (stream, peer) = listener.accept()?;
        let (host, ports) = (host.clone(), Arc::clone(&ports));
        std::thread::spawn(move || {
            if let Err(error) = serve(stream, host, port, &*ports) {
                eprintln!("transport: a sender for {peer}: {error}");
            }
        });
    }
}

/// One connection is one sender: its lines go to the child's input, the child's output comes back.
///
/// A sender waits for the one before it at the same port to be gone.
fn serve(stream: TcpStream, host: String, control: u16, ports: &[Mutex<()>]) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().ok_or("nothing was asked for")??;
    let spec: SenderSpec = serde_json::from_str(&first)?;
    let port = port_of(spec.system, control)?;
    let turn = ports.get(place_of(spec.system)).map(Mutex::lock);
    let _turn = turn.map(|turn| turn.unwrap_or_else(PoisonError::into_inner));
    let spec = SenderSpec { host, port, ..spec };
    let mut child = spawn("sender", &serde_json::to_string(&spec)?)?;
    let (mut input, output) = child
        .stdin
        .take()
        .zip(child.stdout.take())
        .ok_or("a child process without pipes")?;
    let back = std::thread::spawn(move || -> std::io::Result<()> {
        let mut stream = stream;
        for line in BufReader::new(output).lines() {
            writeln!(stream, "{}", line?)?;
        }
        stream.shutdown(std::net::Shutdown::Both)
    });
    for line in lines {
        let Ok(line) = line else { break };
        if writeln!(input, "{line}").is_err() {
            break;
        }
    }
    drop(input);
    child.wait()?;
    // The other end may be gone already.
    let _ = back.join();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        for (text, host, port) in [
            ("lightstream://0.0.0.0:9000", "0.0.0.0", 9000),
            ("db.example:1", "db.example", 1),
            ("db.example", "db.example", DEFAULT_PORT),
            ("[::1]:5", "[::1]", 5),
        ] {
            assert_eq!(host_and_port(text).unwrap(), (host.to_owned(), port));
        }
        assert!(host_and_port("db:x").is_err() && host_and_port("").is_err());
    }
}
