//! Wakes the owner of a run when this process puts a command into the run's inbox, so that nobody polls.

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
            // Two commands may be announced in the other order: the number must not step back.
            sender.send_modify(|newest| *newest = number.max(*newest));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
