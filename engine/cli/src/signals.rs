//! Signals with which a person or the system stops a run so that it can be resumed.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Receives SIGINT and SIGTERM. While it exists, they do not end the process, and none is lost before the first wait.
#[derive(Debug)]
pub(crate) struct Interruptions {
    interrupts: Signal,
    terminations: Signal,
}

impl Interruptions {
    /// Starts to receive both signals. Call it before a run takes its first step in this process. Otherwise a signal would end
    /// the process at once and leave calls in progress in doubt.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught = |kind| signal(kind).map_err(|error| Failure::Engine(format!("signals cannot be received: {error}")));
        Ok(Self { interrupts: caught(SignalKind::interrupt())?, terminations: caught(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
        }
    }
}
