//! Signs of life of a call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Moment of a call's last sign of life: progress, or output of its command.
#[derive(Clone)]
pub(crate) struct SignsOfLife {
    pub(crate) limit: Duration,
    last: Arc<Mutex<Instant>>,
}

impl SignsOfLife {
    /// Allows silence for at most `limit`.
    pub(crate) fn within(limit: Duration) -> Self {
        Self { limit, last: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Records a sign of life.
    pub(crate) fn show(&self) {
        *self.last() = Instant::now();
    }

    /// Returns once there was none for as long as the limit.
    pub(crate) async fn missing(&self) {
        loop {
            let due = *self.last() + self.limit;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
