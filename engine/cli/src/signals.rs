//! Signals by which a person or the system ends a run here, so that it can be resumed.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// SIGINT and SIGTERM. While this exists they do not end the process, and none is lost before it is waited for.
#[derive(Debug)]
pub(crate) struct Interruptions {
    interrupts: Signal,
    terminations: Signal,
}

impl Interruptions {
    /// Takes both signals over. To be called before a run takes its first step in this process: whatever it began by then
    /// would be in doubt after a raw end.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught = |kind| signal(kind).map_err(|error| Failure::Engine(format!("signals cannot be received: {error}")));
        Ok(Self { interrupts: caught(SignalKind::interrupt())?, terminations: caught(SignalKind::terminate())? })
    }

    /// Waits for the next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
        }
    }
}
