//! Signals with which a person or the system stops a run so that it can be resumed.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// The reason of an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// A person or the system asks the program to stop (SIGINT, SIGTERM).
    Stop,
    /// The terminal of the program was closed (SIGHUP). A shell and the system may both report it.
    HangUp,
}

/// Receives SIGINT, SIGTERM and SIGHUP. While it exists, they do not end the process, and none is lost before the first wait.
#[derive(Debug)]
pub(crate) struct Interruptions {
    interrupts: Signal,
    terminations: Signal,
    /// `None` if the program was started with SIGHUP ignored, as `nohup` does.
    hang_ups: Option<Signal>,
}

impl Interruptions {
    /// Starts to receive the signals. Call it before a run takes its first step in this process. Otherwise a signal would end
    /// the process at once and leave calls in progress in doubt.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught = |kind| signal(kind).map_err(|error| Failure::Engine(format!("signals cannot be received: {error}")));
        let hang_ups = if ignores_hang_ups() { None } else { Some(caught(SignalKind::hangup())?) };
        Ok(Self { interrupts: caught(SignalKind::interrupt())?, terminations: caught(SignalKind::terminate())?, hang_ups })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Interruption {
        tokio::select! {
            _ = self.interrupts.recv() => Interruption::Stop,
            _ = self.terminations.recv() => Interruption::Stop,
            () = next_of(&mut self.hang_ups) => Interruption::HangUp,
        }
    }
}

/// Waits for the next signal of `signals`; forever without them.
async fn next_of(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP is ignored in this process. A handler would replace that.
///
/// Asking the system needs `unsafe` code, so this reads the process's own status, which only Linux has.
fn ignores_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 is signal 1, which is SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
