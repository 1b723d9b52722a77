//! SIGINT and SIGTERM, which end a command, and SIGHUP, which makes a server read its files again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Outcome};

/// The signals that ask a process to end. While this exists they do not end it by themselves.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// Takes SIGHUP over; each that comes is one item.
pub fn hang_ups() -> Outcome<Signal> {
    open(SignalKind::hangup())
}

fn open(kind: SignalKind) -> Outcome<Signal> {
    signal(kind).map_err(|error| Failure::failed(format!("signals cannot be received: {error}")))
}

impl Signals {
    /// Takes the signals over.
    pub fn listen() -> Outcome<Self> {
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal and gives its number. Cancel safe.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
