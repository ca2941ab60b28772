//! Wakes the owner of a run when a command is put into the run's inbox, so that no owner polls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_types::id::RunId;
use tokio::sync::watch;

/// Subscribers to commands, by run. Runs without subscribers are dropped now and then.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Counts announcements, for those who listen for all runs.
    all: watch::Sender<u64>,
    senders: HashMap<RunId, watch::Sender<u64>>,
    /// Number of runs that remained after the last cleanup.
    left: usize,
}

/// Runs that may be in memory without anybody waiting, beside as many as there are waited for.
const IDLE_RUNS: usize = 64;

impl Subscribers {
    /// Starts to listen for commands of `run`.
    pub(crate) fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        let mut waiting = self.lock();
        // Not at every call: a look at all of them for each of many runs would be quadratic.
        if waiting.senders.len() > 2 * waiting.left + IDLE_RUNS {
            waiting.senders.retain(|_, sender| sender.receiver_count() > 0);
            waiting.left = waiting.senders.len();
        }
        waiting.senders.entry(run.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Starts to listen for commands of all runs.
    pub(crate) fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.lock().all.subscribe()
    }

    /// Wakes those who listen for all runs.
    pub(crate) fn wake_all(&self) {
        self.lock().all.send_modify(|announced| *announced += 1);
    }

    /// Wakes those who listen for `run`: command `number` is in its inbox.
    pub(crate) fn wake(&self, run: &RunId, number: u64) {
        self.wake_all();
        if let Some(sender) = self.lock().senders.get(run) {
            // A command may be announced twice, and two of them in the other order: the number never steps back.
            sender.send_if_modified(|newest| {
                let is_newer = number > *newest;
                *newest = number.max(*newest);
                is_newer
            });
        }
    }

    /// Returns the newest announced command of `run`, if the run has a subscriber.
    pub(crate) fn announced(&self, run: &RunId) -> Option<u64> {
        let waiting = self.lock();
        waiting.senders.get(run).filter(|sender| sender.receiver_count() > 0).map(|sender| *sender.borrow())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
