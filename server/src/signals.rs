//! SIGINT and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Outcome};

/// The signals that ask a process to end. While this exists they do not end it by themselves.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals over.
    pub fn listen() -> Outcome<Self> {
        let open = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("signals cannot be received: {error}")))
        };
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
