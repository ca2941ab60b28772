//! Wakes the owner of a run when a command is put into the run's inbox, so that nobody polls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::id::RunId;
use tokio::sync::watch;

/// Who waits for commands, by run. A run is in here only while somebody does.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<HashMap<RunId, watch::Sender<u64>>>);

impl Subscribers {
    /// Starts to listen for commands of `run`.
    pub(crate) fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.entry(run.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Wakes those who listen for `run`: command `number` is in its inbox.
    pub(crate) fn wake(&self, run: &RunId, number: u64) {
        if let Some(sender) = self.lock().get(run) {
            // A command may be announced twice, and two of them in the other order: the number never steps back.
            sender.send_if_modified(|newest| {
                let is_newer = number > *newest;
                *newest = number.max(*newest);
                is_newer
            });
        }
    }

    /// The runs that somebody listens for, each with the newest command that was announced.
    pub(crate) fn announced(&self) -> Vec<(RunId, u64)> {
        self.lock().iter().map(|(run, sender)| (run.clone(), *sender.borrow())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
